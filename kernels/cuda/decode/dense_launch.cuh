// Definition of LaunchDense (decode_launch.h); included by each of its translation units.
#pragma once

#include "decode/decode_launch.h"
#include "decode/dense_kernels.cuh"

namespace headscope::kernels::decode {

template <typename T, int D>
cudaError_t LaunchDense(const DenseParams& params, cudaStream_t stream) {
  const auto kernel = DenseKernel<T, D>;
  constexpr int kStaticBytes = 128;  // one integer, as aligned as what lies behind it
  if (const cudaError_t error = AllowSharedMemory(kernel, kStaticBytes); error != cudaSuccess) return error;
  kernel<<<static_cast<unsigned>(params.blocks), kDenseWarps * 32, static_cast<size_t>(params.shared_bytes), stream>>>(
      params);
  return cudaGetLastError();
}

}  // namespace headscope::kernels::decode
