// SPDX-License-Identifier: Apache-2.0
// Clusters: thread blocks that are launched together on neighbouring multiprocessors, wait for each other, and reach
// each other's shared memory. Compute capability 9.0; in code for older GPUs every block is a cluster of its own.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace headscope::kernels::cuda {

// A cluster's number in a grid of one dimension, its blocks, and this block's number among them.
__device__ __forceinline__ int ClusterNumber() {
#if __CUDA_ARCH__ >= 900
  uint32_t number;
  asm("mov.u32 %0, %%clusterid.x;" : "=r"(number));
  return static_cast<int>(number);
#else
  return static_cast<int>(blockIdx.x);
#endif
}
__device__ __forceinline__ int ClusterBlocks() {
#if __CUDA_ARCH__ >= 900
  uint32_t blocks;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
  return static_cast<int>(blocks);
#else
  return 1;
#endif
}
__device__ __forceinline__ int BlockOfCluster() {
#if __CUDA_ARCH__ >= 900
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
#else
  return 0;
#endif
}

// A barrier of all threads of a cluster's blocks, in two halves: what a thread wrote before it arrived, in its own or
// another block's shared memory or in memory, is seen by who has waited. Before a block's shared memory is reached by
// another, the block must have arrived once: until then it may not have started. While others reach it, it must not
// end.
__device__ __forceinline__ void ArriveAtCluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void AwaitCluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
  __syncthreads();
#endif
}

// The first half where nothing that was written needs to be seen: a releasing one waits for all of the thread's writes
// to reach the whole GPU, about a microsecond.
__device__ __forceinline__ void ArriveAtClusterRelaxed() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}

// Where block `rank` of the cluster has what lies at `address` (SharedAddress) here.
__device__ __forceinline__ uint32_t AddressInBlock(uint32_t address, [[maybe_unused]] int rank) {
#if __CUDA_ARCH__ >= 900
  uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
#else
  return address;
#endif
}

}  // namespace headscope::kernels::cuda
