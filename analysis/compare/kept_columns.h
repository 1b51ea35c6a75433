// SPDX-License-Identifier: Apache-2.0
// The kept columns of one row tile of an index, sorted out for summing probabilities.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/sparse_index.h"

namespace headscope::analysis {

// Rows of one tile that share their lists: the tile, or one half of it.
struct RowSpanColumns {
  int32_t row_begin = 0, row_end = 0;
  // Kept for every row that attends to them at all: the mask that the model itself has (causality) is the only one
  // needed here.
  std::vector<kernels::ColumnRange> plain;
  // Kept for a row where the index's element rule says so as well: columns at a window's far edge.
  std::vector<kernels::ColumnRange> checked;
};

// Lists of sequence 0, query head 0. Ranges are sorted, disjoint and maximal.
std::vector<RowSpanColumns> CollectKeptColumns(const kernels::SparseIndexView& index, int32_t tile);

}  // namespace headscope::analysis
