// SPDX-License-Identifier: Apache-2.0
// For the switch that it has: q, k and v in one tensor by KV head, each with a group of query heads. It is llama with
// its weights in that order (family_logits.py).
#include "families/family_list.h"

namespace headscope::model {

const Family& LlamaByKvHead() {
  static constexpr Family family = [] {
    Family row = LlamaLayout();
    row.model_type = "llama_by_kv_head";
    row.layer.qkv = "self_attn.qkv_proj";
    row.layer.q = row.layer.k = row.layer.v = {};
    row.qkv_layout = QkvLayout::kByKvHead;
    row.qkv_bias = BiasRule::kByAttentionBias;
    row.output_bias = BiasRule::kByAttentionBias;
    row.absent_max_positions = 2048;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
