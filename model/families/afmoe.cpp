// SPDX-License-Identifier: Apache-2.0
// Arcee's Trinity: a gate of what attention puts out with weights of its own, positions in the layers with a window
// alone, norms before and behind attention and MLP, and experts that are chosen by sigmoids with a correction.
#include <cmath>

#include "checkpoint/strict_json.h"
#include "families/common_keys.h"
#include "families/family_list.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

constexpr int32_t kPattern = 4;

void Read(const JsonFields& root, ModelConfig* config) {
  if (root.Boolean("attention_bias", false))
    root.RefuseUnsupported("attention_bias", "true is not supported in this family");
  if (!root.Has("layer_types") && root.Integer("global_attn_every_n_layers", 1, INT32_MAX, kPattern) != kPattern)
    root.RefuseField("layer_types", "is missing", "add it, with the kind of every layer");
  TurnOnlyWindows(config);
  if (root.Boolean("mup_enabled", false)) config->embedding_multiplier = std::sqrt(config->hidden_size);
  ReadExperts(root, "num_experts", "moe_intermediate_size", config);
  ExpertRules& experts = config->experts;
  experts.score = RouterScore::kSigmoid;
  experts.normalised = true;
  experts.factor = root.Number("route_scale", 1.0);
  constexpr int64_t kMostShared = 64;
  experts.shared_size =
      static_cast<int32_t>(root.Integer("num_shared_experts", 1, kMostShared, 2)) * experts.inner_size;
  const int64_t dense = root.Integer("num_dense_layers", 0, config->num_layers, 1);
  for (int64_t layer = 0; layer < dense; ++layer) experts.layers[static_cast<size_t>(layer)] = false;
}

}  // namespace

const Family& Afmoe() {
  static constexpr Family family = [] {
    Family row = LlamaLayout();
    row.model_type = "afmoe";
    row.layer.gate_of_output = "self_attn.gate_proj";
    row.layer.q_norm = "self_attn.q_norm";
    row.layer.k_norm = "self_attn.k_norm";
    row.layer.attention_output_norm = "post_attention_layernorm";
    row.layer.mlp_norm = "pre_mlp_layernorm";
    row.layer.mlp_output_norm = "post_mlp_layernorm";
    row.experts = NumberedExperts();
    row.experts.router = "mlp.router.gate";
    row.experts.correction = "mlp.expert_bias";
    row.experts.shared_gate = "mlp.shared_experts.gate_proj";
    row.experts.shared_up = "mlp.shared_experts.up_proj";
    row.experts.shared_down = "mlp.shared_experts.down_proj";
    row.norm = NormKind::kRmsInFp32;
    row.output_gate = true;
    row.qk_norm = QkNorm::kEachHead;
    row.window = WindowRule::kByPattern;
    row.absent_window = 1024;
    row.absent_window_pattern = kPattern;
    row.absent_norm_eps = 1e-5;
    row.absent_head_dim = 128;
    row.absent_max_positions = 16384;
    row.read = &Read;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
