// SPDX-License-Identifier: Apache-2.0
// Scores of some rows in the GPU's memory, for what reads a row's list more than once or in an order of its own.
#pragma once

#include <algorithm>

#include "statistics/scores_launch.cuh"

namespace headscope::kernels::statistics {

inline constexpr int kStripKeys = 1024;  // of a block that multiplies
inline constexpr int64_t kScoreChunkBytes = int64_t{1} << 28;
inline constexpr int64_t kMostChunkRows = 4096;

// Floats from one row of scores to the next: a multiple of a tile's keys, so that a row's last tile stays in it.
inline int64_t ScorePitch(const ScoreParams& params) {
  return (int64_t{params.seq_k} + kTileKeys - 1) / kTileKeys * kTileKeys;
}

// Rows whose scores take at most kScoreChunkBytes, a multiple of a tile's and at least one tile's.
inline int64_t ScoreChunkRows(const ScoreParams& params) {
  const int64_t row_bytes = ScorePitch(params) * int64_t{sizeof(float)};
  return std::clamp(kScoreChunkBytes / row_bytes / kTileRows * kTileRows, int64_t{kTileRows}, kMostChunkRows);
}

// The same problem with rows [begin, end) alone.
inline ScoreParams RowsOf(ScoreParams params, int64_t begin, int64_t end) {
  params.q += begin * params.q_row_stride;
  params.first_position += static_cast<int32_t>(begin);
  params.seq_q = static_cast<int32_t>(end - begin);
  return params;
}

// Scores of a chunk: grid (strips of columns, tiles of 128 rows).
static __global__ void __launch_bounds__(kThreads, 2)
    ScoreRowsKernel(ScoreParams params, float* scores, int64_t pitch) {
  extern __shared__ __align__(16) char shared[];
  const uint32_t queries = SharedAddress(shared);
  const uint32_t keys = queries + kTileRows * RowBytes(params.head_dim);
  const BlockHead head(params, 0);
  const int64_t row_begin = int64_t{blockIdx.y} * kTileRows;
  const int64_t row_end = min(row_begin + kTileRows, int64_t{params.seq_q});
  const AttendedColumns attended(params, row_begin, row_end);
  const int strip_begin = static_cast<int>(blockIdx.x) * kStripKeys;
  const int first = max(attended.begin / kTileKeys * kTileKeys, strip_begin);
  const int last = min(attended.end, strip_begin + kStripKeys);
  if (first >= last) return;
  CopyQueries(params, head, row_begin, row_end, queries);
  WalkTiles(
      params, keys, (last - first + kTileKeys - 1) / kTileKeys,
      [&](int i, uint32_t to) { CopyKeys(params, head, first + i * kTileKeys, to); },
      [&](int i, uint32_t stage) {
        ScoreFragment tile;
        MultiplyTile(params, queries, stage, &tile);
#pragma unroll
        for (int mt = 0; mt < 2; ++mt) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const int64_t row = row_begin + RowOf(mt, half);
            if (row >= row_end) continue;
            // The pitch is a multiple of a tile's keys, so the last tile stays in its row.
            float* const to = scores + row * pitch + first + i * kTileKeys;
#pragma unroll
            for (int nt = 0; nt < 8; ++nt) {
              *reinterpret_cast<float2*>(to + KeyOf(nt, 0)) =
                  make_float2(tile.value[mt][nt][half * 2], tile.value[mt][nt][half * 2 + 1]);
            }
          }
        }
      });
}

// Scores of the problem's rows, of its first head: scores [seq_q, ScorePitch], base 2; of columns that a row does not
// attend to whatever was there before. On the default stream.
inline Status ScoreRows(const AttentionProblem& problem, const ScoreParams& params, float* scores) {
  const dim3 grid(static_cast<unsigned>((params.seq_k + kStripKeys - 1) / kStripKeys),
                  static_cast<unsigned>(params.NumRowTiles()));
  return LaunchScores("ScoreRowsKernel", problem, ScoreRowsKernel, grid, params.SharedBytes(0), nullptr, params, scores,
                      ScorePitch(params));
}

}  // namespace headscope::kernels::statistics
