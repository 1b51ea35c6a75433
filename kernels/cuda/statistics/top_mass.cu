// SPDX-License-Identifier: Apache-2.0
// Mass of the k largest probabilities of a row, k = 1, 2, 4 .. 1024, in one pass over the scores.
//
// Every row in flight keeps up to 2048 candidates in device memory and a bound: scores that do not exceed it cannot be
// among the row's best 1024. A score above it is appended; when a row's buffer might overflow with the next tile, a
// warp raises the bound by bisection until between 1024 and 1536 candidates are left. Each warp looks after its own 32
// rows, so there is no barrier beyond those of the key tiles. Tiles come from the diagonal backwards: what is near is
// often large, and a good bound early keeps the rest out. At the end a warp sorts the best 1024 of each row in
// registers and adds them up.
#include <algorithm>

#include "current_device.h"
#include "kernels/cuda_statistics.h"
#include "statistics/scores_launch.cuh"

namespace headscope::kernels {
namespace statistics {
namespace {

constexpr int kCapacity = 2048;
constexpr int kWanted = 1024;
constexpr int kEnough = 1536;  // a bound that leaves at most so many is good enough
constexpr int kPerLane = kCapacity / 32;
constexpr int kSorted = kWanted / 32;
constexpr int kBlocksPerMultiprocessor = 2;
static_assert(1 << (kTopMassCounts - 1) == kWanted);

struct WarpRows {
  float bound[kWarpRows];
  int32_t count[kWarpRows];
};

// Keeps the largest of candidates[0, count): at least min(count, kWanted) of them and at most `enough`; the new count
// and bound go to *row_count and *row_bound. Called by a whole warp.
__device__ __noinline__ void KeepLargest(float* candidates, int count, int enough, int32_t* row_count,
                                         float* row_bound) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (count <= enough) return;
  float values[kPerLane];
  float smallest = INFINITY, largest = -INFINITY;
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const int at = i * 32 + lane;
    values[i] = at < count ? candidates[at] : -INFINITY;
    largest = fmaxf(largest, values[i]);
    smallest = fminf(smallest, at < count ? values[i] : INFINITY);
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, offset));
    smallest = fminf(smallest, __shfl_xor_sync(~0u, smallest, offset));
  }
  // Invariant: more than `enough` candidates exceed `low` (at first all of them), fewer than kWanted
  // exceed `high`. By value, not by order of representation: scores lie close together on that scale.
  float low = nextafterf(smallest, -INFINITY), high = largest;
  float threshold = high;
  int above_threshold = 0;
  while (true) {
    const float middle = low + 0.5f * (high - low);
    if (!(middle > low && middle < high)) break;  // neighbours: the candidates equal to `high` are the boundary
    int counts[4] = {};                           // four, so that additions need not wait for each other
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) counts[i % 4] += values[i] > middle ? 1 : 0;
    const int above = __reduce_add_sync(~0u, (counts[0] + counts[1]) + (counts[2] + counts[3]));
    if (above > enough) {
      low = middle;
    } else if (above < kWanted) {
      threshold = high = middle;
    } else {
      threshold = middle;
      above_threshold = above;
      break;
    }
  }
  __syncwarp();
  // Where equal candidates leave no such bound, those above it are joined by as many equal to it as are wanted.
  int written = 0;
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const bool keep = values[i] > threshold;
    const uint32_t votes = __ballot_sync(~0u, keep);
    if (keep) candidates[written + __popc(votes & ((1u << lane) - 1))] = values[i];
    written += __popc(votes);
  }
  if (above_threshold == 0) {
    for (int at = written + lane; at < kWanted; at += 32) candidates[at] = threshold;
    written = kWanted;
  }
  if (lane == 0) {
    *row_count = written;
    *row_bound = threshold;
  }
  __syncwarp();
}

// Puts the larger value first where `descending`, else last.
__device__ __forceinline__ void Order(float* a, float* b, bool descending) {
  const float larger = fmaxf(*a, *b), smaller = fminf(*a, *b);
  *a = descending ? larger : smaller;
  *b = descending ? smaller : larger;
}

// Bitonic sort of 32 values in each of 32 lanes, descending; value i of lane l is number l * 32 + i.
__device__ __forceinline__ void SortDescending(float (&values)[kSorted]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int size = 2; size <= kSorted; size *= 2) {
#pragma unroll
    for (int stride = size / 2; stride > 0; stride /= 2) {
#pragma unroll
      for (int i = 0; i < kSorted; ++i) {
        if ((i & stride) == 0)
          Order(&values[i], &values[i | stride], size == kSorted ? lane % 2 == 0 : (i & size) == 0);
      }
    }
  }
#pragma unroll 1
  for (int lanes = 2; lanes <= 32; lanes *= 2) {
    const bool descending = (lane & lanes) == 0;
#pragma unroll 1
    for (int stride = lanes / 2; stride > 0; stride /= 2) {
      const bool takes_larger = ((lane & stride) == 0) == descending;
#pragma unroll
      for (int i = 0; i < kSorted; ++i) {
        const float other = __shfl_xor_sync(~0u, values[i], stride);
        values[i] = takes_larger ? fmaxf(values[i], other) : fminf(values[i], other);
      }
    }
#pragma unroll
    for (int stride = kSorted / 2; stride > 0; stride /= 2) {
#pragma unroll
      for (int i = 0; i < kSorted; ++i) {
        if ((i & stride) == 0) Order(&values[i], &values[i | stride], descending);
      }
    }
  }
}

// Sums of the row's largest p. candidates[0, count): scores, base 2. Called by a whole warp.
__device__ __noinline__ void SumLargest(const float* candidates, int count, float lse, float* top_mass) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float values[kSorted];
#pragma unroll
  for (int i = 0; i < kSorted; ++i) {
    const int at = i * 32 + lane;
    values[i] = at < count ? candidates[at] : -INFINITY;
  }
  SortDescending(values);
  // Lane 0 has the largest 32: the counts up to 32 end in it, larger ones at the ends of lanes.
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kSorted; ++i) {
    sum += Exp2(values[i] - lse);
    if ((i & (i + 1)) == 0 && lane == 0) top_mass[31 - __clz(i + 1)] = sum;
  }
  for (int lanes = 2, slot = 6; lanes <= 32; lanes *= 2, ++slot) {
    sum += __shfl_xor_sync(~0u, sum, lanes / 2);
    if (lane == 0) top_mass[slot] = sum;
  }
}

// Appends the row's scores above its bound. All lanes of the warp call it together.
__device__ __forceinline__ void Append(const ScoreFragment& scores, WarpRows* rows, float* candidates) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint32_t quad = 0xfu << (lane & ~3);
  const uint32_t before = quad & ((1u << lane) - 1);
#pragma unroll
  for (int mt = 0; mt < 2; ++mt) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = RowOf(mt, half) % kWarpRows;
      const float bound = rows->bound[row];
      float largest = -INFINITY;
#pragma unroll
      for (int nt = 0; nt < 8; ++nt) {
        largest = fmaxf(largest, fmaxf(scores.value[mt][nt][half * 2], scores.value[mt][nt][half * 2 + 1]));
      }
      if (!__any_sync(~0u, largest > bound)) continue;
      int count = rows->count[row];
      float* const buffer = candidates + int64_t{row} * kCapacity;
#pragma unroll
      for (int nt = 0; nt < 8; ++nt) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const float score = scores.value[mt][nt][half * 2 + e];
          const uint32_t votes = __ballot_sync(~0u, score > bound);
          if (score > bound) buffer[count + __popc(votes & before)] = score;
          count += __popc(votes & quad);
        }
      }
      __syncwarp();
      if (lane % 4 == 0) rows->count[row] = count;
    }
  }
  __syncwarp();
}

__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor)
    TopMassKernel(ScoreParams params, const float* lse, float* top_mass, float* workspace) {
  extern __shared__ __align__(16) char shared[];
  __shared__ WarpRows warp_rows[kWarps];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint32_t queries = SharedAddress(shared);
  const uint32_t keys = queries + kTileRows * RowBytes(params.head_dim);
  WarpRows* const rows = warp_rows + warp;
  float* const candidates = workspace + (int64_t{blockIdx.x} * kTileRows + warp * kWarpRows) * kCapacity;
  const int64_t num_items = params.NumRowTiles() * params.num_sequence_heads;

  for (int64_t item = blockIdx.x; item < num_items; item += gridDim.x) {
    const RowTileOfBlock tile(params, item);
    const BlockHead head(params, tile.sequence_head);
    const AttendedColumns attended(params, tile.row_begin, tile.row_end);
    rows->bound[lane] = -INFINITY;
    rows->count[lane] = 0;
    __syncthreads();  // the queries before these have been read
    CopyQueries(params, head, tile.row_begin, tile.row_end, queries);
    const int first = attended.begin / kTileKeys * kTileKeys;
    const int num_tiles = (attended.end - first + kTileKeys - 1) / kTileKeys;
    WalkTiles(
        params, keys, num_tiles,
        [&](int i, uint32_t to) { CopyKeys(params, head, first + (num_tiles - 1 - i) * kTileKeys, to); },
        [&](int i, uint32_t stage) {
          const int begin = first + (num_tiles - 1 - i) * kTileKeys;
          ScoreFragment scores;
          MultiplyTile(params, queries, stage, &scores);
          if (!attended.Whole(begin, begin + kTileKeys)) {
            MaskUnattended(params, tile.row_begin, tile.row_end, begin, &scores);
          }
          Append(scores, rows, candidates);
          uint32_t full = __ballot_sync(~0u, rows->count[lane] > kCapacity - kTileKeys);
          while (full != 0) {
            const int row = __ffs(static_cast<int>(full)) - 1;
            full &= full - 1;
            KeepLargest(candidates + int64_t{row} * kCapacity, rows->count[row], kEnough, &rows->count[row],
                        &rows->bound[row]);
          }
        });

    for (int i = 0; i < kWarpRows; ++i) {
      const int64_t row = tile.row_begin + warp * kWarpRows + i;
      if (row >= tile.row_end) break;
      float* const row_candidates = candidates + int64_t{i} * kCapacity;
      KeepLargest(row_candidates, rows->count[i], kWanted, &rows->count[i], &rows->bound[i]);
      constexpr float kLog2E = 1.442695040888963407f;
      const float natural = lse[head.row_slot + row];
      SumLargest(row_candidates, rows->count[i], natural == -INFINITY ? INFINITY : natural * kLog2E,
                 top_mass + (head.row_slot + row) * kTopMassCounts);
    }
    __syncwarp();
  }
}

// Blocks in flight, and with them the workspace, follow the GPU and not the problem.
Status CountBlocks(const ScoreParams& params, int64_t* blocks) {
  CurrentDevice device;
  if (Status status = FindCurrentDevice(&device); !status.ok()) return status;
  *blocks = std::min<int64_t>(params.NumRowTiles() * params.num_sequence_heads,
                              int64_t{device.num_multiprocessors} * kBlocksPerMultiprocessor);
  return {};
}

int64_t WorkspaceBytes(int64_t blocks) {
  return blocks * kTileRows * kCapacity * int64_t{sizeof(float)};
}

constexpr int64_t kStaticShared = kWarps * sizeof(WarpRows);

}  // namespace
}  // namespace statistics

Status TopMassWorkspaceBytes(const AttentionProblem& problem, int64_t* bytes) {
  if (bytes == nullptr) return {StatusCode::kInvalidArgument, "TopMassWorkspaceBytes: bytes is null."};
  statistics::ScoreParams params;
  int64_t blocks = 0;
  if (Status status = statistics::MakeScoreParams(problem, 0, statistics::kStaticShared, {}, nullptr, &params);
      !status.ok()) {
    return status;
  }
  if (Status status = statistics::CountBlocks(params, &blocks); !status.ok()) return status;
  *bytes = statistics::WorkspaceBytes(blocks);
  return {};
}

Status TopMassCuda(const AttentionProblem& problem, int32_t window, const float* lse, float* top_mass, void* workspace,
                   int64_t workspace_bytes, void* stream) {
  statistics::ScoreParams params;
  int64_t blocks = 0;
  if (Status status = statistics::MakeScoreParams(
          problem, window, statistics::kStaticShared,
          {{"lse", lse}, {"top_mass", top_mass}, {"workspace", static_cast<const float*>(workspace)}}, stream, &params);
      !status.ok()) {
    return status;
  }
  if (Status status = statistics::CountBlocks(params, &blocks); !status.ok()) return status;
  if (workspace_bytes < statistics::WorkspaceBytes(blocks)) {
    return {StatusCode::kInvalidArgument, "workspace_bytes is " + std::to_string(workspace_bytes) +
                                              ": TopMassWorkspaceBytes asks for " +
                                              std::to_string(statistics::WorkspaceBytes(blocks)) + "."};
  }
  return statistics::LaunchScores("TopMassKernel", problem, statistics::TopMassKernel,
                                  dim3(static_cast<unsigned>(blocks)), params.SharedBytes(0), stream, params, lse,
                                  top_mass, static_cast<float*>(workspace));
}

}  // namespace headscope::kernels
