// SPDX-License-Identifier: Apache-2.0
// What the FP8 executor's host code launches.
#pragma once

#include <cuda_runtime_api.h>

#include "fp8/fp8_params.h"

namespace headscope::kernels::fp8 {

cudaError_t LaunchFp8D128(const Fp8Params& params, int num_blocks, cudaStream_t stream);

// For problems of which every head may keep everything, in front of the former.
cudaError_t LaunchFp8Wide(const Fp8Params& params, int num_blocks, cudaStream_t stream);

}  // namespace headscope::kernels::fp8
