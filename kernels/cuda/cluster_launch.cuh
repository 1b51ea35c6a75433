// SPDX-License-Identifier: Apache-2.0
// Launches of clusters (cluster.cuh), compute capability 9.0.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstddef>

namespace headscope::kernels::cuda {

// Whether the code of a kernel that would run is for compute capability 9.0: which code runs is for the runtime to say,
// not for the GPU's version.
inline bool IsHopperCode(const cudaFuncAttributes& code) {
  return code.ptxVersion >= 90;
}
inline cudaError_t RunsHopperCode(const void* kernel, bool* does) {
  cudaFuncAttributes code{};
  const cudaError_t error = cudaFuncGetAttributes(&code, kernel);
  *does = error == cudaSuccess && IsHopperCode(code);
  return error;
}

constexpr int kMostClusterBlocks = 16;  // more than 8 of them a kernel must be allowed (AllowLargeClusters)

inline cudaLaunchConfig_t ClusterLaunch(int clusters, int blocks, int threads, int shared_bytes,
                                        cudaLaunchAttribute* cluster) {
  *cluster = {};
  cluster->id = cudaLaunchAttributeClusterDimension;
  cluster->val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(clusters * blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.attrs = cluster;
  config.numAttrs = 1;
  return config;
}

inline cudaError_t AllowLargeClusters(const void* kernel) {
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
}

// How many clusters of so many blocks the current GPU has room for at once, where a block takes all shared memory that
// it can: fewer than its multiprocessors suggest, as a cluster keeps to one group of them. The kernel may have large
// clusters and all shared memory. Asked for once a GPU and kernel.
template <auto kKernel>
cudaError_t ClustersAtOnce(int blocks, int threads, int* clusters) {
  constexpr int kRemembered = 32;
  static std::atomic<int> known[kRemembered][kMostClusterBlocks + 1];  // one more than the number; 0: not asked for yet
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) return error;
  std::atomic<int>* const here = device < kRemembered ? &known[device][blocks] : nullptr;
  if (here != nullptr && *here > 0) {
    *clusters = *here - 1;
    return cudaSuccess;
  }
  cudaFuncAttributes code{};
  const auto* const function = reinterpret_cast<const void*>(kKernel);
  if (const cudaError_t error = cudaFuncGetAttributes(&code, function); error != cudaSuccess) return error;
  cudaLaunchAttribute cluster;
  const cudaLaunchConfig_t config = ClusterLaunch(1, blocks, threads, code.maxDynamicSharedSizeBytes, &cluster);
  if (const cudaError_t error = cudaOccupancyMaxActiveClusters(clusters, kKernel, &config); error != cudaSuccess)
    return error;
  if (here != nullptr) *here = *clusters + 1;
  return cudaSuccess;
}

// LaunchDependent (dependent_launch.cuh) with so many blocks a cluster; an ordinary launch where the code is for older
// GPUs, which know neither.
template <class... Params, class... Args>
cudaError_t LaunchDependentClusters(void (*kernel)(Params...), int cluster_blocks, dim3 grid, int threads,
                                    size_t shared_bytes, cudaStream_t stream, const Args&... args) {
  bool is_hopper = false;
  if (const cudaError_t error = RunsHopperCode(reinterpret_cast<const void*>(kernel), &is_hopper); error != cudaSuccess)
    return error;
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {static_cast<unsigned>(cluster_blocks), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = is_hopper ? 2 : 0;
  return cudaLaunchKernelEx(&config, kernel, args...);
}

}  // namespace headscope::kernels::cuda
