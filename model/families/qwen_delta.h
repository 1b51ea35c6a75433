// SPDX-License-Identifier: Apache-2.0
// What qwen3_next and qwen3_5 share: layers with a gated delta rule in place of attention, gates of what attention puts
// out, norms about one.
#pragma once

#include "families/family_list.h"

namespace headscope::model {

constexpr Family QwenDeltaLayout(std::string_view model_type) {
  Family row = LlamaLayout();
  row.model_type = model_type;
  row.layer.q_norm = "self_attn.q_norm";
  row.layer.k_norm = "self_attn.k_norm";
  row.mixer.convolution = "linear_attn.conv1d";
  row.mixer.decay = "linear_attn.A_log";
  row.mixer.step_bias = "linear_attn.dt_bias";
  row.mixer.norm = "linear_attn.norm";
  row.mixer.output = "linear_attn.out_proj";
  row.skipped = {"mtp."};
  row.qkv_bias = BiasRule::kByAttentionBias;
  row.output_bias = BiasRule::kByAttentionBias;
  row.norm = NormKind::kRmsAboutOne;
  row.qk_norm = QkNorm::kEachHead;
  row.output_gate = true;
  row.window = WindowRule::kOwn;
  row.rope.absent_part = 0.25;
  row.absent_head_dim = 256;
  row.absent_max_positions = 32768;
  return row;
}

// Which layers have attention (layer_types, or every full_attention_interval-th), and the sizes of the others. Throws
// BadInputError.
void ReadDeltaLayers(const JsonFields& root, ModelConfig* config);

}  // namespace headscope::model
