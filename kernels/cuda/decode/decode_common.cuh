// Shared by the decode kernels: element types, order keys and warp reductions.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "decode/decode_params.h"

namespace headscope::kernels::decode {

constexpr float kNegativeInfinity = -__builtin_huge_valf();
constexpr uint32_t kAllLanes = 0xffffffffu;

__device__ __forceinline__ float ToFloat(__nv_bfloat16 x) {
  return __bfloat162float(x);
}
__device__ __forceinline__ float ToFloat(__half x) {
  return __half2float(x);
}
__device__ __forceinline__ void Store(__nv_bfloat16* to, float x) {
  *to = __float2bfloat16(x);
}
__device__ __forceinline__ void Store(__half* to, float x) {
  *to = __float2half(x);
}

// 16 bytes that nobody reads again: kept out of L1.
__device__ __forceinline__ uint4 LoadStreaming(const void* from) {
  uint4 value;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(from));
  return value;
}

// Order-preserving map of floats to unsigned integers; -inf maps above 0, so that 0 marks "no token".
constexpr uint32_t kNoToken = 0;
__device__ __forceinline__ uint32_t OrderKey(float x) {
  const uint32_t bits = __float_as_uint(x);
  return bits ^ ((bits >> 31) ? 0xffffffffu : 0x80000000u);
}

__device__ __forceinline__ float WarpMax(float x) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, offset));
  return x;
}
__device__ __forceinline__ float WarpSum(float x) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(kAllLanes, x, offset);
  return x;
}

}  // namespace headscope::kernels::decode
