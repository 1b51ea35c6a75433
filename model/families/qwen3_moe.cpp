// SPDX-License-Identifier: Apache-2.0
// Qwen 3 with a mixture of experts.
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
  // A window of this family is of all layers.
  if (!root.Boolean("use_sliding_window", false))
    for (AttentionLayer& layer : config->layers) layer.window = 0;
}

}  // namespace

const Family& Qwen3Moe() {
  static constexpr Family family = [] {
    Family row = LlamaLayout();
    row.model_type = "qwen3_moe";
    row.layer.q_norm = "self_attn.q_norm";
    row.layer.k_norm = "self_attn.k_norm";
    row.experts = NumberedExperts();
    row.qkv_bias = BiasRule::kByAttentionBias;
    row.output_bias = BiasRule::kByAttentionBias;
    row.qk_norm = QkNorm::kEachHead;
    row.window = WindowRule::kBySlidingWindow;
    row.absent_max_positions = 32768;
    row.absent_num_kv_heads = 4;
    row.read = &Read;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
