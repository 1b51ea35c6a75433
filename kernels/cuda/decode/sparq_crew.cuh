// A crew: 256 threads of a block that score, select and attend together. A block of SparqKernel is one crew, a block of
// SparqStreamKernel has two, which never wait for each other at a barrier. Crews begin at multiples of kSparqThreads.
#pragma once

#include "decode/decode_params.h"

namespace headscope::kernels::decode {

__device__ __forceinline__ int CrewThread() {
  return static_cast<int>(threadIdx.x % kSparqThreads);
}
__device__ __forceinline__ int CrewWarp() {
  return CrewThread() / 32;
}
__device__ __forceinline__ int Lane() {
  return static_cast<int>(threadIdx.x % 32);
}

// __syncthreads() of the crew alone; that of the whole block is barrier 0.
__device__ __forceinline__ void CrewBarrier() {
  asm volatile("bar.sync %0, %1;" ::"r"(1 + static_cast<int>(threadIdx.x) / kSparqThreads), "n"(kSparqThreads)
               : "memory");
}

}  // namespace headscope::kernels::decode
