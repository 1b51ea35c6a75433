// SPDX-License-Identifier: Apache-2.0
// What integer_scores.cpp does with every component of a row: by Highway's vectors (integer_vectors.cpp), or in plain
// loops where there is no Highway (plain/plain_integer_vectors.cpp).
#pragma once

#include <algorithm>
#include <cstdint>

#include "internal/integer_scores.h"
#include "panel.h"

namespace headscope::kernels {

// Of a row: its length and that of its longest piece, and its largest component. A NaN shows in the lengths.
struct RowSize {
  double length = 0, longest = 0;
  float largest = 0;
};
RowSize SizeOfRow(const float* row, int32_t width);

// The numbers of a row times `factor`, at most 32767 each; returns the length of what rounding took, in steps.
double RoundComponents(const float* row, int32_t width, float factor, int16_t* numbers);

// Products of whole rows [num_rows, width] and of columns [from, 64) of a panel: whole numbers within a piece, of which
// no sum of products may leave 32 bits, and pieces added in fp32. scores: [num_rows, 64].
void MultiplyIntegers(const int16_t* rows, int32_t num_rows, const int16_t* panel, int32_t width, int32_t from,
                      float* scores);

// The same one by one.
inline void MultiplyOneByOne(const int16_t* rows, int32_t num_rows, const int16_t* panel, int32_t width, int32_t from,
                             float* scores) {
  for (int32_t row = 0; row < num_rows; ++row) {
    for (int64_t lane = from; lane < kPanelLanes; ++lane) {
      float sum = 0;
      for (int32_t begin = 0; begin < width; begin += internal::kPieceComponents) {
        int64_t of_piece = 0;
        for (int32_t d = begin; d < std::min(begin + internal::kPieceComponents, width); ++d) {
          of_piece += int64_t{rows[int64_t{row} * width + d]} * panel[d / 2 * kPairStep + 2 * lane + d % 2];
        }
        sum += static_cast<float>(of_piece);
      }
      scores[row * kPanelLanes + lane] = sum;
    }
  }
}

// scores[column] *= factor * steps[column] of columns [from, 64).
void ScaleColumns(const float* steps, int32_t from, float factor, float* scores);

}  // namespace headscope::kernels
