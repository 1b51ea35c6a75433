// SPDX-License-Identifier: Apache-2.0
// Row LSE by the kernel for GPUs other than Hopper.
#pragma once

#include <cstdint>

#include "kernels/attention_problem.h"
#include "kernels/status.h"

namespace headscope::kernels::statistics {

// As RowLseCuda (kernels/cuda_statistics.h), whatever the GPU: the twin that tests compare the wgmma kernel with.
Status RowLseMma(const AttentionProblem& problem, int32_t window, float* lse, void* stream);

}  // namespace headscope::kernels::statistics
