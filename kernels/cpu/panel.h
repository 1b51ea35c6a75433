// Panels: the packed operand of the micro-kernel. A panel holds kPanelLanes rows of a matrix [rows, depth], transposed:
// [depth][kPanelLanes].
#pragma once

#include <cstdint>

namespace headscope::kernels {

// Two AVX-512 vectors. Wider panels at depth 128 would not fit the L1 cache (32 lanes * 128 * 4 bytes = 16 KiB).
inline constexpr int32_t kPanelLanes = 32;

constexpr int64_t NumPanels(int64_t rows) {
  return (rows + kPanelLanes - 1) / kPanelLanes;
}
constexpr int64_t PanelFloats(int64_t rows, int64_t depth) {
  return NumPanels(rows) * kPanelLanes * depth;
}

}  // namespace headscope::kernels
