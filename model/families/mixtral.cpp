// SPDX-License-Identifier: Apache-2.0
// Mixtral: mistral with a mixture of experts.
#include "checkpoint/strict_json.h"
#include "families/common_keys.h"
#include "families/family_list.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

void Read(const JsonFields& root, ModelConfig* config) {
  ReadExperts(root, "num_local_experts", "intermediate_size", config);
  config->experts.normalised = true;
}

}  // namespace

const Family& Mixtral() {
  static constexpr Family family = [] {
    Family row = LlamaLayout();
    row.model_type = "mixtral";
    row.experts = {
        .router = "block_sparse_moe.gate", .each = "block_sparse_moe.experts.", .gate = "w1", .up = "w3", .down = "w2"};
    row.window = WindowRule::kBySlidingWindow;
    row.absent_window = 0;
    row.absent_norm_eps = 1e-5;
    row.rope.absent_theta = 1e6;
    row.absent_max_positions = 131072;
    row.absent_num_kv_heads = 8;
    row.read = &Read;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
