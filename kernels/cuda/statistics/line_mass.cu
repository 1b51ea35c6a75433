// SPDX-License-Identifier: Apache-2.0
// Mass per key column and per distance in one pass. A tile of p goes through shared memory: thread t of 64 adds up
// column t, then the entries (row i, key (i - t) mod 64), which lie on two diagonals. The other 64 threads do the same
// for the lower half of the rows. Every sum of 64 terms goes to its total in 64-bit fixed point, whose additions
// commute, so the result does not depend on the order of blocks.
#include "kernels/cuda_statistics.h"
#include "statistics/probability_tile.cuh"
#include "statistics/scores_launch.cuh"

namespace headscope::kernels {
namespace statistics {
namespace {

// 2^40 units: a column of 131,072 rows reaches 2^57, and a rounding is 4.5e-13.
constexpr float kUnits = 0x1p40f;
constexpr int kHalfRows = kTileRows / 2;

__device__ __forceinline__ void AddFixed(unsigned long long* total, float sum) {
  if (sum > 0) atomicAdd(total, __float2ull_rn(sum * kUnits));
}

// Column and distance of a pair decide whether it is far; a tile's corners decide whether all of it is.
struct Region {
  LineRegion region;
  int sink_tokens, local_tokens;

  __device__ bool Far(int column, int64_t distance) const { return column >= sink_tokens && distance >= local_tokens; }
  __device__ bool Counts(int column, int64_t distance) const {
    return region == LineRegion::kAll || Far(column, distance) == (region == LineRegion::kFar);
  }
};

__global__ void __launch_bounds__(kThreads, 2)
    LineMassKernel(ScoreParams params, const float* lse, Region region, unsigned long long* columns,
                   unsigned long long* distances) {
  extern __shared__ __align__(16) char shared[];
  const RowTileOfBlock tile(params, blockIdx.x);
  const BlockHead head(params, tile.sequence_head);
  const uint32_t queries = SharedAddress(shared);
  const uint32_t keys = queries + kTileRows * RowBytes(params.head_dim);
  float* const p = reinterpret_cast<float*>(shared + params.SharedBytes(0));
  CopyQueries(params, head, tile.row_begin, tile.row_end, queries);

  const AttendedColumns attended(params, tile.row_begin, tile.row_end);
  const RowLseValues row_lse(lse, head.row_slot, tile.row_begin, tile.row_end);
  const int first = attended.begin / kTileKeys * kTileKeys;
  const int64_t first_row_position = params.first_position + tile.row_begin;
  const int64_t num_distances = int64_t{params.first_position} + params.seq_q;
  columns += int64_t{tile.sequence_head} * params.seq_k;
  distances += tile.sequence_head * num_distances;
  const int key = static_cast<int>(threadIdx.x) % kTileKeys;
  const int half_begin = static_cast<int>(threadIdx.x) / kTileKeys * kHalfRows;

  WalkTiles(
      params, keys, (attended.end - first + kTileKeys - 1) / kTileKeys,
      [&](int i, uint32_t to) { CopyKeys(params, head, first + i * kTileKeys, to); },
      [&](int i, uint32_t stage) {
        const int begin = first + i * kTileKeys;
        // The tile's nearest and farthest pair.
        const int64_t nearest = first_row_position - (begin + kTileKeys - 1);
        const int64_t farthest = first_row_position + kTileRows - 1 - begin;
        const bool all_far = region.Far(begin, nearest);
        const bool none_far = !region.Far(begin + kTileKeys - 1, farthest);
        if ((region.region == LineRegion::kNear && all_far) || (region.region == LineRegion::kFar && none_far)) return;

        ScoreFragment scores;
        MultiplyTile(params, queries, stage, &scores);
        if (!attended.Whole(begin, begin + kTileKeys)) {
          MaskUnattended(params, tile.row_begin, tile.row_end, begin, &scores);
        }
        if (region.region != LineRegion::kAll && !all_far && !none_far) {
#pragma unroll
          for (int mt = 0; mt < 2; ++mt) {
#pragma unroll
            for (int nt = 0; nt < 8; ++nt) {
#pragma unroll
              for (int e = 0; e < 4; ++e) {
                const int column = begin + KeyOf(nt, e % 2);
                if (!region.Counts(column, first_row_position + RowOf(mt, e / 2) - column)) {
                  scores.value[mt][nt][e] = -INFINITY;
                }
              }
            }
          }
        }
        StoreProbabilities(scores, row_lse, p);
        __syncthreads();

        const float* const rows = p + half_begin * kProbabilityPitch;
        float column_sum = 0.0f;
#pragma unroll 16
        for (int row = 0; row < kHalfRows; ++row) column_sum += rows[row * kProbabilityPitch + key];
        float wrapped = 0.0f, straight = 0.0f;  // rows before and from `key` on
#pragma unroll 16
        for (int row = 0; row < kHalfRows; ++row) {
          const float value = rows[row * kProbabilityPitch + ((row - key) & (kTileKeys - 1))];
          (row < key ? wrapped : straight) += value;
        }
        // Sums of pairs that nobody attends to are 0, so no column or distance outside the arrays is touched.
        AddFixed(columns + begin + key, column_sum);
        const int64_t distance = first_row_position + half_begin - begin + key;
        AddFixed(distances + distance, straight);
        AddFixed(distances + distance - kTileKeys, wrapped);
      });
}

// In place: the same eight bytes hold the fixed-point total, then the double.
__global__ void ToDoubleKernel(double* values, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const auto total = static_cast<unsigned long long>(__double_as_longlong(values[i]));
  values[i] = static_cast<double>(total) * (1.0 / kUnits);
}

Status ToDouble(double* values, int64_t count, cudaStream_t stream) {
  ToDoubleKernel<<<static_cast<unsigned>((count + 255) / 256), 256, 0, stream>>>(values, count);
  return CudaStatus(cudaGetLastError(), "ToDoubleKernel (" + std::to_string(count) + " values)");
}

}  // namespace
}  // namespace statistics

Status LineMassCuda(const AttentionProblem& problem, int32_t window, const float* lse, const LineOptions& options,
                    double* columns, double* distances, void* stream) {
  using statistics::kProbabilityBytes;
  if (options.region != LineRegion::kAll && options.region != LineRegion::kNear && options.region != LineRegion::kFar) {
    return {StatusCode::kInvalidArgument, "region is " + std::to_string(static_cast<int>(options.region)) +
                                              ": must be all (0), near (1) or far (2)."};
  }
  if (options.sink_tokens < 0 || options.local_tokens < 0) {
    return {StatusCode::kInvalidArgument, "sink_tokens is " + std::to_string(options.sink_tokens) +
                                              " and local_tokens " + std::to_string(options.local_tokens) +
                                              ": both must be 0 or more."};
  }
  statistics::ScoreParams params;
  if (Status status =
          statistics::MakeScoreParams(problem, window, kProbabilityBytes,
                                      {{"lse", lse}, {"columns", columns}, {"distances", distances}}, stream, &params);
      !status.ok()) {
    return status;
  }
  const int64_t num_columns = int64_t{params.num_sequence_heads} * params.seq_k;
  const int64_t num_distances = params.num_sequence_heads * (int64_t{params.first_position} + params.seq_q);
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  for (const auto& [values, count] : {std::pair{columns, num_columns}, std::pair{distances, num_distances}}) {
    Status status = CudaStatus(cudaMemsetAsync(values, 0, static_cast<size_t>(count) * 8, cuda_stream),
                               "clearing the GPU's profiles");
    if (!status.ok()) return status;
  }
  Status launched = statistics::LaunchScores(
      "LineMassKernel", problem, statistics::LineMassKernel,
      dim3(static_cast<unsigned>(params.NumRowTiles() * params.num_sequence_heads)),
      params.SharedBytes(kProbabilityBytes), stream, params, lse,
      statistics::Region{options.region, options.sink_tokens, options.local_tokens},
      reinterpret_cast<unsigned long long*>(columns), reinterpret_cast<unsigned long long*>(distances));
  if (!launched.ok()) return launched;
  if (Status status = statistics::ToDouble(columns, num_columns, cuda_stream); !status.ok()) return status;
  return statistics::ToDouble(distances, num_distances, cuda_stream);
}

}  // namespace headscope::kernels
