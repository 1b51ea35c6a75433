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

// Of the later ones, whose layers get something of a token beside its hidden state, and which normalise values.
constexpr Family GemmaWithLayerInputs(std::string_view model_type) {
  Family row = GemmaLayout(model_type);
  row.layer.q_norm = "self_attn.q_norm";
  row.layer.k_norm = "self_attn.k_norm";
  row.layer_input = {.embedding = "model.embed_tokens_per_layer",
                     .projection = "model.per_layer_model_projection",
                     .projection_norm = "model.per_layer_projection_norm",
                     .gate = "per_layer_input_gate",
                     .output = "per_layer_projection",
                     .output_norm = "post_per_layer_input_norm"};
  row.norm = NormKind::kRmsInFp32;
  row.qk_norm = QkNorm::kEachHead;
  row.norms_values = true;
  row.absent_window = 512;
  row.absent_num_heads = 8;
  return row;
}

// Such a model's text inside one that also sees and hears.
constexpr Family GemmaWithImages(const Family& text, std::string_view model_type) {
  Family row = InsideModelWithImages(text, {"model.language_model."});
  row.model_type = model_type;
  row.skipped = {"model.vision_tower.", "model.embed_vision.", "model.audio_tower.", "model.embed_audio."};
  return row;
}

}  // namespace headscope::model
