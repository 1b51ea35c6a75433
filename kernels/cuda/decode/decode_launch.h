// SPDX-License-Identifier: Apache-2.0
// Typed launchers, few instantiations to a translation unit, so that each compiles in seconds and changes alone.
#pragma once

#include <cuda_runtime_api.h>

#include "decode/decode_params.h"

namespace headscope::kernels::decode {

// The first CUDA error, or cudaSuccess.
template <typename T, int D>
cudaError_t LaunchDense(const WithSinks<DenseParams>& params, cudaStream_t stream);
template <typename T, int D>
cudaError_t LaunchSparq(const SparqParams& params, cudaStream_t stream);

template <typename T>
cudaError_t LaunchAppend(const AppendParams& params, cudaStream_t stream);

}  // namespace headscope::kernels::decode
