// SPDX-License-Identifier: Apache-2.0
// Row LSE on sm_90a: what the host hands to the kernel, and the compiled variants of it.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "head_sinks.h"
#include "kernels/attention_problem.h"
#include "kernels/status.h"
#include "statistics/score_params.h"

namespace headscope::kernels::statistics {

constexpr int kGroupRows = 64;     // query rows of a consumer warpgroup
constexpr int kLseTileKeys = 128;  // keys of a tile

// By value, so that the TMA descriptors lie in constant memory.
struct RowLseParams {
  CUtensorMap q;  // boxes of kGroupRows rows
  CUtensorMap k;  // boxes of a tile's keys
  ScoreParams scores;
  float* lse;
  HeadSinks sinks;
  int32_t items_per_head;     // work items, each the rows of all consumer warpgroups of a block
  int32_t heads_per_section;  // heads that are worked on at a time
};

// For a GPU of compute capability 9.0. `scores`: of this problem. Asynchronous.
Status RowLseHopper(const AttentionProblem& problem, const ScoreParams& scores, int num_multiprocessors, float* lse,
                    cudaStream_t stream);

// Fill in the work items and launch.
using RowLseLaunch = cudaError_t(const RowLseParams& params, int num_multiprocessors, cudaStream_t stream);
RowLseLaunch LaunchRowLseBf16D64, LaunchRowLseBf16D128, LaunchRowLseBf16D256;
RowLseLaunch LaunchRowLseFp16D64, LaunchRowLseFp16D128, LaunchRowLseFp16D256;

}  // namespace headscope::kernels::statistics
