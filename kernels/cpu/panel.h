// SPDX-License-Identifier: Apache-2.0
// Panels: the packed operand of the micro-kernel. A panel holds kPanelLanes rows of a matrix [rows, depth], transposed:
// [depth][kPanelLanes].
#pragma once

#include <cstdint>

namespace headscope::kernels {

// Four AVX-512 vectors, and half a tile of 128 query rows: a run of one half touches whole panels only.
inline constexpr int32_t kPanelLanes = 64;

constexpr int64_t NumPanels(int64_t rows) {
  return (rows + kPanelLanes - 1) / kPanelLanes;
}
constexpr int64_t PanelFloats(int64_t rows, int64_t depth) {
  return NumPanels(rows) * kPanelLanes * depth;
}

}  // namespace headscope::kernels
