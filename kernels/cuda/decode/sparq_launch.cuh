// Definition of LaunchSparq (decode_launch.h); included by each of its translation units.
#pragma once

#include "decode/decode_launch.h"
#include "decode/sparq_kernels.cuh"
#include "decode/sparq_stream_kernel.cuh"
#include "shared_memory.h"

namespace headscope::kernels::decode {

template <typename T, int D>
cudaError_t LaunchSparq(const SparqParams& params, cudaStream_t stream) {
  const SparqPlan& plan = params.plan;
  const bool streams = plan.path == SparqPath::kOneHead;
  const auto kernel = streams                             ? SparqStreamKernel<T, D>
                      : plan.path == SparqPath::kFewHeads ? SparqKernel<T, D, SparqPath::kFewHeads>
                                                          : SparqKernel<T, D, SparqPath::kManyHeads>;
  if (const cudaError_t error = AllowSharedMemory(kernel); error != cudaSuccess) return error;
  cudaLaunchAttribute together = {};
  together.id = cudaLaunchAttributeCooperative;
  together.val.cooperative = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(plan.blocks));
  config.blockDim = dim3(streams ? kStreamThreads : kSparqThreads);
  config.dynamicSmemBytes = static_cast<size_t>(plan.shared_bytes);
  config.stream = stream;
  // Blocks that wait for each other start together or not at all, whatever else runs on the GPU.
  config.attrs = &together;
  config.numAttrs = plan.waits != 0 ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, params);
}

}  // namespace headscope::kernels::decode
