// SPDX-License-Identifier: Apache-2.0
// What attention must know of one layer: read once from the configuration, used by the network, written to traces.
#pragma once

#include <cstdint>
#include <vector>

namespace headscope::model {

// The norm of q and k: before RoPE of each head by itself, or of all heads of a token at once; or of each head after
// it.
enum class QkNorm : uint8_t { kNone, kEachHead, kAllHeads, kEachHeadAfterRope };

// Queries far down a text are multiplied by 1 + rate * log(1 + floor((position + shift) / length)); rate 0: none are.
struct QueryGrowth {
  double rate = 0;
  int64_t length = 1;
  int64_t shift = 0;
};

struct AttentionLayer {
  int32_t num_qo_heads = 0;
  int32_t num_kv_heads = 0;  // divides num_qo_heads
  int32_t head_dim = 0;      // of q and k
  int32_t v_head_dim = 0;    // of v and outputs
  double scale = 1;          // multiplies q.k
  double soft_cap = 0;       // score = soft_cap * tanh(scale * q.k / soft_cap); 0: none
  int32_t window = 0;        // tokens that a row sees, itself among them; 0: all before it
  int32_t chunk = 0;         // tokens of a block that attends within itself; 0: none; never beside a window
  int32_t selected = 0;      // keys that a row sees at most, chosen by the layer's own index (IndexRules); 0: all
  QkNorm qk_norm = QkNorm::kNone;
  int32_t rope = 0;  // place in ModelConfig::ropes; -1: the layer turns nothing by position
  QueryGrowth growth = {};
  bool output_gate = false;       // what every channel puts out is multiplied by the sigmoid of a gate
  bool causal = true;             // else every row sees all keys, also later ones: an encoder's
  int32_t kv_layer = -1;          // the layer whose k and v this one reads, one with k and v of its own; -1: its own
  bool v_is_projected_k = false;  // v is made of k's projection, before k's norm and positions
  bool other_mixer = false;       // another token mixer stands in place of attention (MixerRules): no heads
  // A logit for each query head, which joins every row's softmax and has no value; empty: none.
  std::vector<float> sinks = {};
};

}  // namespace headscope::model
