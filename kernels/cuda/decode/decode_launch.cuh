// SPDX-License-Identifier: Apache-2.0
// How the decode kernels are launched.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "shared_memory.h"

namespace headscope::kernels::decode {

// `together`: the blocks wait for each other, so they start together or not at all, whatever else runs on the GPU.
template <typename Params>
cudaError_t Launch(void (*kernel)(Params), const Params& params, int blocks, int threads, int shared_bytes,
                   bool together, cudaStream_t stream) {
  if (const cudaError_t error = AllowSharedMemory(kernel); error != cudaSuccess) return error;
  cudaLaunchAttribute cooperative = {};
  cooperative.id = cudaLaunchAttributeCooperative;
  cooperative.val.cooperative = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.stream = stream;
  config.attrs = &cooperative;
  config.numAttrs = together ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, params);
}

}  // namespace headscope::kernels::decode
