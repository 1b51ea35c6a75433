// SPDX-License-Identifier: Apache-2.0
// OLMoE: norms of q and k over all heads, and a mixture of experts in every layer.
#include "checkpoint/strict_json.h"
#include "families/common_keys.h"
#include "families/family_list.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

void Read(const JsonFields& root, ModelConfig* config) {
  if (root.Has("clip_qkv")) root.RefuseUnsupported("clip_qkv", "is not supported");
  ReadExperts(root, "num_experts", "intermediate_size", config);
  config->experts.normalised = root.Boolean("norm_topk_prob", false);
}

}  // namespace

const Family& Olmoe() {
  static constexpr Family family = [] {
    Family row = LlamaLayout();
    row.model_type = "olmoe";
    row.layer.q_norm = "self_attn.q_norm";
    row.layer.k_norm = "self_attn.k_norm";
    row.experts = NumberedExperts();
    row.qkv_bias = BiasRule::kByAttentionBias;
    row.output_bias = BiasRule::kByAttentionBias;
    row.qk_norm = QkNorm::kAllHeads;
    row.absent_norm_eps = 1e-5;
    row.absent_max_positions = 4096;
    row.read = &Read;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
