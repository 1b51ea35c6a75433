// SPDX-License-Identifier: Apache-2.0
// Texels with any edges, the device's side of CudaScores::TexelsBetween.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention_problem.h"
#include "kernels/cuda_statistics.h"
#include "kernels/status.h"

namespace headscope::kernels::statistics {

// problem and lse: device pointers, one head of one sequence. texels: host. Returns when they are there.
Status TexelsBetweenOnDevice(const AttentionProblem& problem, int32_t window, const float* lse, TexelValue value,
                             const std::vector<int64_t>& row_edges, const std::vector<int64_t>& column_edges,
                             double* texels);

}  // namespace headscope::kernels::statistics
