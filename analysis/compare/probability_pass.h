// SPDX-License-Identifier: Apache-2.0
// The pass over a head's probabilities: what block masses are made from, and what a search reads row by row.
#pragma once

#include <cstdint>
#include <stop_token>

#include "analysis/compare.h"
#include "analysis/head_tensors.h"

namespace headscope::analysis {

// Probabilities of rows [row_begin, row_end): p of a row's column at Row(row)[column], for columns [column_begin,
// column_end), which hold all that these rows attend to. 0 where the row does not attend.
struct ProbabilityRows {
  int64_t row_begin = 0, row_end = 0;
  int64_t column_begin = 0, column_end = 0;
  const float* values = nullptr;
  int64_t stride = 0;

  const float* Row(int64_t row) const { return values + (row - row_begin) * stride - column_begin; }
};

// A VisitProbabilities (analysis/compare.h) sees the rows on the threads of the pass; worker <
// NumProbabilityWorkers(head, num_threads), and 0 is the caller's thread.
inline constexpr int64_t kVisitedRows = 16;  // of a call at most, and it begins at a multiple
int32_t NumProbabilityWorkers(const HeadTensors& head, int32_t num_threads);

// Sums by blocks of columns: mass is [num_rows, blocks], zero before, to which the pass adds.
struct BlockSums {
  int32_t block_columns = 0;  // a power of two from 64 on
  float* mass = nullptr;
};

// Evaluates every probability that a row attends to, once. `sums` may be null and `visit` empty. Throws CancelledError.
// Memory: 256 KiB for a thread, or kVisitedRows rows where they are visited.
void PassProbabilities(const HeadTensors& head, int32_t num_threads, const std::stop_token& stop, const BlockSums* sums,
                       const VisitProbabilities& visit);

}  // namespace headscope::analysis
