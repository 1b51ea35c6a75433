// SPDX-License-Identifier: Apache-2.0
#include "compare/column_mass.h"

#include <algorithm>

#include "kernels/cpu_scores.h"

namespace headscope::analysis {
namespace {

// 64 x 1024 scores: 256 KiB, which stay in the L2 cache between product and sum.
constexpr int64_t kSummedRows = 64;
constexpr int64_t kSummedColumns = 1024;

}  // namespace

void ExpandRanges(const std::vector<kernels::ColumnRange>& ranges, std::vector<int32_t>* columns) {
  for (const kernels::ColumnRange& range : ranges) {
    for (int32_t column = range.begin; column < range.end; ++column) columns->push_back(column);
  }
}

void ColumnMass::Add(int64_t row_begin, int64_t row_end, const std::vector<int32_t>& columns, double sign,
                     const kernels::ElementRule* rule, double* mass) {
  if (columns.empty() || row_begin >= row_end) return;
  const int64_t head_dim = head_.head_dim;
  scores_.resize(static_cast<size_t>(kSummedRows * kSummedColumns));
  const auto num_columns = static_cast<int64_t>(columns.size());
  for (int64_t first = 0; first < num_columns; first += kSummedColumns) {
    const int64_t count = std::min(kSummedColumns, num_columns - first);
    const int32_t* block = columns.data() + first;
    keys_.resize(static_cast<size_t>(count * head_dim));
    for (int64_t j = 0; j < count; ++j) {
      const float* key = head_.k.data() + block[j] * head_dim;
      std::copy(key, key + head_dim, keys_.data() + j * head_dim);
    }
    const kernels::PackedKeys packed(keys_.data(), kernels::DType::kFloat32, head_dim, static_cast<int32_t>(count),
                                     head_.head_dim);
    for (int64_t row = row_begin; row < row_end; row += kSummedRows) {
      const int64_t rows = std::min(kSummedRows, row_end - row);
      kernels::ScoreBlock(head_.q.data() + row * head_dim, head_dim, static_cast<int32_t>(rows), packed, 0,
                          static_cast<int32_t>(count), head_.scale, head_.soft_cap, scores_.data(), kSummedColumns);
      for (int64_t i = 0; i < rows; ++i) {
        const kernels::ColumnRange attended = head_.AttendedColumns(row + i);
        const int32_t* begin = std::lower_bound(block, block + count, attended.begin);
        const int32_t* end = std::lower_bound(begin, block + count, attended.end);
        float* p = scores_.data() + i * kSummedColumns + (begin - block);
        double sum = static_cast<double>(kernels::ExpInPlace(p, end - begin, head_.lse[static_cast<size_t>(row + i)]));
        if (rule != nullptr) {
          const int64_t position = head_.row_positions[static_cast<size_t>(row + i)];
          sum = 0;
          for (int64_t j = 0; j < end - begin; ++j) {
            if (rule->Keeps(position, begin[j])) sum += static_cast<double>(p[j]);
          }
        }
        mass[row + i - row_begin] += sign * sum;
      }
    }
  }
}

}  // namespace headscope::analysis
