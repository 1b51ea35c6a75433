// SPDX-License-Identifier: Apache-2.0
// Blocks of scores on the CPU: the primitive under every statistic, selector estimate and heatmap tile.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/attention_problem.h"
#include "kernels/run_options.h"
#include "kernels/status.h"

namespace headscope::kernels {

// fp32 copies of a head's keys, packed for the score kernel: rearranged once (O(seq_k * head_dim)), then used for any
// number of blocks.
class PackedKeys {
 public:
  PackedKeys() = default;
  // k: row-major [seq_k, head_dim] of `dtype`, rows `row_stride` elements apart. Throws std::bad_alloc when memory is
  // exhausted.
  PackedKeys(const void* k, DType dtype, int64_t row_stride, int32_t seq_k, int32_t head_dim);
  // The same of groups of `size` neighbours, each of which is one key of size * head_dim: its last row first and its
  // first row last, zeros in the place of rows that the last group lacks.
  static PackedKeys OfGroups(const void* k, DType dtype, int64_t row_stride, int32_t seq_k, int32_t head_dim,
                             int32_t size);
  int32_t seq_k() const { return seq_k_; }
  int32_t head_dim() const { return head_dim_; }
  const float* data() const { return data_.get(); }

 private:
  PackedKeys(int32_t seq_k, int32_t head_dim);  // room for them
  struct Free {
    void operator()(float* p) const;
  };
  int32_t seq_k_ = 0;
  int32_t head_dim_ = 0;
  std::unique_ptr<float[], Free> data_;  // 64-byte aligned
};

// scores[i * ld + j] = cap(scale * q_i . k_{column_begin + j}) for i < num_rows, column_begin <= column < column_end;
// no mask is applied. q: fp32 [num_rows, head_dim], rows q_stride elements apart. Single-threaded: callers split rows
// over threads, and columns into blocks of some 512, whose scores stay in the L2 cache (16,384 columns at once take
// about twice as long per score). ld >= column_end - column_begin.
void ScoreBlock(const float* q, int64_t q_stride, int32_t num_rows, const PackedKeys& keys, int32_t column_begin,
                int32_t column_end, float scale, float soft_cap, float* scores, int64_t ld);

// In place: row[j] = exp(row[j] - shift), j < n; returns the sum in fp32 (blocked summation; relative error <= 1e-6).
// -inf gives 0. Relative error of one exp <= 4e-7 for arguments >= -86.6; below (results under 2.5e-38) it is 0.
float ExpInPlace(float* row, int64_t n, float shift);
float MaxOf(const float* row, int64_t n);  // -inf for n == 0

struct RowShare {
  int64_t count = 0;
  double sum = 0;  // in float64, by lanes
};
// Moves the values above `bound` to the front, and leaves both groups in their order; returns what is in front. Values
// and bound order by their bits as whole numbers with a sign, which is the floats' order where they are 0 or more, and
// an order also where a damaged file made a NaN of them. scratch: room for n.
RowShare MoveAboveToFront(float* values, int64_t n, float bound, float* scratch);

// Natural-log LSE of every row under causality: lse[head, row], for all rows, in one streaming pass; nothing of size
// seq_q * seq_k is held. `window` > 0 restricts to the newest `window` positions. Threads as in options. A row that
// sees no key gives -inf. head_dim: a multiple of 8 up to 256.
Status RowLse(const AttentionProblem& problem, int32_t window, const RunOptions& options, float* lse);

}  // namespace headscope::kernels
