// SPDX-License-Identifier: Apache-2.0
// Panels: the packed operand of the micro-kernel. A panel holds kPanelLanes rows of a matrix [rows, depth], transposed:
// [depth][kPanelLanes].
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace headscope::kernels {

// Four AVX-512 vectors, and half a tile of 128 query rows: a run of one half touches whole panels only.
inline constexpr int32_t kPanelLanes = 64;

constexpr int64_t NumPanels(int64_t rows) {
  return (rows + kPanelLanes - 1) / kPanelLanes;
}
constexpr int64_t PanelFloats(int64_t rows, int64_t depth) {
  return NumPanels(rows) * kPanelLanes * depth;
}

// Panels of pairs of 16-bit numbers, [pair of components][lane][2]: numbers from one pair to the next, and those of a
// cache line.
inline constexpr int64_t kPairStep = int64_t{2} * kPanelLanes;
inline constexpr int32_t kPairLine = 32;

// Packs the first `lanes` of a panel. rows: of `width` numbers, which is even, row_step apart.
template <class Number>
void PackPairs(const Number* rows, int64_t row_step, int32_t lanes, int32_t width, Number* panel) {
  static_assert(sizeof(Number) == 2);
  // A cache line of every row at a time: rows lie far apart, and whole ones would not stay in the first cache.
  for (int32_t line = 0; line < width; line += kPairLine) {
    const int32_t end = std::min(line + kPairLine, width);
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const Number* const row = rows + lane * row_step;
      Number* const column = panel + 2 * lane;
      for (int32_t d = line; d < end; d += 2) std::memcpy(column + d / 2 * kPairStep, row + d, 2 * sizeof(Number));
    }
  }
}

}  // namespace headscope::kernels
