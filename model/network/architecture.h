// SPDX-License-Identifier: Apache-2.0
// The families that headscope runs, one table row each: weight names and the few switches in which they differ.
//
// A row of the same kind of block (pre-norm, gated MLP with SiLU, rotary positions in halves) is data; a family whose
// block differs needs a new switch here, its reader in model_config.cpp, its lines in transformer.cpp, and a test
// against transformers. Only rows that have such a test are listed.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace headscope::model {

// Where a projection has a bias.
enum class BiasRule : uint8_t { kNever, kAlways, kByAttentionBias };

// Which layers of a model have a sliding window.
enum class WindowRule : uint8_t {
  kNone,                // the family has none
  kBySlidingWindow,     // every layer, of sliding_window tokens; null means none, and an absent key 4096
  kByUseSlidingWindow,  // with use_sliding_window, those that layer_types names, or those from max_window_layers on
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
  int32_t absent_head_dim;       // when head_dim is absent; 0: hidden_size / heads
  int64_t absent_max_positions;  // when max_position_embeddings is absent
  int32_t absent_num_kv_heads;   // when num_key_value_heads is absent; 0: as many as query heads
};

std::span<const ArchitectureRow> Architectures();
// nullptr: not known.
const ArchitectureRow* FindArchitecture(std::string_view model_type);

}  // namespace headscope::model
