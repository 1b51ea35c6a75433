// SPDX-License-Identifier: Apache-2.0
// What the rows of olmo2, olmo3 and exaone4 begin with: norms behind attention and MLP only, and norms of q and k.
#pragma once

#include <string_view>

#include "families/family_list.h"

namespace headscope::model {

constexpr Family NormsBehindLayout(std::string_view model_type) {
  Family row = LlamaLayout();
  row.model_type = model_type;
  row.layer.input_norm = {};
  row.layer.q_norm = "self_attn.q_norm";
  row.layer.k_norm = "self_attn.k_norm";
  row.layer.attention_output_norm = "post_attention_layernorm";
  row.layer.mlp_norm = {};
  row.layer.mlp_output_norm = "post_feedforward_layernorm";
  row.absent_norm_eps = 1e-5;
  row.absent_max_positions = 2048;
  return row;
}

// OLMo: one norm of all heads of q, and of k.
constexpr Family OlmoLayout(std::string_view model_type) {
  Family row = NormsBehindLayout(model_type);
  row.qkv_bias = BiasRule::kByAttentionBias;
  row.output_bias = BiasRule::kByAttentionBias;
  row.norm = NormKind::kRmsInFp32;
  row.qk_norm = QkNorm::kAllHeads;
  return row;
}

}  // namespace headscope::model
