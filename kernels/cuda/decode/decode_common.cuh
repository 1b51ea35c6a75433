// Shared by the decode kernels: element types, block reductions, and the exact top-k threshold search.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace headscope::kernels::decode {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr float kNegativeInfinity = -__builtin_huge_valf();

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
__device__ __forceinline__ float ToFloat(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ __forceinline__ float ToFloat(__half x) { return __half2float(x); }
__device__ __forceinline__ void Store(__nv_bfloat16* to, float x) { *to = __float2bfloat16(x); }
__device__ __forceinline__ void Store(__half* to, float x) { *to = __float2half(x); }

// K and V stream through once: keep them out of L1, let L2 evict them first.
__device__ __forceinline__ uint4 LoadStreaming(const void* from) {
  uint4 value;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(from));
  return value;
}

// Order-preserving map of floats to unsigned integers; -inf maps above 0, so that 0 marks "no token".
__device__ __forceinline__ uint32_t OrderKey(float x) {
  const uint32_t bits = __float_as_uint(x);
  return bits ^ ((bits >> 31) ? 0xffffffffu : 0x80000000u);
}
constexpr uint32_t kNoToken = 0;
constexpr uint32_t kForced = 0xffffffffu;  // above every finite key: the local window

__device__ __forceinline__ float WarpMax(float x) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, offset));
  return x;
}
__device__ __forceinline__ float WarpSum(float x) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
  return x;
}
// Every thread gets the result. `shared` has kWarps floats and may be reused after the call.
__device__ __forceinline__ float BlockMax(float x, float* shared) {
  x = WarpMax(x);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  float result = shared[0];
#pragma unroll
  for (int i = 1; i < kWarps; ++i) result = fmaxf(result, shared[i]);
  __syncthreads();
  return result;
}
__device__ __forceinline__ float BlockSum(float x, float* shared) {
  x = WarpSum(x);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  float result = 0;
#pragma unroll
  for (int i = 0; i < kWarps; ++i) result += shared[i];
  __syncthreads();
  return result;
}

// Exclusive prefix sum of `count` over the block in thread order; *total gets the sum. Deterministic. `shared` has kWarps ints.
__device__ __forceinline__ int BlockExclusiveSum(int count, int* shared, int* total) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int inclusive = count;
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const int below = __shfl_up_sync(0xffffffffu, inclusive, offset);
    if (lane >= offset) inclusive += below;
  }
  if (lane == 31) shared[warp] = inclusive;
  __syncthreads();
  int before = 0, sum = 0;
#pragma unroll
  for (int i = 0; i < kWarps; ++i) {
    if (i < warp) before += shared[i];
    sum += shared[i];
  }
  __syncthreads();
  *total = sum;
  return before + inclusive - count;
}

// Launch 2 of a step may start while launch 1 drains (programmatic dependent launch, compute capability 9.0; elsewhere plain stream order).
__device__ __forceinline__ void LetDependentsStart() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}
__device__ __forceinline__ void WaitForPrevious() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

// The k-th largest of the block's keys (N a thread, in registers), found two bits at a time from the top: a round counts the keys at or above three
// candidates at once, packs the three counts into one warp reduction and needs one barrier. No shared-memory histogram, whose atomics would all fall on
// the few bins of similar scores. Rounds end early once exactly k keys lie at or above the threshold, as is usual after a few.
// Returns the threshold T and, in *ties, how many of the keys equal to T belong to the top k (the earliest ones do). When no more than k tokens
// exist, T is 1: all of them. `counters` has 3 * kWarps 64-bit words (rounds in flight use different sets).
constexpr int kAllTies = 0x7fffffff;
template <int N>
__device__ __forceinline__ uint32_t TopKThreshold(const uint32_t (&keys)[N], int k, uint64_t* counters, int* ties) {
  static_assert(N <= 64, "a warp's count must fit the 16 bits that packing gives it");
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int round = 0;
  // Counts of keys >= a, b and c over the block.
  auto count = [&](uint32_t a, uint32_t b, uint32_t c) {
    uint32_t ab = 0, only_c = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      ab += (keys[i] >= a ? 1u : 0u) + (keys[i] >= b ? 0x10000u : 0u);
      only_c += keys[i] >= c;
    }
    ab = __reduce_add_sync(0xffffffffu, ab);
    only_c = __reduce_add_sync(0xffffffffu, only_c);
    uint64_t* set = counters + (round % 3) * kWarps;
    ++round;
    if (lane == 0) set[warp] = (uint64_t{only_c} << 42) | (uint64_t{ab >> 16} << 21) | (ab & 0xffffu);
    __syncthreads();
    uint64_t sum = 0;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) sum += set[i];
    constexpr uint64_t kMask = (1u << 21) - 1;
    return make_int3(static_cast<int>(sum & kMask), static_cast<int>((sum >> 21) & kMask), static_cast<int>(sum >> 42));
  };
  uint32_t threshold = 0;
  int at_least = 0;
  for (int shift = 30; shift >= 0; shift -= 2) {
    const int3 counts = count(threshold + (1u << shift), threshold + (2u << shift), threshold + (3u << shift));
    const int digit = counts.z >= k ? 3 : counts.y >= k ? 2 : counts.x >= k ? 1 : 0;
    if (digit > 0) {
      threshold += static_cast<uint32_t>(digit) << shift;
      at_least = digit == 3 ? counts.z : digit == 2 ? counts.y : counts.x;
      if (at_least == k) break;
    }
  }
  if (threshold == 0 || at_least == k) {  // 0: fewer than k keys are above kNoToken
    *ties = kAllTies;
    return max(threshold, 1u);
  }
  *ties = k - (threshold == 0xffffffffu ? 0 : count(threshold + 1, threshold + 1, threshold + 1).x);
  return threshold;
}

}  // namespace headscope::kernels::decode
