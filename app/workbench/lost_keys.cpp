// SPDX-License-Identifier: Apache-2.0
#include "lost_keys.h"

#include <algorithm>

#include "analysis/tiles.h"

namespace headscope::app {
namespace {

struct RowMask {
  kernels::ColumnRange attended;
  std::vector<kernels::ColumnRange> kept;  // sorted, disjoint
};

RowMask MaskOfRow(const analysis::HeadTensors& head, const analysis::KeptMask& mask, int64_t row) {
  if (mask.steps) {
    if (row < mask.steps->first_row || row >= mask.steps->end_row()) return {};
    const analysis::KeptStep& step = mask.steps->steps[static_cast<size_t>(row - mask.steps->first_row)];
    return {step.attended, step.kept};
  }
  RowMask of_row{head.AttendedColumns(row), {}};
  kernels::AppendKeptRanges(mask.index->View(), 0, 0, static_cast<int32_t>(row), &of_row.kept);
  return of_row;
}

}  // namespace

std::vector<ui::LostKey> LostKeys(const analysis::HeadTensors& head, const analysis::KeptMask& mask, int64_t row,
                                  size_t most) {
  if (row < 0 || row >= head.num_rows) return {};
  const RowMask of_row = MaskOfRow(head, mask, row);
  std::vector<ui::LostKey> lost;
  int32_t column = of_row.attended.begin;
  const auto leave_out_until = [&](int32_t end) {
    for (; column < std::min(end, of_row.attended.end); ++column)
      lost.push_back({column, analysis::Probability(head, row, column)});
  };
  for (const kernels::ColumnRange& kept : of_row.kept) {
    leave_out_until(kept.begin);
    column = std::max(column, kept.end);
  }
  leave_out_until(of_row.attended.end);
  const auto end = lost.begin() + static_cast<std::ptrdiff_t>(std::min(most, lost.size()));
  std::partial_sort(lost.begin(), end, lost.end(),
                    [](const ui::LostKey& a, const ui::LostKey& b) { return a.probability > b.probability; });
  lost.erase(end, lost.end());
  return lost;
}

}  // namespace headscope::app
