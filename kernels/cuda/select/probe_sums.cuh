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

// Mass of column (line mode) or column stripe `line`, over the units of set `set` whose chunk is `chunk`.
__device__ inline float ColumnSum(const ProbeParams& p, int64_t set, int32_t chunk, int32_t line) {
  float sum = 0;
  for (int32_t unit = 0; unit < p.units_per_chunk; ++unit) {
    const int32_t visible = RowsOfUnit(p, chunk, unit).VisibleKeys();
    const int32_t first_key = p.stripes ? line * kStripe : line;
    if (first_key < visible) sum += p.columns[(set * p.units_per_chunk + unit) * p.column_pitch + line];
  }
  return sum;
}

// The same for a diagonal or diagonal stripe.
__device__ inline float SlashSum(const ProbeParams& p, int64_t set, int32_t chunk, int32_t line) {
  const int32_t low = p.stripes ? line * kStripe : line;  // the line's diagonals are [low, high]
  const int32_t high = p.stripes ? low + kStripe - 1 : low;
  const int keys_per_warp_log2 = 31 - __clz(p.keys_per_warp);
  float sum = 0;
  for (int32_t unit = 0; unit < p.units_per_chunk; ++unit) {
    const UnitRows rows = RowsOfUnit(p, chunk, unit);
    const int32_t visible = rows.VisibleKeys();
    if (visible <= low) continue;
    // Strips whose highest diagonal reaches `low` and whose lowest is not above `high`.
    const int32_t last_strip = min(rows.position + kUnitRows - 1 - low, visible - 1) >> keys_per_warp_log2;
    for (int32_t strip = last_strip; strip >= 0; --strip) {
      const int32_t highest = HighestSlash(rows, strip * p.keys_per_warp);
      if (highest - (p.keys_per_warp + kUnitRows - 1) > high) break;
      const int32_t at = p.stripes ? highest / kStripe - line : highest - line;
      const int64_t unit_id = set * p.units_per_chunk + unit;
      sum += p.slashes[(unit_id * p.NumWarpStrips() + strip) * p.slash_pitch + at];
    }
  }
  return sum;
}

}  // namespace headscope::kernels::selection
