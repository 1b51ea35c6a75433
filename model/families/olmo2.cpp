// SPDX-License-Identifier: Apache-2.0
// OLMo 2: norms after attention and MLP only, one norm of all heads of q, and of k.
#include "families/family_list.h"

namespace headscope::model {

const Family& Olmo2() {
  static constexpr Family family = [] {
    Family row = LlamaLayout();
    row.model_type = "olmo2";
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
    row.absent_norm_eps = 1e-5;
    row.absent_max_positions = 2048;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
