// Definitions of the launchers of decode_launch.h; included by each of their translation units.
#pragma once

#include <algorithm>

#include "decode/decode_launch.h"

namespace headscope::kernels::decode {

// cluster: blocks of a cluster (1: none). after_previous: the kernel waits for the previous launch itself and may be
// started early.
template <typename Kernel, typename Params>
cudaError_t Launch(Kernel kernel, dim3 grid, int threads, size_t shared, int cluster, bool after_previous,
                   const Params& params, cudaStream_t stream) {
  // Setting an attribute is cheap and idempotent; it must precede the first launch on every device.
  if (shared > 48 * 1024) {
    const cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
    if (error != cudaSuccess) return error;
  }
  if (cluster > 8) {
    const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    if (error != cudaSuccess) return error;
  }
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  config.attrs = attributes;
  if (cluster > 1) {
    attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
    attributes[config.numAttrs++].val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
  }
  if (after_previous) {
    attributes[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
  }
  return cudaLaunchKernelEx(&config, kernel, params);
}

template <typename T, int D>
cudaError_t LaunchDense(const DenseParams& params, int batch, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(params.num_spans), static_cast<unsigned>(batch * params.num_kv_heads));
  const cudaError_t error = Launch(DenseSpanKernel<T, D>, grid, kThreads, 0, 1, false, params, stream);
  if (error != cudaSuccess) return error;
  return Launch(DenseMergeKernel<T, D>, dim3(static_cast<unsigned>(batch * params.num_kv_heads * params.group)), D, 0,
                1, true, params, stream);
}

template <typename T, int D, int G, int kPasses>
cudaError_t LaunchSparqGroup(const SparqParams& params, int batch, cudaStream_t stream) {
  constexpr size_t kShared = kFixedBytes<D, G> + std::max(kMergedBytes<D, G>, sizeof(float) * G * kPasses * kStride);
  const dim3 grid(static_cast<unsigned>(params.num_spans), static_cast<unsigned>(batch * params.num_kv_heads));
  return Launch(SparqKernel<T, D, G, kPasses>, grid, kThreads, kShared, G > 1 ? params.num_spans : 1, false, params,
                stream);
}

template <typename T, int D, int G>
cudaError_t LaunchSparqPasses(const SparqParams& params, int batch, cudaStream_t stream) {
  if constexpr (G > 1 && G < 8) {
    if (params.passes == 4) return LaunchSparqGroup<T, D, G, 4>(params, batch, stream);
  }
  return LaunchSparqGroup<T, D, G, 2>(params, batch, stream);
}

template <typename T, int D>
cudaError_t LaunchSparq(const SparqParams& params, int batch, cudaStream_t stream) {
  switch (params.group) {
    case 1:
      return LaunchSparqPasses<T, D, 1>(params, batch, stream);
    case 2:
      return LaunchSparqPasses<T, D, 2>(params, batch, stream);
    case 4:
      return LaunchSparqPasses<T, D, 4>(params, batch, stream);
    case 8:
      return LaunchSparqPasses<T, D, 8>(params, batch, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace headscope::kernels::decode
