// SPDX-License-Identifier: Apache-2.0
// Barriers in shared memory that count arrivals and bytes (mbarrier), and what arrives there by itself from another
// block of a cluster (cluster.cuh). Compute capability 9.0; in code for older GPUs nothing calls these.
//
// A phase ends when as many threads have arrived as the barrier was made for and all bytes that they said would come
// are there. What bytes have brought is seen by who has waited. Nothing of this waits for a thread's other writes, as a
// cluster's own barrier does where it releases: that takes a fence of the whole GPU.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "cluster.cuh"
#include "shared_memory.cuh"

namespace headscope::kernels::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

__device__ __forceinline__ void InitBarrier(uint64_t* barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SharedAddress(barrier)), "r"(arrivals) : "memory");
}
// Behind InitBarrier by the same thread, before the cluster's barrier behind which others reach these.
__device__ __forceinline__ void ShowBarriersToCluster() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void ArriveExpecting(uint64_t* barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SharedAddress(barrier)), "r"(bytes)
               : "memory");
}
// At the same barrier of another block.
__device__ __forceinline__ void ArriveInBlock(uint64_t* barrier, int block) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(AddressInBlock(SharedAddress(barrier), block))
               : "memory");
}
__device__ __forceinline__ void AwaitBarrier(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(SharedAddress(barrier)),
      "r"(parity)
      : "memory");
}
// What this thread has written to shared memory, copies that have arrived included, is there for the copy engine and
// the tensor cores.
__device__ __forceinline__ void ShowToCopies() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Bytes from here to where `to` is in another block, counted by the same barrier there; a multiple of 16, as addresses
// are. They must stay until they have arrived.
__device__ __forceinline__ void CopyToBlock(void* to, const void* from, uint32_t bytes, uint64_t* barrier, int block) {
  asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   AddressInBlock(SharedAddress(to), block)),
               "r"(SharedAddress(from)), "r"(bytes), "r"(AddressInBlock(SharedAddress(barrier), block))
               : "memory");
}
// Four words, 16 bytes likewise.
__device__ __forceinline__ void SendToBlock(void* to, const uint4& words, uint64_t* barrier, int block) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
                   AddressInBlock(SharedAddress(to), block)),
               "r"(words.x), "r"(words.y), "r"(words.z), "r"(words.w),
               "r"(AddressInBlock(SharedAddress(barrier), block))
               : "memory");
}

#endif

}  // namespace headscope::kernels::cuda
