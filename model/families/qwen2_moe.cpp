// SPDX-License-Identifier: Apache-2.0
// Qwen 1.5 and 2 with a mixture of experts, one of which every token sees through a gate.
#include "checkpoint/strict_json.h"
#include "families/common_keys.h"
#include "families/family_list.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

void Read(const JsonFields& root, ModelConfig* config) {
  ReadExperts(root, "num_experts", "moe_intermediate_size", config);
  ReadSparseLayers(root, config);
  config->experts.normalised = root.Boolean("norm_topk_prob", false);
  config->experts.shared_size = static_cast<int32_t>(root.Integer("shared_expert_intermediate_size", 1, 1 << 24, 5632));
  config->qkv_bias = root.Boolean("qkv_bias", true);
}

}  // namespace

const Family& Qwen2Moe() {
  static constexpr Family family = [] {
    Family row = LlamaLayout();
    row.model_type = "qwen2_moe";
    row.experts = QwenExperts();
    row.window = WindowRule::kByUseSlidingWindow;
    row.absent_max_positions = 32768;
    row.absent_num_kv_heads = 16;
    row.read = &Read;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
