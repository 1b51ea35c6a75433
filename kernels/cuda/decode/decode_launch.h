// Typed launchers, few instantiations to a translation unit, so that each compiles in seconds and changes alone.
#pragma once

#include <cuda_runtime_api.h>

#include "decode/decode_params.h"

namespace headscope::kernels::decode {

// The first CUDA error, or cudaSuccess.
template <typename T, int D>
cudaError_t LaunchDense(const DenseParams& params, cudaStream_t stream);
template <typename T, int D>
cudaError_t LaunchSparq(const SparqParams& params, cudaStream_t stream);

// Lets a kernel take all the dynamic shared memory that a block may have beside its own static bytes. The limit is the
// same in every call, so that calls of different sizes on several threads do not lower each other's.
template <typename Kernel>
cudaError_t AllowSharedMemory(Kernel* kernel, int static_bytes) {
  int device = 0, bytes = 0;
  if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) return error;
  if (const cudaError_t error = cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
      error != cudaSuccess) {
    return error;
  }
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes - static_bytes);
}

template <typename T>
cudaError_t LaunchAppend(const AppendParams& params, cudaStream_t stream);

}  // namespace headscope::kernels::decode
