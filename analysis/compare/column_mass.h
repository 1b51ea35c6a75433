// SPDX-License-Identifier: Apache-2.0
// Sums of probabilities over given columns: the innermost step of every kept mass.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/head_tensors.h"
#include "kernels/sparse_index.h"

namespace headscope::analysis {

// Appends every column of `ranges`.
void ExpandRanges(const std::vector<kernels::ColumnRange>& ranges, std::vector<int32_t>* columns);

class ColumnMass {
 public:
  explicit ColumnMass(const HeadTensors& head) : head_(head) {}

  // mass[row - row_begin] += sign * sum of p over those of `columns` (sorted, without repeats) that the row attends to
  // and, when `rule` is not null, that the rule keeps for it. Cost: 2 * head_dim FLOPs per row and column.
  void Add(int64_t row_begin, int64_t row_end, const std::vector<int32_t>& columns, double sign,
           const kernels::ElementRule* rule, double* mass);

 private:
  const HeadTensors& head_;
  std::vector<float> keys_;  // gathered, [columns, head_dim]
  std::vector<float> scores_;
};

}  // namespace headscope::analysis
