// SPDX-License-Identifier: Apache-2.0
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

// Sum over the warp's lanes up to this one, its own value included.
template <typename Int>
__device__ __forceinline__ Int SumThroughLane(Int value) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const Int before = __shfl_up_sync(kAllLanes, value, offset);
    if (lane >= offset) value += before;
  }
  return value;
}

// 8 values of a 16-byte load as fp32.
__device__ __forceinline__ void Unpack(const uint4& raw, float (&out)[8], __nv_bfloat16) {
  const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    out[2 * i] = __uint_as_float(words[i] << 16);
    out[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
  }
}
__device__ __forceinline__ void Unpack(const uint4& raw, float (&out)[8], __half) {
  const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = __half22float2(*reinterpret_cast<const __half2*>(&words[i]));
    out[2 * i] = pair.x;
    out[2 * i + 1] = pair.y;
  }
}

// 16 bytes that nobody reads again: kept out of L1.
__device__ __forceinline__ uint4 LoadStreaming(const void* from) {
  uint4 value;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(from));
  return value;
}

// The same, as a policy of L2 says (CachePolicy).
__device__ __forceinline__ uint4 LoadStreaming(const void* from, uint64_t cache_policy) {
  uint4 value;
  asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4], %5;"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(from), "l"(cache_policy));
  return value;
}

// How L2 shall treat what is read: as the first to leave, or as it treats reads without a policy. (That is not
// evict_normal, under which long streams take a tenth longer, H200.)
__device__ __forceinline__ uint64_t CachePolicy(bool leaves_first) {
  uint64_t unchanged, first;
  asm("createpolicy.fractional.L2::evict_unchanged.b64 %0, 1.0;" : "=l"(unchanged));
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(first));
  return leaves_first ? first : unchanged;
}

// Adds 1 and returns what was there before. What the block's threads have written, before a barrier, is there to read
// for whoever sees the new count and passes AcquireCounted. Unlike a fence of its own, it orders nothing else.
__device__ __forceinline__ uint32_t CountReleased(uint32_t* counter) {
  uint32_t before;
  asm volatile("atom.release.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
  return before;
}
__device__ __forceinline__ void AcquireCounted() {
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
}

// Order-preserving map of floats to unsigned integers; -inf maps above 0, so that 0 marks "no token".
constexpr uint32_t kNoToken = 0;
__device__ __forceinline__ uint32_t OrderKey(float x) {
  const uint32_t bits = __float_as_uint(x);
  return bits ^ ((bits >> 31) ? 0xffffffffu : 0x80000000u);
}

// The float whose key this is.
__device__ __forceinline__ float FromOrderKey(uint32_t key) {
  return __uint_as_float(key ^ ((key >> 31) ? 0x80000000u : 0xffffffffu));
}

// The key by which pages are ranked, as the CPU ranks their scores: -0 is 0, and a NaN comes last.
__device__ __forceinline__ uint32_t PageKey(float score) {
  return isnan(score) ? 0u : OrderKey(score + 0.0f);
}

__device__ __forceinline__ float WarpMax(float x) {
  return FromOrderKey(__reduce_max_sync(kAllLanes, OrderKey(x)));
}
__device__ __forceinline__ float WarpSum(float x) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(kAllLanes, x, offset);
  return x;
}

}  // namespace headscope::kernels::decode
