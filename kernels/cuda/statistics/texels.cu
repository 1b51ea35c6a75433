// SPDX-License-Identifier: Apache-2.0
// Texels of a head's map by maximum and by sum. Every texel belongs to one block, which takes its pairs in a fixed
// order, so neither value depends on the order of blocks.
//
// A block owns a band of texel rows (those of 128 query rows, or one texel row where that is more) and a strip of texel
// columns. Each tile of 128 x 64 pairs goes through shared memory as score - lse, base 2: thread t of 64 folds column t
// over the rows of a texel, then neighbouring threads fold the columns. Texels larger than that are carried along in
// registers from tile to tile.
#include <algorithm>

#include "kernels/cuda_statistics.h"
#include "statistics/probability_tile.cuh"
#include "statistics/scores_launch.cuh"

namespace headscope::kernels {
namespace statistics {
namespace {

constexpr int kHalfRows = kTileRows / 2;
constexpr int kLargestLevel = 20;
constexpr int64_t kStripColumns = 512;  // key columns of a block's strip, at least: Q is loaded once per strip

struct Grid {
  bool by_sum;
  int level;
  int64_t row_begin, column_begin;
  int32_t num_rows, num_columns;             // texels
  int32_t rows_per_band, columns_per_strip;  // texels
};

// The two reductions over one interface.
struct Reduction {
  bool by_sum;

  __device__ float Nothing() const { return by_sum ? 0.0f : -INFINITY; }
  __device__ float Fold(float a, float b) const { return by_sum ? a + b : fmaxf(a, b); }
  // Folds 2^levels neighbouring lanes; all of them get the result.
  __device__ float FoldLanes(float x, int levels) const {
    for (int i = 0; i < levels; ++i) x = Fold(x, __shfl_xor_sync(~0u, x, 1 << i));
    return x;
  }
};

// Texels of less than 64 x 64 pairs: a tile holds whole ones, and each half of the threads writes those of its rows.
__device__ void WriteSmall(const float* tile, const Reduction& reduction, const Grid& grid, int64_t row, int64_t column,
                           float* texels) {
  const int key = static_cast<int>(threadIdx.x) % kTileKeys;
  const int half_begin = static_cast<int>(threadIdx.x) / kTileKeys * kHalfRows;
  const int64_t texel_column = (column + key - grid.column_begin) >> grid.level;
  const int rows_per_texel = 1 << grid.level;
  const bool writes = (key & (rows_per_texel - 1)) == 0 && texel_column < grid.num_columns;
  for (int begin = half_begin; begin < half_begin + kHalfRows; begin += rows_per_texel) {
    float value = reduction.Nothing();
#pragma unroll 4
    for (int i = begin; i < begin + rows_per_texel; ++i) {
      value = reduction.Fold(value, tile[i * kProbabilityPitch + key]);
    }
    value = reduction.FoldLanes(value, grid.level);
    const int64_t texel_row = (row + begin - grid.row_begin) >> grid.level;
    if (writes && texel_row < grid.num_rows) texels[texel_row * grid.num_columns + texel_column] = value;
  }
}

// This thread's column of its half of the tile.
__device__ float ReduceColumn(const float* tile, const Reduction& reduction) {
  const float* const column = tile + static_cast<int>(threadIdx.x) / kTileKeys * kHalfRows * kProbabilityPitch +
                              static_cast<int>(threadIdx.x) % kTileKeys;
  float value = reduction.Nothing();
#pragma unroll 16
  for (int row = 0; row < kHalfRows; ++row) value = reduction.Fold(value, column[row * kProbabilityPitch]);
  return value;
}

// Texels of 64 x 64 pairs: one per half of the tile, whose columns two warps share.
__device__ void WriteHalves(const float* tile, const Reduction& reduction, const Grid& grid, int64_t row,
                            int64_t column, float* warp_values, float* texels) {
  const float value = reduction.FoldLanes(ReduceColumn(tile, reduction), 5);
  if (threadIdx.x % 32 == 0) warp_values[threadIdx.x / 32] = value;
  __syncthreads();
  const int64_t texel_row = ((row - grid.row_begin) >> 6) + threadIdx.x;
  if (threadIdx.x < 2 && texel_row < grid.num_rows) {
    texels[texel_row * grid.num_columns + ((column - grid.column_begin) >> 6)] =
        reduction.Fold(warp_values[2 * threadIdx.x], warp_values[2 * threadIdx.x + 1]);
  }
}

__global__ void __launch_bounds__(kThreads, 2)
    TexelKernel(ScoreParams params, Grid grid, const float* lse, float* texels) {
  extern __shared__ __align__(16) char shared[];
  __shared__ float warp_values[kWarps];
  const uint32_t queries = SharedAddress(shared);
  const uint32_t keys = queries + kTileRows * RowBytes(params.head_dim);
  float* const tile = reinterpret_cast<float*>(shared + params.SharedBytes(0));
  const Reduction reduction{grid.by_sum};
  const int sequence_head = static_cast<int>(blockIdx.z);
  const BlockHead head(params, sequence_head);
  texels += int64_t{sequence_head} * grid.num_rows * grid.num_columns;

  // Texels of the band and strip; those without a pair keep what is written first.
  const int first_texel_row = static_cast<int>(blockIdx.y) * grid.rows_per_band;
  const int last_texel_row = min(first_texel_row + grid.rows_per_band, grid.num_rows);
  const int first_texel_column = static_cast<int>(blockIdx.x) * grid.columns_per_strip;
  const int last_texel_column = min(first_texel_column + grid.columns_per_strip, grid.num_columns);
  const int strip = last_texel_column - first_texel_column;
  for (int i = static_cast<int>(threadIdx.x); i < (last_texel_row - first_texel_row) * strip; i += kThreads) {
    texels[int64_t{first_texel_row + i / strip} * grid.num_columns + first_texel_column + i % strip] =
        reduction.Nothing();
  }
  __syncthreads();

  const int64_t row_begin = grid.row_begin + (int64_t{first_texel_row} << grid.level);
  const int64_t row_end = min(grid.row_begin + (int64_t{last_texel_row} << grid.level), int64_t{params.seq_q});
  const int64_t strip_begin = grid.column_begin + (int64_t{first_texel_column} << grid.level);
  const int64_t strip_end = min(grid.column_begin + (int64_t{last_texel_column} << grid.level), int64_t{params.seq_k});
  // One step: the whole strip for texels that a tile holds, one texel for larger ones.
  const int64_t step_columns = grid.level <= 6 ? max(strip_end - strip_begin, int64_t{1}) : int64_t{1} << grid.level;

  int64_t loaded_row = -1;
  for (int64_t step_begin = strip_begin; step_begin < strip_end; step_begin += step_columns) {
    const int64_t step_end = min(step_begin + step_columns, strip_end);
    float carried = reduction.Nothing();
    for (int64_t tile_row = row_begin; tile_row < row_end; tile_row += kTileRows) {
      const int64_t tile_row_end = min(tile_row + kTileRows, row_end);
      const AttendedColumns attended(params, tile_row, tile_row_end);
      const int64_t column_begin =
          step_begin + (max(int64_t{attended.begin}, step_begin) - step_begin) / kTileKeys * kTileKeys;
      const int64_t column_end = min(int64_t{attended.end}, step_end);
      if (column_begin >= column_end) continue;
      const RowLseValues row_lse(lse, head.row_slot, tile_row, tile_row_end);
      __syncthreads();  // queries, keys and values before these have been read
      if (tile_row != loaded_row) CopyQueries(params, head, tile_row, tile_row_end, queries);
      loaded_row = tile_row;
      WalkTiles(
          params, keys, static_cast<int>((column_end - column_begin + kTileKeys - 1) / kTileKeys),
          [&](int i, uint32_t to) { CopyKeys(params, head, column_begin + int64_t{i} * kTileKeys, to); },
          [&](int i, uint32_t stage) {
            const int64_t column = column_begin + int64_t{i} * kTileKeys;
            ScoreFragment scores;
            MultiplyTile(params, queries, stage, &scores);
            if (!attended.Whole(static_cast<int>(column), static_cast<int>(column) + kTileKeys)) {
              MaskUnattended(params, tile_row, tile_row_end, static_cast<int>(column), &scores);
            }
            if (grid.by_sum) {
              StoreProbabilities(scores, row_lse, tile);
            } else {
              StoreTile(scores, row_lse, tile, [](float x) { return x; });
            }
            __syncthreads();
            if (grid.level < 6) {
              WriteSmall(tile, reduction, grid, tile_row, column, texels);
            } else if (grid.level == 6) {
              WriteHalves(tile, reduction, grid, tile_row, column, warp_values, texels);
            } else {
              carried = reduction.Fold(carried, ReduceColumn(tile, reduction));
            }
          });
    }
    if (grid.level > 6) {
      const float value = reduction.FoldLanes(carried, 5);
      __syncthreads();  // the values before these have been read
      if (threadIdx.x % 32 == 0) warp_values[threadIdx.x / 32] = value;
      __syncthreads();
      if (threadIdx.x == 0) {
        texels[int64_t{first_texel_row} * grid.num_columns + ((step_begin - grid.column_begin) >> grid.level)] =
            reduction.Fold(reduction.Fold(warp_values[0], warp_values[1]),
                           reduction.Fold(warp_values[2], warp_values[3]));
      }
    }
  }
}

Status CheckRequest(const TexelRequest& request) {
  const auto invalid = [](const char* field, int64_t value, const std::string& allowed) {
    return Status{StatusCode::kInvalidArgument,
                  std::string("request.") + field + " is " + std::to_string(value) + ": " + allowed + "."};
  };
  if (request.value != TexelValue::kMaxLog2 && request.value != TexelValue::kSum) {
    return invalid("value", static_cast<int64_t>(request.value), "must be the maximum's log2 (0) or the sum (1)");
  }
  if (request.level < 0 || request.level > kLargestLevel) {
    return invalid("level", request.level, "must lie between 0 and " + std::to_string(kLargestLevel));
  }
  const int64_t step = int64_t{1} << request.level;
  for (const auto& [name, value] :
       {std::pair{"row_begin", request.row_begin}, std::pair{"column_begin", request.column_begin}}) {
    // Far beyond every key, and the last texel's end is still a number.
    constexpr int64_t kLargestBegin = int64_t{1} << 40;
    if (value < 0 || value > kLargestBegin || value % step != 0) {
      return invalid(name, value, "must be a multiple of 2^level (" + std::to_string(step) + ") between 0 and 2^40");
    }
  }
  for (const auto& [name, value] :
       {std::pair{"num_rows", request.num_rows}, std::pair{"num_columns", request.num_columns}}) {
    // A launch takes as many blocks along y.
    if (value < 1 || value > 65535) return invalid(name, value, "must lie between 1 and 65535 texels");
  }
  return {};
}

}  // namespace
}  // namespace statistics

Status TexelsCuda(const AttentionProblem& problem, int32_t window, const float* lse, const TexelRequest& request,
                  float* texels, void* stream) {
  using statistics::kProbabilityBytes;
  if (Status status = statistics::CheckRequest(request); !status.ok()) return status;
  statistics::ScoreParams params;
  if (Status status = statistics::MakeScoreParams(problem, window, kProbabilityBytes + 64,
                                                  {{"lse", lse}, {"texels", texels}}, stream, &params);
      !status.ok()) {
    return status;
  }
  if (params.num_sequence_heads > 65535) {
    return {StatusCode::kUnsupported, "the problem has " + std::to_string(params.num_sequence_heads) +
                                          " heads over all sequences: texels take at most 65535 at a time."};
  }
  statistics::Grid grid{};
  grid.by_sum = request.value == TexelValue::kSum;
  grid.level = request.level;
  grid.row_begin = request.row_begin;
  grid.column_begin = request.column_begin;
  grid.num_rows = request.num_rows;
  grid.num_columns = request.num_columns;
  grid.rows_per_band = std::max(1, statistics::kTileRows >> request.level);
  grid.columns_per_strip = static_cast<int32_t>(std::max<int64_t>(1, statistics::kStripColumns >> request.level));
  const dim3 blocks(static_cast<unsigned>((grid.num_columns + grid.columns_per_strip - 1) / grid.columns_per_strip),
                    static_cast<unsigned>((grid.num_rows + grid.rows_per_band - 1) / grid.rows_per_band),
                    static_cast<unsigned>(params.num_sequence_heads));
  return statistics::LaunchScores("TexelKernel", problem, statistics::TexelKernel, blocks,
                                  params.SharedBytes(kProbabilityBytes), stream, params, grid, lse, texels);
}

}  // namespace headscope::kernels
