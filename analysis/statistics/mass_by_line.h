// SPDX-License-Identifier: Apache-2.0
// Mass by key column and by distance (diagonal), near (sinks and local window) and far apart.
#pragma once

#include <cstdint>
#include <vector>

namespace headscope::analysis {

// Sums over rows, of all pairs and of far ones, by column and by distance; [num_tokens] each.
struct LineTotals {
  std::vector<double> columns, diagonals, far_columns, far_diagonals;
};

// One worker's sums. Rows of a block are added in fp32 and settled into float64 after each block, so no sum in fp32 has
// more than a block's terms.
class LineSums {
 public:
  explicit LineSums(int64_t num_tokens);

  // p: probabilities of columns [begin, end) of a row at `position`; columns [far_begin, far_end) among them are far.
  void AddRow(const float* p, int64_t position, int64_t begin, int64_t end, int64_t far_begin, int64_t far_end);
  void SettleBlock();
  void Merge(const LineSums& other);

  LineTotals Totals() const;

 private:
  struct Sums {
    std::vector<double> columns, diagonals;
    std::vector<float> block_columns, block_diagonals;
    void Add(const float* p, int64_t position, int64_t begin, int64_t end);
  };
  Sums near_, far_;
  int64_t block_end_ = 0;  // columns and distances below it were touched in this block
};

}  // namespace headscope::analysis
