// SPDX-License-Identifier: Apache-2.0
// Dynamic shared memory beyond 48 KiB, which a kernel gets only where it was allowed to have it.
#pragma once

#include <cuda_runtime_api.h>

namespace headscope::kernels {

// Allows `kernel` all the shared memory that a block can have on the current GPU, and a launch then takes what it
// needs. The allowance is the kernel's and not the launch's: fitted to one launch, another thread's smaller launch of
// the same kernel could lower it in between. Asks the runtime alone: about a microsecond.
template <typename... Args>
cudaError_t AllowSharedMemory(void (*kernel)(Args...)) {
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) return error;
  int limit = 0;
  if (const cudaError_t error = cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
      error != cudaSuccess) {
    return error;
  }
  const auto* const function = reinterpret_cast<const void*>(kernel);
  cudaFuncAttributes attributes{};
  if (const cudaError_t error = cudaFuncGetAttributes(&attributes, function); error != cudaSuccess) return error;
  return cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                              limit - static_cast<int>(attributes.sharedSizeBytes));
}

}  // namespace headscope::kernels
