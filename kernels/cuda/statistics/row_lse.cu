// SPDX-License-Identifier: Apache-2.0
// Row LSE on mma.m16n8k16, and the choice between it and the Hopper kernel. Online maximum and sum per row; every
// thread keeps both for its own quarter of the columns, so the loop has no shuffles, and the quad's four parts meet at
// the end.
#include "current_device.h"
#include "kernels/cuda_statistics.h"
#include "statistics/row_lse_hopper.h"
#include "statistics/row_lse_mma.h"
#include "statistics/scores_launch.cuh"
#include "statistics/sink_term.cuh"

namespace headscope::kernels {
namespace statistics {
namespace {

// Base 2 throughout: maximum and sum of exp2(score - maximum) over what the thread has seen of each of its four rows.
struct RowState {
  float maximum[2][2];
  float sum[2][2];
};

__device__ __forceinline__ void Fold(const ScoreFragment& scores, RowState* state) {
#pragma unroll
  for (int mt = 0; mt < 2; ++mt) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = scores.value[mt][0][half * 2];
#pragma unroll
      for (int nt = 0; nt < 8; ++nt) {
        largest = fmaxf(largest, fmaxf(scores.value[mt][nt][half * 2], scores.value[mt][nt][half * 2 + 1]));
      }
      const float maximum = fmaxf(state->maximum[mt][half], largest);
      // Nothing attended so far: -inf - -inf is no number.
      const float shift = maximum == -INFINITY ? 0.0f : maximum;
      float part[2] = {0.0f, 0.0f};
#pragma unroll
      for (int nt = 0; nt < 8; ++nt) {
        part[0] += Exp2(scores.value[mt][nt][half * 2] - shift);
        part[1] += Exp2(scores.value[mt][nt][half * 2 + 1] - shift);
      }
      state->sum[mt][half] = state->sum[mt][half] * Exp2(state->maximum[mt][half] - shift) + (part[0] + part[1]);
      state->maximum[mt][half] = maximum;
    }
  }
}

__global__ void __launch_bounds__(kThreads, 3)
    RowLseKernel(const __grid_constant__ ScoreParams params, const __grid_constant__ HeadSinks sinks, float* lse) {
  extern __shared__ __align__(16) char shared[];
  const RowTileOfBlock tile(params, blockIdx.x);
  const BlockHead head(params, tile.sequence_head);
  const uint32_t queries = SharedAddress(shared);
  const uint32_t keys = queries + kTileRows * RowBytes(params.head_dim);
  CopyQueries(params, head, tile.row_begin, tile.row_end, queries);

  const AttendedColumns columns(params, tile.row_begin, tile.row_end);
  const int first = columns.begin / kTileKeys * kTileKeys;
  RowState state;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    state.maximum[i / 2][i % 2] = -INFINITY;
    state.sum[i / 2][i % 2] = 0.0f;
  }
  WalkTiles(
      params, keys, (columns.end - first + kTileKeys - 1) / kTileKeys,
      [&](int i, uint32_t to) { CopyKeys(params, head, first + i * kTileKeys, to); },
      [&](int i, uint32_t stage) {
        const int begin = first + i * kTileKeys;
        ScoreFragment scores;
        MultiplyTile(params, queries, stage, &scores);
        if (!columns.Whole(begin, begin + kTileKeys)) {
          MaskUnattended(params, tile.row_begin, tile.row_end, begin, &scores);
        }
        Fold(scores, &state);
      });

#pragma unroll
  for (int mt = 0; mt < 2; ++mt) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float maximum = QuadMax(state.maximum[mt][half]);
      const float shift = maximum == -INFINITY ? 0.0f : maximum;
      const float sum = QuadSum(state.sum[mt][half] * Exp2(state.maximum[mt][half] - shift));
      const int64_t row = tile.row_begin + RowOf(mt, half);
      if (threadIdx.x % 4 == 0 && row < tile.row_end) {
        constexpr float kLn2 = 0.693147180559945309f;
        // A sum of 0 is a row that attends to nothing; NaN among its scores is a sum of NaN.
        lse[head.row_slot + row] = WithSink(sum == 0.0f ? -INFINITY : maximum * kLn2 + logf(sum), sinks,
                                            tile.sequence_head % params.num_qo_heads);
      }
    }
  }
}

Status LaunchRowLseMma(const AttentionProblem& problem, const ScoreParams& params, float* lse, void* stream) {
  const auto blocks = static_cast<unsigned>(params.NumRowTiles() * params.num_sequence_heads);
  return LaunchScores("RowLseKernel", problem, RowLseKernel, dim3(blocks), params.SharedBytes(0), stream, params,
                      SinksOf(problem), lse);
}

}  // namespace

Status RowLseMma(const AttentionProblem& problem, int32_t window, float* lse, void* stream) {
  ScoreParams params;
  Status status = MakeScoreParams(problem, window, 0, {{"lse", lse}}, stream, &params);
  return status.ok() ? LaunchRowLseMma(problem, params, lse, stream) : status;
}

}  // namespace statistics

Status RowLseCuda(const AttentionProblem& problem, int32_t window, float* lse, void* stream) {
  statistics::ScoreParams params;
  Status status = statistics::MakeScoreParams(problem, window, 0, {{"lse", lse}}, stream, &params);
  if (!status.ok()) return status;
  CurrentDevice device;
  if (status = FindCurrentDevice(&device); !status.ok()) return status;
  // sm_90a code runs on 9.0 alone.
  if (device.compute_capability != 90) return statistics::LaunchRowLseMma(problem, params, lse, stream);
  return statistics::RowLseHopper(problem, params, device.num_multiprocessors, lse, static_cast<cudaStream_t>(stream));
}

}  // namespace headscope::kernels
