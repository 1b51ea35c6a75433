// SPDX-License-Identifier: Apache-2.0
#include "network/architecture.h"

#include <array>

namespace headscope::model {
namespace {

constexpr LayerNames kLlamaLayer = {
    .input_norm = "input_layernorm",
    .q = "self_attn.q_proj",
    .k = "self_attn.k_proj",
    .v = "self_attn.v_proj",
    .output = "self_attn.o_proj",
    .q_norm = "self_attn.q_norm",
    .k_norm = "self_attn.k_norm",
    .post_attention_norm = "post_attention_layernorm",
    .gate = "mlp.gate_proj",
    .up = "mlp.up_proj",
    .down = "mlp.down_proj",
};

constexpr ArchitectureRow kLlama = {
    .model_type = "llama",
    .embedding = "model.embed_tokens",
    .final_norm = "model.norm",
    .head = "lm_head",
    .layer_prefix = "model.layers.",
    .layer = kLlamaLayer,
    .qkv_bias = BiasRule::kByAttentionBias,
    .output_bias = BiasRule::kByAttentionBias,
    .has_mlp_bias = true,
    .qk_norm = false,
    .window = WindowRule::kNone,
    .absent_head_dim = 0,
    .absent_max_positions = 2048,
    .absent_num_kv_heads = 0,
};

constexpr ArchitectureRow Mistral() {
  ArchitectureRow row = kLlama;
  row.model_type = "mistral";
  row.qkv_bias = BiasRule::kNever;
  row.output_bias = BiasRule::kNever;
  row.has_mlp_bias = false;
  row.window = WindowRule::kBySlidingWindow;
  row.absent_max_positions = 131072;
  row.absent_num_kv_heads = 8;
  return row;
}

constexpr ArchitectureRow Qwen2() {
  ArchitectureRow row = kLlama;
  row.model_type = "qwen2";
  row.qkv_bias = BiasRule::kAlways;
  row.output_bias = BiasRule::kNever;
  row.has_mlp_bias = false;
  row.window = WindowRule::kByUseSlidingWindow;
  row.absent_max_positions = 32768;
  row.absent_num_kv_heads = 32;
  return row;
}

constexpr ArchitectureRow Qwen3() {
  ArchitectureRow row = Qwen2();
  row.model_type = "qwen3";
  row.qkv_bias = BiasRule::kByAttentionBias;
  row.output_bias = BiasRule::kByAttentionBias;
  row.qk_norm = true;
  row.absent_head_dim = 128;
  return row;
}

constexpr std::array kRows = {kLlama, Mistral(), Qwen2(), Qwen3()};

}  // namespace

std::span<const ArchitectureRow> Architectures() {
  return kRows;
}

const ArchitectureRow* FindArchitecture(std::string_view model_type) {
  for (const ArchitectureRow& row : kRows) {
    if (row.model_type == model_type) return &row;
  }
  return nullptr;
}

}  // namespace headscope::model
