// SPDX-License-Identifier: Apache-2.0
// OLMo 3: as OLMo 2, with windows in three of four layers, whose positions are never stretched.
#include "families/common_keys.h"
#include "families/family_list.h"

namespace headscope::model {
namespace {

void ReadRopes(const JsonFields& root, ModelConfig* config) {
  constexpr RopeKeys keys = {.absent_theta = 500000};
  ReadRopesByWindow(root, keys, keys, config);
}

}  // namespace

const Family& Olmo3() {
  static constexpr Family family = [] {
    Family row = LlamaLayout();
    row.model_type = "olmo3";
    row.layer.input_norm = {};
    row.layer.q_norm = "self_attn.q_norm";
    row.layer.k_norm = "self_attn.k_norm";
    row.layer.attention_output_norm = "post_attention_layernorm";
    row.layer.mlp_norm = {};
    row.layer.mlp_output_norm = "post_feedforward_layernorm";
    row.qkv_bias = BiasRule::kByAttentionBias;
    row.output_bias = BiasRule::kByAttentionBias;
    row.norm = NormKind::kRmsInFp32;
    row.qk_norm = QkNorm::kAllHeads;
    row.window = WindowRule::kByPattern;
    row.absent_window_pattern = 4;
    row.absent_norm_eps = 1e-5;
    row.absent_max_positions = 2048;
    row.read_ropes = &ReadRopes;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
