// SPDX-License-Identifier: Apache-2.0
// A decode method at work on one sequence's cache, step by step: what it keeps, and what it lets go. Recorded steps,
// the live panel and a running model drive it alike, by a DecodeDriver (kernels/decode_driver.h).
//
// A generation is Begin, then for every step Append, Step and, where the method's spec says that it reads the output,
// Attended, then End. Tokens are counted in the sequence wherever a policy keeps them; a step's problem and selection
// count from the first token that the step sees, which differs where the model's own attention has a window.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention_problem.h"
#include "kernels/decode_selection.h"
#include "kernels/run_options.h"
#include "kernels/status.h"

namespace headscope::kernels {

// How RoPE turns a layer's queries and keys: pair i of the components from first_dim on by position * theta^(-2 i /
// num_dims). A pair is components i and num_dims / 2 + i, or 2 i and 2 i + 1 where interleaved.
struct RopeRotation {
  float theta = 0;       // 0: not known
  int32_t num_dims = 0;  // 0: head_dim
  int32_t first_dim = 0;
  bool interleaved = false;
  float attention_factor = 1;  // on cosine and sine
};

// What there is before the first step.
struct DecodePrompt {
  // K and V of the prompt's tokens, seq_k of them; 0: the first step begins the sequence. q: its last seq_q query rows,
  // from position first_position of these tokens on; 0: they are not at hand. window: what they saw, 0: all before.
  AttentionProblem cache;
  int32_t first_token = 0;  // token 0 of `cache` in the sequence
  // Natural-log LSE of those rows, [batch, num_qo_heads, seq_q], or null: the prompt's attention is exp(score - lse).
  const float* lse = nullptr;
  int64_t lse_batch_stride = 0, lse_head_stride = 0;
  int32_t capacity = 0;  // tokens that the sequence will have at most; 0: not known
  int32_t layer = 0;
  int32_t num_layers = 0;  // of the model; 0: not known
  // The rows of q before RoPE, with its shape and dtype; null: not at hand.
  StridedTensor<const void> q_pre_rope = {};
  RopeRotation rope = {};
  // Norms of W_o v of the cache's tokens, [batch, num_qo_heads, seq_k], tokens contiguous; null: not at hand.
  const float* value_norms = nullptr;
  int64_t value_norms_batch_stride = 0, value_norms_head_stride = 0;
  // So that what a policy makes of a long prompt is not made again for each of its ends: how many tokens of the
  // sequence, with their rows of q, are what they were at the policy's last Begin; and the token before whose place it
  // may begin again. 0: not known.
  int32_t unchanged = 0, returns_to = 0;
  // Settings are tried on this prompt one after the other, as by a slider or a search, and nobody measures what it
  // takes to begin: what depends on none of them may be kept for the next.
  bool is_tried_again = false;
};

struct DecodeStep {
  // The new token's query; K and V of the tokens that it sees, its own last.
  AttentionProblem problem;
  int32_t first_token = 0;  // token 0 of `problem` in the sequence
  // What lower layers attend to at this step, by layer, each in tokens of its own problem; null or shorter where the
  // driver does not have them, and NoChoice() of a layer that it has, but whose tokens or KV heads are others. Where a
  // layer chose something for the layers above it, that is its `chosen`.
  std::span<const DecodeSelection* const> lower_layers = {};
};

// What `lower_layers` has of a layer that cannot be reused.
inline DecodeSelection NoChoice() {
  DecodeSelection none;
  none.batch = 0;
  return none;
}

// Tokens that a policy lets go, for good.
class DecodeEvictions {
 public:
  // `list`: sequence * num_kv_heads + KV head. `token`: counted in the sequence.
  void Evict(int64_t list, int32_t token) { tokens_.push_back({list, token}); }

  struct Token {
    int64_t list;
    int32_t token;
  };
  const std::vector<Token>& tokens() const { return tokens_; }

 private:
  std::vector<Token> tokens_;
};

class DecodePolicy {
 public:
  virtual ~DecodePolicy() = default;

  // Forgets what was before. What it evicts is gone from the first step on.
  virtual Status Begin(const DecodePrompt& prompt, const RunOptions& options, DecodeEvictions* evictions) = 0;
  // The cache has grown to step.problem, by one token or more: brings up to date what the policy keeps beside it. The
  // cache's upkeep, and no part of a step's selection.
  virtual Status Append(const DecodeStep& /*step*/, const RunOptions& /*options*/) { return {}; }
  // What the step attends to. What it evicts is gone from the next step on.
  virtual Status Step(const DecodeStep& step, const RunOptions& options, DecodeSelection* selection,
                      DecodeEvictions* evictions) = 0;
  // What attention made of it, on the host: `output` fp32, with lse.
  virtual Status Attended(const DecodeStep& /*step*/, const DecodeSelection& /*selection*/,
                          const AttentionOutput& /*output*/, const RunOptions& /*options*/,
                          DecodeEvictions* /*evictions*/) {
    return {};
  }
  virtual void End() {}
};

}  // namespace headscope::kernels
