// SPDX-License-Identifier: Apache-2.0
// Kept mass of an index: a block sums p over the kept columns of one list. Runs and single columns are packed into
// tiles of 64 keys, whatever their lengths.
#include "kernels/cuda_statistics.h"
#include "statistics/list_cursor.cuh"
#include "statistics/scores_launch.cuh"

namespace headscope::kernels {
namespace statistics {
namespace {

struct Workspace {
  KeySlot slots[2][kTileKeys];
  ListWindow window;
};

// Adds up with the rounding error carried along: a row of 131,072 keys would lose a digit otherwise.
struct CarriedSum {
  float sum = 0.0f, lost = 0.0f;

  __device__ void Add(float x) {
    const float wanted = x - lost;
    const float next = sum + wanted;
    lost = (next - sum) - wanted;
    sum = next;
  }
};

__global__ void __launch_bounds__(kThreads, 3)
    KeptMassKernel(ScoreParams params, SparseIndexView index, const float* lse, float* mass) {
  extern __shared__ __align__(16) char shared[];
  __shared__ Workspace workspace;
  __shared__ int64_t warp_keys[kWarps];
  const int64_t num_tiles = (int64_t{index.seq_q} + index.tile_rows - 1) / index.tile_rows;
  const int sequence_head = static_cast<int>(blockIdx.x / num_tiles);
  const int64_t tile = num_tiles - 1 - blockIdx.x % num_tiles;  // the longest first
  const int64_t row_begin = tile * index.tile_rows;
  const int64_t row_end = min(row_begin + index.tile_rows, int64_t{params.seq_q});
  const BlockHead head(params, sequence_head);
  const uint32_t queries = SharedAddress(shared);
  const uint32_t keys = queries + kTileRows * RowBytes(params.head_dim);
  CopyQueries(params, head, row_begin, row_end, queries);

  const int num_rows = static_cast<int>(row_end - row_begin);
  const RowLseValues row_lse(lse, head.row_slot, row_begin, row_end);
  ListCursor cursor(index, sequence_head * num_tiles + tile,
                    {index.rule, index.tile_rows, params.first_position + row_begin, params.window});
  const int64_t num_keys = cursor.CountKeys(warp_keys);
  CarriedSum sums[2][2];
  uint32_t masked = 0;  // bit t % 2: tile t has keys that some row does not keep

  WalkTiles(
      params, keys, static_cast<int>((num_keys + kTileKeys - 1) / kTileKeys),
      [&](int i, uint32_t to) {
        KeySlot* const slots = workspace.slots[i % 2];
        cursor.Fill(slots, &workspace.window);
        __syncthreads();
        bool look = false;
        if (threadIdx.x < kTileKeys) {
          look = slots[threadIdx.x].first_row > 0 || slots[threadIdx.x].last_row < num_rows;
        }
        const uint32_t bit = 1u << (i % 2);
        masked = __syncthreads_or(look) != 0 ? masked | bit : masked & ~bit;
        CopyRows(to, kTileKeys, params.head_dim, [&](int key) -> const uint16_t* {
          const int column = slots[key].column;
          return column >= 0 ? head.k + column * params.k_row_stride : nullptr;
        });
      },
      [&](int i, uint32_t stage) {
        ScoreFragment scores;
        MultiplyTile(params, queries, stage, &scores);
        if ((masked >> (i % 2) & 1) != 0) {
          const KeySlot* const slots = workspace.slots[i % 2];
#pragma unroll
          for (int mt = 0; mt < 2; ++mt) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              const int row = RowOf(mt, half);
#pragma unroll
              for (int nt = 0; nt < 8; ++nt) {
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                  if (!slots[KeyOf(nt, e)].KeptBy(row)) scores.value[mt][nt][half * 2 + e] = -INFINITY;
                }
              }
            }
          }
        }
#pragma unroll
        for (int mt = 0; mt < 2; ++mt) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            float part[2] = {0.0f, 0.0f};
#pragma unroll
            for (int nt = 0; nt < 8; ++nt) {
              part[0] += Exp2(scores.value[mt][nt][half * 2] - row_lse.value[mt][half]);
              part[1] += Exp2(scores.value[mt][nt][half * 2 + 1] - row_lse.value[mt][half]);
            }
            sums[mt][half].Add(part[0] + part[1]);
          }
        }
      });

#pragma unroll
  for (int mt = 0; mt < 2; ++mt) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = QuadSum(sums[mt][half].sum);
      const int64_t row = row_begin + RowOf(mt, half);
      if (threadIdx.x % 4 == 0 && row < row_end) mass[head.row_slot + row] = sum;
    }
  }
}

}  // namespace
}  // namespace statistics

Status KeptMassCuda(const AttentionProblem& problem, int32_t window, const float* lse, const SparseIndexView& index,
                    float* mass, void* stream) {
  if (Status status = CheckShape(problem); !status.ok()) return status;
  if (Status status = CheckIndex(problem, index); !status.ok()) return status;
  statistics::ScoreParams params;
  // Room for the kernel's static shared memory beside the tiles.
  constexpr int64_t kStatic = sizeof(statistics::Workspace) + 64;
  if (Status status =
          statistics::MakeScoreParams(problem, window, kStatic, {{"lse", lse}, {"mass", mass}}, stream, &params);
      !status.ok()) {
    return status;
  }
  if (Status status = CheckIndexOnDevice(index, stream); !status.ok()) return status;
  return statistics::LaunchScores("KeptMassKernel", problem, statistics::KeptMassKernel,
                                  dim3(static_cast<unsigned>(index.NumLists())), params.SharedBytes(0), stream, params,
                                  index, lse, mass);
}

}  // namespace headscope::kernels
