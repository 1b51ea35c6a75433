// SPDX-License-Identifier: Apache-2.0
// ERNIE 4.5 without experts: interleaved positions, one switch for all biases.
#include "checkpoint/strict_json.h"
#include "families/family_list.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

void Read(const JsonFields& root, ModelConfig* config) {
  config->qkv_bias = config->output_bias = config->mlp_bias = root.Boolean("use_bias", false);
}

}  // namespace

const Family& Ernie45() {
  static constexpr Family family = [] {
    Family row = LlamaLayout();
    row.model_type = "ernie4_5";
    row.rope_interleaved = true;
    row.absent_norm_eps = 1e-5;
    row.rope.absent_theta = 500000;
    row.absent_tied_embeddings = true;
    row.absent_head_dim = 128;
    row.absent_max_positions = 131072;
    row.absent_num_kv_heads = 2;
    row.read = &Read;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
