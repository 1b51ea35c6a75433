// SPDX-License-Identifier: Apache-2.0
// The last queries of a layer's prompt, with their log-sum-exp: what decode methods that learn from the prompt begin
// with. The model itself forgets them with the pass that made them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/attention_problem.h"
#include "kernels/decode_policy.h"

namespace headscope::sparse_model {

class QueryRows {
 public:
  // Keeps `most` rows, and some behind them, so that a sequence may be taken back by as many tokens and go on.
  explicit QueryRows(int32_t most) : most_(most) {}

  // Rows that Append() needs of a pass of `num_rows`: its last ones.
  int64_t Wanted(int64_t num_rows) const;
  // A pass's last rows (host memory, batch 1), Wanted() of them, with `lse` [num_qo_heads, seq_q]. `first`: the
  // position of the first in the sequence. Rows that do not follow those before take their place.
  // plain_q: the same rows of q before RoPE, of q's shape and dtype; data null: not at hand.
  void Append(const kernels::AttentionProblem& rows, int64_t first, const float* lse,
              const kernels::StridedTensor<const void>& plain_q = {});
  // The sequence forgot its tokens after the first `num_tokens`.
  void Rewind(int64_t num_tokens);
  // Sets q, q before RoPE where every row had it, seq_q, first_position and the LSE of a prompt whose K and V are
  // there: the rows that end where it ends. None where they are not at hand. Valid until the next call.
  void Show(kernels::DecodePrompt* prompt);

 private:
  static constexpr int64_t kSpareRows = 256;

  const int32_t most_;
  struct Rows {
    int64_t first = 0, count = 0;  // positions
    std::vector<std::byte> q;      // [count, num_qo_heads, head_dim]
    std::vector<std::byte> plain;  // as q, before RoPE; empty: not at hand
    std::vector<float> lse;        // [count, num_qo_heads]
  };
  int64_t num_heads_ = 0, head_dim_ = 0, element_bytes_ = 0;
  Rows rows_, replaced_;      // replaced_: those whose place the last pass's took, should that be taken back
  std::vector<float> shown_;  // [num_qo_heads, rows]
};

}  // namespace headscope::sparse_model
