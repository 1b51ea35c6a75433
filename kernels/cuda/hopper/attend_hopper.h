// SPDX-License-Identifier: Apache-2.0
// The sm_90a prefill executor: TMA and wgmma, one persistent warp-specialised kernel for every SparseIndex.
// docs/kernels/prefill.md has its design.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "current_device.h"
#include "kernels/attention_problem.h"
#include "kernels/sparse_index.h"
#include "kernels/status.h"

namespace headscope::kernels::hopper {

// Why this executor does not take a checked problem, in one sentence; empty when it does.
std::string WhyNot(const AttentionProblem& problem, const SparseIndexView& index, const AttentionOutput& output,
                   const CurrentDevice& device);

// Launches the work order and the kernel on `stream`; the problem was checked and WhyNot() was empty.
Status Attend(const AttentionProblem& problem, const SparseIndexView& index, const AttentionOutput& output,
              const CurrentDevice& device, cudaStream_t stream);

}  // namespace headscope::kernels::hopper
