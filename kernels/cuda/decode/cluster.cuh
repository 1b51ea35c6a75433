// The blocks of a thread-block cluster and their shared memory (compute capability 9.0).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace headscope::kernels::decode {

// Arrive and Wait together are a barrier of all threads of all blocks of the cluster.
__device__ __forceinline__ void ArriveAtCluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ __forceinline__ void WaitForCluster() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// What `pointer` points at in this block's shared memory, read from the cluster's block `rank`.
__device__ __forceinline__ float2 LoadFromCluster(const float2* pointer, int rank) {
  uint32_t address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(address)
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(pointer))), "r"(rank));
  float2 value;
  asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];" : "=f"(value.x), "=f"(value.y) : "r"(address) : "memory");
  return value;
}

}  // namespace headscope::kernels::decode
