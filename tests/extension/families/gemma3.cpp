// SPDX-License-Identifier: Apache-2.0
// For the switches that it has: positions that differ from layer to layer, norms of q and k.
#include <cmath>

#include "checkpoint/read_rope_config.h"
#include "checkpoint/strict_json.h"
#include "families/family_list.h"
#include "model/model_config.h"

namespace headscope::model {
namespace {

void ReadRopes(const JsonFields& root, ModelConfig* config) {
  for (const char* kind : {"full_attention", "sliding_attention"})
    config->ropes.push_back(ReadRopeConfig(root, config->head_dim, config->max_positions, kind));
  for (AttentionLayer& layer : config->layers) layer.rope = layer.window > 0 ? 1 : 0;
}

void Read(const JsonFields& root, ModelConfig* config) {
  config->embedding_multiplier = std::sqrt(static_cast<double>(config->hidden_size));
  const double scalar = root.Number("query_pre_attn_scalar", 256.0);
  for (AttentionLayer& layer : config->layers) layer.scale = 1 / std::sqrt(scalar);
}

}  // namespace

const Family& Gemma3() {
  static constexpr Family family = [] {
    Family row = LlamaLayout();
    row.model_type = "gemma3_text";
    row.layer.q_norm = "self_attn.q_norm";
    row.layer.k_norm = "self_attn.k_norm";
    row.layer.attention_output_norm = "post_attention_layernorm";
    row.layer.mlp_norm = "pre_feedforward_layernorm";
    row.layer.mlp_output_norm = "post_feedforward_layernorm";
    row.norm = NormKind::kRmsAboutOne;
    row.qk_norm = QkNorm::kEachHead;
    row.window = WindowRule::kByPattern;
    row.absent_window_pattern = 6;
    row.activation_key = "hidden_activation";
    row.absent_activation = "gelu_pytorch_tanh";
    row.absent_tied_embeddings = true;
    row.absent_head_dim = 256;
    row.absent_max_positions = 131072;
    row.absent_num_kv_heads = 4;
    row.read_ropes = &ReadRopes;
    row.read = &Read;
    return row;
  }();
  return family;
}

}  // namespace headscope::model
