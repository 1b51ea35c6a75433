// SPDX-License-Identifier: Apache-2.0
// What Gemma 2 and its successors have in common: norms around attention and MLP, windows in turn, and a scale of their
// own.
#pragma once

#include <cstdint>
#include <string_view>

#include "checkpoint/strict_json.h"
#include "families/family_list.h"
#include "model/model_config.h"

namespace headscope::model {

// The embeddings' factor and every layer's scale. Refuses bidirectional attention.
void ReadGemmaScales(const JsonFields& root, ModelConfig* config);

// Layers are told apart by their windows, and one that never hides a token would count as none: refuses it.
void RefuseEndlessWindow(const JsonFields& root);

// num_kv_shared_layers: the last layers read keys and values of the last layer of their kind before them. Returns the
// first of them, or the number of layers.
int64_t ReadKvSharing(const JsonFields& root, int64_t absent, ModelConfig* config);

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
