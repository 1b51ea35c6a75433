// SPDX-License-Identifier: Apache-2.0
// integer_vectors.h without vector code.
#include <algorithm>
#include <cmath>

#include "integer_vectors.h"
#include "internal/integer_scores.h"
#include "panel.h"

namespace headscope::kernels {

using internal::kPieceComponents;

RowSize SizeOfRow(const float* row, int32_t width) {
  RowSize size;
  double squares = 0, longest = 0;
  for (int32_t begin = 0; begin < width; begin += kPieceComponents) {
    double of_piece = 0;
    for (int32_t d = begin; d < std::min(begin + kPieceComponents, width); ++d) {
      of_piece += static_cast<double>(row[d] * row[d]);
      size.largest = std::max(size.largest, std::abs(row[d]));
    }
    squares += of_piece;
    longest = std::max(longest, of_piece);
  }
  size.length = std::sqrt(squares);
  size.longest = std::sqrt(longest);
  return size;
}

double RoundComponents(const float* row, int32_t width, float factor, int16_t* numbers) {
  double squares = 0;
  for (int32_t d = 0; d < width; ++d) {
    const float scaled = row[d] * factor, whole = std::nearbyint(scaled);
    numbers[d] = static_cast<int16_t>(whole);
    squares += static_cast<double>((scaled - whole) * (scaled - whole));
  }
  return std::sqrt(squares);
}

void MultiplyIntegers(const int16_t* rows, int32_t num_rows, const int16_t* panel, int32_t width, int32_t from,
                      float* scores) {
  MultiplyOneByOne(rows, num_rows, panel, width, from, scores);
}

void ScaleColumns(const float* steps, int32_t from, float factor, float* scores) {
  for (int32_t column = from; column < kPanelLanes; ++column) scores[column] *= factor * steps[column];
}

}  // namespace headscope::kernels
