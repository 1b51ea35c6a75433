// SPDX-License-Identifier: Apache-2.0
// Where the probe's partial results lie, and how they are added up: the same arithmetic for who writes and who reads.
#pragma once

#include "select/probe.h"

namespace headscope::kernels::selection {

// The query rows of a unit. num_rows may be 0.
struct UnitRows {
  int32_t first_row;
  int32_t num_rows;
  int32_t position;  // of the first row

  __device__ int32_t VisibleKeys() const { return num_rows > 0 ? position + num_rows : 0; }
};

// End of a chunk, rounded to whole rows; the last one is seq_q.
__device__ inline int32_t ChunkEnd(int32_t seq_q, int32_t num_chunks, int32_t chunk) {
  if (chunk + 1 == num_chunks) return seq_q;
  return static_cast<int32_t>((static_cast<int64_t>(seq_q) * (chunk + 1) + num_chunks / 2) / num_chunks);
}

__device__ inline UnitRows RowsOfUnit(const ProbeParams& p, int32_t chunk, int32_t unit_of_chunk) {
  const int32_t chunk_begin = chunk == 0 ? 0 : ChunkEnd(p.seq_q, p.num_chunks, chunk - 1);
  const int32_t chunk_end = ChunkEnd(p.seq_q, p.num_chunks, chunk);
  const int32_t first_row = max(chunk_begin, chunk_end - p.rows_per_chunk) + unit_of_chunk * kUnitRows;
  return {first_row, max(0, min(kUnitRows, chunk_end - first_row)), p.first_position + first_row};
}

// A warp strip from key_base on meets diagonals position - key_base + d with d in (-keys_per_warp, 63]. Line mode
// stores diagonal d at 63 - d; stripe mode stores a stripe at its distance from the strip's highest stripe.
__device__ inline int32_t HighestSlash(const UnitRows& rows, int32_t key_base) {
  return rows.position - key_base + kUnitRows - 1;
}

__device__ inline int KeysPerWarpLog2(const ProbeParams& p) {
  return 31 - __clz(p.keys_per_warp);
}

// What one unit of a set adds to its lines: single columns and diagonals, or with kStripes stripes of them. Lines that
// the unit does not reach have no mass. No branch stands between the loads of several lines. Places in a unit's slashes
// fit into 32 bits: keys are below 2^28, as runs are shorter (kernels/sparse_index.h).
template <bool kStripes>
class UnitLines {
 public:
  __device__ UnitLines(const ProbeParams& p, int64_t set, int32_t chunk, int32_t unit)
      : rows_(RowsOfUnit(p, chunk, unit)),
        visible_(rows_.VisibleKeys()),
        keys_per_warp_log2_(KeysPerWarpLog2(p)),
        slash_pitch_(p.slash_pitch),
        columns_(p.columns + (set * p.units_per_chunk + unit) * p.column_pitch),
        slashes_(p.slashes + (set * p.units_per_chunk + unit) * p.NumWarpStrips() * p.slash_pitch) {}

  __device__ float Column(int32_t line) const {
    return (kStripes ? line * kStripe : line) < visible_ ? columns_[line] : 0.0f;
  }

  __device__ float Slash(int32_t line) const {
    const int32_t low = kStripes ? line * kStripe : line;  // the line's diagonals are [low, high]
    const int32_t high = kStripes ? low + kStripe - 1 : low;
    const int32_t last_strip = min(rows_.position + kUnitRows - 1 - low, visible_ - 1) >> keys_per_warp_log2_;
    const int32_t first_strip = max(rows_.position - high, 0) >> keys_per_warp_log2_;
    // A diagonal's keys, 64 at most, lie in two strips at most, a stripe's 191 in three.
    constexpr int kMostStrips = kStripes ? 3 : 2;
    float sum = 0;
#pragma unroll
    for (int back = 0; back < kMostStrips; ++back) {
      const int32_t strip = last_strip - back;
      const bool meets = low < visible_ && strip >= first_strip;
      sum += meets ? slashes_[strip * slash_pitch_ + Place(strip, line)] : 0.0f;
    }
    return sum;
  }

 private:
  __device__ int32_t Place(int32_t strip, int32_t line) const {
    const int32_t highest = HighestSlash(rows_, strip << keys_per_warp_log2_);
    return kStripes ? highest / kStripe - line : highest - line;
  }

  const UnitRows rows_;
  const int32_t visible_;
  const int keys_per_warp_log2_;
  const int32_t slash_pitch_;
  const float* const columns_;
  const float* const slashes_;
};

// Mass of kLines lines, first_line + i * step, of direction 0 (columns) or 1 (diagonals), over all units of a set. They
// are added up side by side, so that their loads do not wait for each other.
template <bool kStripes, int kLines>
__device__ inline void AddUpLines(const ProbeParams& p, int64_t set, int32_t chunk, int direction, int32_t first_line,
                                  int32_t step, float (&sums)[kLines]) {
#pragma unroll
  for (float& sum : sums) sum = 0;
  for (int32_t unit = 0; unit < p.units_per_chunk; ++unit) {
    const UnitLines<kStripes> lines(p, set, chunk, unit);
#pragma unroll
    for (int i = 0; i < kLines; ++i) {
      const int32_t line = first_line + i * step;
      sums[i] += direction == 0 ? lines.Column(line) : lines.Slash(line);
    }
  }
}

}  // namespace headscope::kernels::selection
