// SPDX-License-Identifier: Apache-2.0
// Statistics of single rows that need a row's whole list of scores, the device's side of CudaScores::RowNumbers.
#pragma once

#include "kernels/attention_problem.h"
#include "kernels/cuda_statistics.h"
#include "kernels/status.h"

namespace headscope::kernels::statistics {

// problem and lse: device pointers, one head of one sequence. Returns when `numbers` is filled.
Status RowNumbersOnDevice(const AttentionProblem& problem, int32_t window, const float* lse,
                          const RowNumbersRequest& request, RowNumbers* numbers);

}  // namespace headscope::kernels::statistics
