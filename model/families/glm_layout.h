// SPDX-License-Identifier: Apache-2.0
// What the rows of glm and glm4 begin with.
#pragma once

#include "families/family_list.h"

namespace headscope::model {

constexpr Family GlmLayout(std::string_view model_type) {
  Family row = LlamaLayout();
  row.model_type = model_type;
  row.layer.gate_up = "mlp.gate_up_proj";
  row.layer.gate = row.layer.up = {};
  row.qkv_bias = BiasRule::kByAttentionBias;
  row.rope_interleaved = true;
  row.absent_norm_eps = 1.5625e-7;
  row.rope.absent_part = 0.5;
  row.absent_attention_bias = true;
  row.absent_head_dim = 128;
  row.absent_max_positions = 131072;
  row.absent_num_kv_heads = 2;
  return row;
}

}  // namespace headscope::model
