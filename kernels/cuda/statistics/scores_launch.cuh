// SPDX-License-Identifier: Apache-2.0
// Launching a statistics kernel: shared memory beyond the default, and errors with the kernel's name and shapes.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "kernels/attention_problem.h"
#include "kernels/cuda_resources.h"
#include "problem_check.h"
#include "shared_memory.h"
#include "statistics/score_tile.cuh"

namespace headscope::kernels::statistics {

template <typename... Args>
Status LaunchScores(const char* name, const AttentionProblem& problem, void (*kernel)(Args...), dim3 grid,
                    int64_t shared_bytes, void* stream, Args... args) {
  const std::string what = std::string(name) + " (" + Describe(problem) + ")";
  if (Status status = CudaStatus(AllowSharedMemory(kernel), what); !status.ok()) return status;
  kernel<<<grid, kThreads, static_cast<size_t>(shared_bytes), static_cast<cudaStream_t>(stream)>>>(args...);
  return CudaStatus(cudaGetLastError(), what);
}

// Blocks in order of launch: heads one after the other, so that those in flight share K in the L2 cache; in a head the
// last rows, which are the longest under causality, first.
struct RowTileOfBlock {
  int sequence_head;
  int64_t row_begin, row_end;

  __device__ RowTileOfBlock(const ScoreParams& params, int64_t block) {
    const int64_t tiles = params.NumRowTiles();
    sequence_head = static_cast<int>(block / tiles);
    row_begin = (tiles - 1 - block % tiles) * kTileRows;
    row_end = min(row_begin + kTileRows, int64_t{params.seq_q});
  }
};

}  // namespace headscope::kernels::statistics
