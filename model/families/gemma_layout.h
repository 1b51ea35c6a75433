// SPDX-License-Identifier: Apache-2.0
// What gemma2 and gemma3 have in common: norms around attention and MLP, windows in turn, and a scale of their own.
#pragma once

#include <string_view>

#include "checkpoint/strict_json.h"
#include "families/family_list.h"
#include "model/model_config.h"

namespace headscope::model {

// The embeddings' factor and every layer's scale. Refuses bidirectional attention.
void ReadGemmaScales(const JsonFields& root, ModelConfig* config);

constexpr Family GemmaLayout(std::string_view model_type) {
  Family row = LlamaLayout();
  row.model_type = model_type;
  row.layer.attention_output_norm = "post_attention_layernorm";
  row.layer.mlp_norm = "pre_feedforward_layernorm";
  row.layer.mlp_output_norm = "post_feedforward_layernorm";
  row.qkv_bias = BiasRule::kByAttentionBias;
  row.output_bias = BiasRule::kByAttentionBias;
  row.norm = NormKind::kRmsAboutOne;
  row.window = WindowRule::kByPattern;
  row.activation_key = "hidden_activation";
  row.absent_activation = "gelu_pytorch_tanh";
  row.absent_tied_embeddings = true;
  row.absent_head_dim = 256;
  row.absent_num_kv_heads = 4;
  return row;
}

}  // namespace headscope::model
