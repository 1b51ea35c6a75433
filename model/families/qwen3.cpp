// SPDX-License-Identifier: Apache-2.0
#include "families/family_list.h"

namespace headscope::model {

const Family& Qwen3() {
  static constexpr Family family = [] {
    Family row = LlamaLayout();
    row.model_type = "qwen3";
    row.qkv_bias = BiasRule::kByAttentionBias;
    row.output_bias = BiasRule::kByAttentionBias;
    row.layer.q_norm = "self_attn.q_norm";
    row.layer.k_norm = "self_attn.k_norm";
    row.qk_norm = QkNorm::kEachHead;
    row.absent_head_dim = 128;
    row.window = WindowRule::kByUseSlidingWindow;
    row.absent_max_positions = 32768;
    row.absent_num_kv_heads = 32;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
