// SPDX-License-Identifier: Apache-2.0
// Seed-OSS: llama with a switch of its own for the bias of the output projection.
#include "checkpoint/strict_json.h"
#include "families/family_list.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

void Read(const JsonFields& root, ModelConfig* config) {
  config->output_bias = root.Boolean("attention_out_bias", false);
}

}  // namespace

const Family& SeedOss() {
  static constexpr Family family = [] {
    Family row = LlamaLayout();
    row.model_type = "seed_oss";
    row.qkv_bias = BiasRule::kByAttentionBias;
    row.mlp_bias = BiasRule::kByMlpBias;
    row.absent_attention_bias = true;
    row.absent_head_dim = 128;
    row.absent_max_positions = 524288;
    row.absent_num_kv_heads = 8;
    row.read = &Read;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
