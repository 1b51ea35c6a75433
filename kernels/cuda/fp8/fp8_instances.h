// SPDX-License-Identifier: Apache-2.0
// What the FP8 executor's host code launches.
#pragma once

#include <cuda_runtime_api.h>

#include "fp8/fp8_params.h"

namespace headscope::kernels::fp8 {

cudaError_t LaunchFp8Lists(const Fp8Params& params, int num_blocks, cudaStream_t stream);

// The same where the rows' largest scores are asked for.
cudaError_t LaunchFp8Rare(const Fp8Params& params, int num_blocks, cudaStream_t stream);

// For problems in which every head keeps what a causal rule leaves to it: where the device finds that out, in front of
// the former.
cudaError_t LaunchFp8Dense(const Fp8Params& params, int num_blocks, cudaStream_t stream);
constexpr int kDenseRows = 192;  // of its items

}  // namespace headscope::kernels::fp8
