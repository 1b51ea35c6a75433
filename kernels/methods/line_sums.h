// SPDX-License-Identifier: Apache-2.0
// Attention mass along columns and along diagonals, summed over a few probed query rows: the estimate of vertical-slash
// and SampleAttention.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/attention_problem.h"
#include "kernels/cpu_scores.h"
#include "kernels/run_options.h"

namespace headscope::kernels::internal {

// Both have one entry per visible key: columns[j] = sum over probed rows i of P[i][j]; slashes[o] = sum over probed
// rows of P[i][position(i) - o]. P is the exact causal softmax of the probed rows, inside the problem's window where it
// has one. Deep diagonals have fewer terms;
// nothing is normalised (MInference states none).
struct LineSums {
  std::vector<float> columns;
  std::vector<float> slashes;
};

// Calls take(begin, end) with the columns that diagonals [size * stripe, size * stripe + size - 1] meet in the block of
// `size` rows from `first_position` on: whole key blocks, whatever that position is.
template <typename Take>
void TakeSlashStripe(int64_t stripe, int64_t size, int64_t first_position, Take&& take) {
  // Keys [first - size * stripe - (size - 1), last - size * stripe].
  const int64_t begin = first_position - (stripe + 1) * size + 1;
  const int64_t last = first_position + size - 1 - stripe * size;
  if (last >= 0) take(std::max<int64_t>(begin, 0) / size * size, (last / size + 1) * size);
}

// Keys of one KV head up to the last that a query sees, packed for ScoreBlock.
PackedKeys PackVisibleKeys(const AttentionProblem& problem, int32_t sequence, int32_t kv_head);

// Sums over query rows [row_begin, row_end) of one head. Cost: 2 * rows * keys * head_dim floating-point operations.
// Row order is fixed, so the result does not depend on threads. Returns early, with unusable sums, when cancelled.
class LineProbe {
 public:
  LineProbe(const AttentionProblem& problem, const RunOptions& options) : problem_(problem), options_(options) {}
  void Sum(const PackedKeys& keys, int32_t sequence, int32_t head, int32_t row_begin, int32_t row_end, LineSums* sums);
  // The same without slashes, which are left empty. `lse`: the model's own natural-log LSE of the head's rows, row 0
  // first: P is then exp(score - lse), with what keys that are not here and a sink have of a row left out. Null: P is
  // the softmax of the keys and of the head's learned sink, if the problem has any; Sum's is of the keys alone.
  void SumColumns(const PackedKeys& keys, int32_t sequence, int32_t head, int32_t row_begin, int32_t row_end,
                  const float* lse, LineSums* sums);
  // Goes on from sums.columns of the rows before row_begin: the same numbers as of all rows at once.
  void AddColumns(const PackedKeys& keys, int32_t sequence, int32_t head, int32_t row_begin, int32_t row_end,
                  const float* lse, LineSums* sums);

 private:
  // sink: of the head, or null.
  void Probe(const PackedKeys& keys, int32_t sequence, int32_t head, int32_t row_begin, int32_t row_end,
             const float* lse, const float* sink, LineSums* sums);
  void AddRow(float* scores, int64_t num_columns, const float* lse, const float* sink, LineSums* sums);

  const AttentionProblem problem_;
  const RunOptions options_;
  std::vector<float> queries_;
  std::vector<float> scores_;
};

}  // namespace headscope::kernels::internal
