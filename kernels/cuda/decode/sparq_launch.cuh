// Definition of LaunchSparq (decode_launch.h); included by each of its translation units.
#pragma once

#include "decode/decode_launch.h"
#include "decode/sparq_kernels.cuh"

namespace headscope::kernels::decode {

template <typename T, int D>
cudaError_t LaunchSparq(const SparqParams& params, cudaStream_t stream) {
  const SparqPlan& plan = params.plan;
  const auto kernel = plan.path == SparqPath::kOneHead ? SparqKernel<T, D, SparqPath::kOneHead>
                                                       : SparqKernel<T, D, SparqPath::kTensorCores>;
  // Setting an attribute is cheap and idempotent; it must precede the first launch on every device.
  cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, plan.shared_bytes);
  if (error != cudaSuccess) return error;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(plan.blocks));
  config.blockDim = dim3(kSparqThreads);
  config.dynamicSmemBytes = static_cast<size_t>(plan.shared_bytes);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, params);
}

}  // namespace headscope::kernels::decode
