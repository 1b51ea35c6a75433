// SPDX-License-Identifier: Apache-2.0
#include "statistics/mass_by_line.h"

#include <algorithm>

namespace headscope::analysis {

LineSums::LineSums(int64_t num_tokens) {
  for (Sums* sums : {&near_, &far_}) {
    sums->columns.resize(static_cast<size_t>(num_tokens));
    sums->diagonals.resize(static_cast<size_t>(num_tokens));
    sums->block_columns.resize(static_cast<size_t>(num_tokens));
    sums->block_diagonals.resize(static_cast<size_t>(num_tokens));
  }
}

void LineSums::Sums::Add(const float* p, int64_t position, int64_t begin, int64_t end) {
  float* by_column = block_columns.data();
  float* by_distance = block_diagonals.data();
  for (int64_t column = begin; column < end; ++column) by_column[column] += p[column - begin];
  for (int64_t column = begin; column < end; ++column) by_distance[position - column] += p[column - begin];
}

void LineSums::AddRow(const float* p, int64_t position, int64_t begin, int64_t end, int64_t far_begin,
                      int64_t far_end) {
  near_.Add(p, position, begin, far_begin);
  far_.Add(p + (far_begin - begin), position, far_begin, far_end);
  near_.Add(p + (far_end - begin), position, far_end, end);
  block_end_ = std::max(block_end_, position - begin + 1);
  block_end_ = std::max(block_end_, end);
}

void LineSums::SettleBlock() {
  const auto settle = [&](std::vector<float>* block, std::vector<double>* total) {
    for (size_t i = 0; i < static_cast<size_t>(block_end_); ++i) {
      (*total)[i] += static_cast<double>((*block)[i]);
      (*block)[i] = 0;
    }
  };
  for (Sums* sums : {&near_, &far_}) {
    settle(&sums->block_columns, &sums->columns);
    settle(&sums->block_diagonals, &sums->diagonals);
  }
  block_end_ = 0;
}

void LineSums::Merge(const LineSums& other) {
  const auto add = [](std::vector<double>* into, const std::vector<double>& from) {
    for (size_t i = 0; i < into->size(); ++i) (*into)[i] += from[i];
  };
  add(&near_.columns, other.near_.columns);
  add(&near_.diagonals, other.near_.diagonals);
  add(&far_.columns, other.far_.columns);
  add(&far_.diagonals, other.far_.diagonals);
}

LineTotals LineSums::Totals() const {
  LineTotals totals{near_.columns, near_.diagonals, far_.columns, far_.diagonals};
  for (size_t i = 0; i < totals.columns.size(); ++i) {
    totals.columns[i] += far_.columns[i];
    totals.diagonals[i] += far_.diagonals[i];
  }
  return totals;
}

}  // namespace headscope::analysis
