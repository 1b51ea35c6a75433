// SPDX-License-Identifier: Apache-2.0
// The best columns and diagonals of every head: exact top-k by radix search on order-preserving keys, larger sums
// first, equal sums by lower index, NaN last, as kernels/methods/top_k.h. The pick is a bitmap, which needs no sort.
// What the lists read in order, columns and changes of the windows, are numbered set bits.
//
// Two launches: keys of all lines by the whole GPU (the probe's partial sums are added up here), then one block per
// head and direction: three passes of 11, 11 and 10 bits find the k-th largest key, a fourth writes the bitmap. Counts
// are integers, so the order of atomics does not matter.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "select/probe.h"

namespace headscope::kernels::selection {

// Words of zeros in front of and behind a line bitmap, so that windows that stick out read zeros.
constexpr int32_t kBitmapFront = 5;
constexpr int32_t kBitmapBack = 5;

constexpr int32_t LineBitmapWords(int32_t num_lines) {
  return kBitmapFront + (num_lines + 63) / 64 + kBitmapBack;
}

// Up to the word behind the last position of any tile.
constexpr int32_t WindowWords(int32_t top_position) {
  return top_position / 64 + 5;
}

// Words of windows that lists read in order: those in front of the last tile's own positions.
constexpr int32_t ChangeWords(int32_t top_position) {
  return top_position / 64;
}

// The most changes of both halves' windows, and one in front of them all. A run of windows changes each half's state
// twice, and runs are 65 lines apart or more.
constexpr int32_t MostChanges(int32_t num_slashes, int32_t top_position) {
  const int32_t most_runs = top_position / 65 + 2;
  return 4 * (num_slashes < most_runs ? num_slashes : most_runs) + 1;
}

struct TopLinesParams {
  ProbeParams probe;      // one chunk, line mode
  int32_t num_lists = 0;  // batch * query heads
  int32_t num_lines = 0;  // columns and diagonals alike: visible keys
  // Of columns (0) and diagonals (1): how many are kept, and how many of the first come before all others.
  int32_t count[2] = {0, 0};
  int32_t forced[2] = {0, 0};
  uint32_t* keys = nullptr;     // [list, direction, key_pitch]
  uint64_t* bitmaps = nullptr;  // [list, direction, LineBitmapWords(num_lines)]
  int32_t key_pitch = 0;        // num_lines rounded up to a multiple of 4
  uint64_t* windows = nullptr;  // [list, WindowWords(top_position)]
  int32_t top_position = 0;     // of the lower half of the last tile
  // What the lists read in order (lists.h).
  int32_t* columns = nullptr;         // [list, count[0]]
  int32_t* columns_before = nullptr;  // [list, words of 64 lines + 1]
  uint32_t* changes = nullptr;        // [list, MostChanges]
  int32_t* changes_before = nullptr;  // [list, ChangeWords(top_position) + 1]
};

cudaError_t LaunchTopLines(const TopLinesParams& params, cudaStream_t stream);

}  // namespace headscope::kernels::selection
