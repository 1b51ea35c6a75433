// The families that headscope runs, one table row each: weight names and the few switches in which they differ.
//
// A row of the same kind of block (pre-norm, gated MLP with SiLU, rotary positions in halves) is data; a family whose
// block differs needs a new switch here, its reader in model_config.cpp, its lines in transformer.cpp, and a test
// against transformers. Only rows that have such a test are listed.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace headscope::capture {

// Where a projection has a bias.
enum class BiasRule : uint8_t { kNever, kAlways, kByAttentionBias };

// When a model's attention has a sliding window, which is refused for now.
enum class WindowRule : uint8_t {
  kNone,                // the family has none
  kBySlidingWindow,     // sliding_window: a number unless null; an absent key means 4096
  kByUseSlidingWindow,  // use_sliding_window or layer_types
};

struct LayerNames {
  std::string_view input_norm, q, k, v, output, q_norm, k_norm, post_attention_norm, gate, up, down;
};

struct ArchitectureRow {
  std::string_view model_type;
  std::string_view embedding, final_norm, head;  // tensor names, without ".weight"
  std::string_view layer_prefix;                 // followed by the layer's number and a dot
  LayerNames layer;
  BiasRule qkv_bias;
  BiasRule output_bias;
  bool has_mlp_bias;  // reads mlp_bias
  bool qk_norm;
  WindowRule window;
  int32_t absent_head_dim;      // when head_dim is absent; 0: hidden_size / heads
  int32_t absent_num_kv_heads;  // when num_key_value_heads is absent; 0: as many as query heads
};

std::span<const ArchitectureRow> Architectures();
// nullptr: not known.
const ArchitectureRow* FindArchitecture(std::string_view model_type);

}  // namespace headscope::capture
