// Definition of LaunchDense (decode_launch.h); included by each of its translation units.
#pragma once

#include "decode/decode_launch.h"
#include "decode/dense_kernels.cuh"
#include "shared_memory.h"

namespace headscope::kernels::decode {

template <typename T, int D>
cudaError_t LaunchDense(const DenseParams& params, cudaStream_t stream) {
  const auto kernel = DenseKernel<T, D>;
  if (const cudaError_t error = AllowSharedMemory(kernel); error != cudaSuccess) return error;
  kernel<<<static_cast<unsigned>(params.blocks), kDenseWarps * 32, static_cast<size_t>(params.shared_bytes), stream>>>(
      params);
  return cudaGetLastError();
}

}  // namespace headscope::kernels::decode
