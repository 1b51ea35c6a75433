// SPDX-License-Identifier: Apache-2.0
// Addresses in shared memory, and matrices out of it for the tensor cores. What a launch may have of it:
// shared_memory.h.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace headscope::kernels::cuda {

// The address that PTX takes in its shared state space.
__device__ __forceinline__ uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// Four 8 x 8 matrices of 2-byte elements by one ldmatrix. Lane l gives the address of row l % 8 of matrix l / 8, a
// multiple of 16; of matrix i it receives in r[i] elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4.
//
// One instruction, because a product wants its four registers together: from pieces that were read one by one, the
// compiler moves them together again for every product.
__device__ __forceinline__ void LoadMatrices(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// The same with each matrix transposed: elements 2 (l % 4) and 2 (l % 4) + 1 of column l / 4.
__device__ __forceinline__ void LoadMatricesTransposed(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// The other way, from compute capability 9.0 on: what LoadMatrices would read into words of `r` goes to where it would
// read it from.
__device__ __forceinline__ void StoreMatrices(uint32_t address, const uint32_t (&r)[4]) {
#if __CUDA_ARCH__ >= 900
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(r[0]), "r"(r[1]),
               "r"(r[2]), "r"(r[3])
               : "memory");
#endif
}

}  // namespace headscope::kernels::cuda
