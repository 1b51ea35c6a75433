// Definitions of the launchers of decode_launch.h; included by each of their translation units.
#pragma once

#include "decode/decode_launch.h"

namespace headscope::kernels::decode {

template <typename T, int D>
cudaError_t LaunchDense(const DenseParams& params, int batch, int group, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(params.num_spans), static_cast<unsigned>(batch * params.num_kv_heads));
  switch (group) {
    case 1: DenseSpanKernel<T, D, 1><<<grid, kThreads, 0, stream>>>(params); break;
    case 2: DenseSpanKernel<T, D, 2><<<grid, kThreads, 0, stream>>>(params); break;
    case 4: DenseSpanKernel<T, D, 4><<<grid, kThreads, 0, stream>>>(params); break;
    case 8: DenseSpanKernel<T, D, 8><<<grid, kThreads, 0, stream>>>(params); break;
    default: return cudaErrorInvalidValue;
  }
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) return error;
  DenseMergeKernel<T, D><<<static_cast<unsigned>(batch * params.num_kv_heads * group), D, 0, stream>>>(params, group);
  return cudaGetLastError();
}

template <typename Kernel>
cudaError_t LaunchWithShared(Kernel kernel, dim3 grid, size_t shared, int cluster, const SparqParams& params, cudaStream_t stream) {
  // Setting an attribute is cheap and idempotent; it must precede the first launch on every device.
  if (shared > 48 * 1024) {
    if (const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)); error != cudaSuccess) return error;
  }
  if (cluster > 8) {
    if (const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1); error != cudaSuccess) return error;
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  cudaLaunchAttribute attribute = {};
  if (cluster > 1) {
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
    config.attrs = &attribute;
    config.numAttrs = 1;
  }
  return cudaLaunchKernelEx(&config, kernel, params);
}

template <typename T, int D, int G>
cudaError_t LaunchSparqGroup(const SparqParams& params, int batch, cudaStream_t stream) {
  const auto lists = static_cast<unsigned>(batch * params.num_kv_heads);
  constexpr size_t kShared = sizeof(SparqShared<T, D, G>);
  if (params.num_spans == 1) return LaunchWithShared(SparqSelectKernel<T, D, G, true>, dim3(1, lists), kShared, 1, params, stream);
  const dim3 grid(static_cast<unsigned>(params.num_spans), lists);
  const int cluster = G > 1 ? params.num_spans : 1;
  if (const cudaError_t error = LaunchWithShared(SparqSelectKernel<T, D, G, false>, grid, kShared, cluster, params, stream); error != cudaSuccess) return error;
  const int64_t candidates = int64_t{params.num_spans} * params.num_tokens;
  if (candidates <= 16 * kThreads) return LaunchWithShared(SparqAttendKernel<T, D, G, 16>, dim3(lists), kShared, 1, params, stream);
  return LaunchWithShared(SparqAttendKernel<T, D, G, 64>, dim3(lists), kShared, 1, params, stream);
}

template <typename T, int D>
cudaError_t LaunchSparq(const SparqParams& params, int batch, cudaStream_t stream) {
  switch (params.group) {
    case 1: return LaunchSparqGroup<T, D, 1>(params, batch, stream);
    case 2: return LaunchSparqGroup<T, D, 2>(params, batch, stream);
    case 4: return LaunchSparqGroup<T, D, 4>(params, batch, stream);
    case 8: return LaunchSparqGroup<T, D, 8>(params, batch, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace headscope::kernels::decode
