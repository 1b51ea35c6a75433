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
__device__ __forceinline__ float FromOrderKey(uint32_t key) {
  return __uint_as_float(key ^ ((key >> 31) ? 0x80000000u : 0xffffffffu));
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

// Exclusive prefix sum of `count` over the block in thread order; *total gets the sum. Deterministic. `shared` has
// kWarps ints.
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

// Launch 2 of a step may start while launch 1 drains (programmatic dependent launch, compute capability 9.0; elsewhere
// plain stream order).
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

// How many of the block's keys (N a thread, in registers) are at least a, b and c: three counts in one warp reduction
// each way and one barrier. `counters` has 3 * kWarps 64-bit words; *round picks the set, so that a slow warp still
// reads its own round.
template <int N>
__device__ __forceinline__ int3 CountAtLeast(const uint32_t (&keys)[N], uint32_t a, uint32_t b, uint32_t c,
                                             uint64_t* counters, int* round) {
  static_assert(N <= 64, "a warp's count must fit the 16 bits that packing gives it");
  uint32_t ab = 0, only_c = 0;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    ab += (keys[i] >= a ? 1u : 0u) + (keys[i] >= b ? 0x10000u : 0u);
    only_c += keys[i] >= c;
  }
  ab = __reduce_add_sync(0xffffffffu, ab);
  only_c = __reduce_add_sync(0xffffffffu, only_c);
  uint64_t* set = counters + (*round % 3) * kWarps;
  ++*round;
  if (threadIdx.x % 32 == 0)
    set[threadIdx.x / 32] = (uint64_t{only_c} << 42) | (uint64_t{ab >> 16} << 21) | (ab & 0xffffu);
  __syncthreads();
  uint64_t sum = 0;
#pragma unroll
  for (int i = 0; i < kWarps; ++i) sum += set[i];
  constexpr uint64_t kMask = (1u << 21) - 1;
  return make_int3(static_cast<int>(sum & kMask), static_cast<int>((sum >> 21) & kMask), static_cast<int>(sum >> 42));
}

constexpr int kAllTies = 0x7fffffff;

// The exact k-th largest, two bits at a time from the top: 16 rounds at most. Returns the threshold T and, in *ties,
// how many of the keys equal to T belong to the top k (the earliest ones do). When no more than k tokens exist, T is 1:
// all of them.
template <int N>
__device__ __forceinline__ uint32_t ExactThreshold(const uint32_t (&keys)[N], int k, uint64_t* counters, int* ties) {
  int round = 0;
  uint32_t threshold = 0;
  int at_least = 0;
  __syncthreads();
  for (int shift = 30; shift >= 0; shift -= 2) {
    const int3 counts = CountAtLeast(keys, threshold + (1u << shift), threshold + (2u << shift),
                                     threshold + (3u << shift), counters, &round);
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
  *ties = k - (threshold == 0xffffffffu
                   ? 0
                   : CountAtLeast(keys, threshold + 1, threshold + 1, threshold + 1, counters, &round).x);
  return threshold;
}

// A threshold that at least k and at most `most` keys reach, found by interpolation between the smallest and the
// largest key: two or three rounds on scores as they are, where the bit-by-bit search needs ten. kLinear: the keys are
// of floats that spread linearly (scores); else logarithmically (probabilities), which is how order keys of positive
// floats spread by themselves. No histogram: its shared-memory atomics would all fall on few bins. Falls back on
// ExactThreshold where interpolation does not converge (many equal keys); then *ties limits the keys equal to the
// threshold.
template <int N, bool kLinear>
__device__ __forceinline__ uint32_t LooseThreshold(const uint32_t (&keys)[N], int k, int most, int num_tokens,
                                                   uint64_t* counters, int* ties) {
  *ties = kAllTies;
  if (num_tokens <= most) return 1;
  uint32_t low = 0xffffffffu, high = 0;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (keys[i] == kNoToken || keys[i] == kForced) continue;
    low = min(low, keys[i]);
    high = max(high, keys[i]);
  }
  low = __reduce_min_sync(0xffffffffu, low);
  high = __reduce_max_sync(0xffffffffu, high);
  __syncthreads();
  if (threadIdx.x % 32 == 0) counters[threadIdx.x / 32] = (uint64_t{high} << 32) | low;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kWarps; ++i) {
    low = min(low, static_cast<uint32_t>(counters[i]));
    high = max(high, static_cast<uint32_t>(counters[i] >> 32));
  }
  int round = 1;  // set 0 has just been used
  for (int attempt = 0; attempt < 10 && low + 4 < high; ++attempt) {
    uint32_t t[3];
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      const float share = 0.25f * static_cast<float>(i + 1);
      const uint32_t at = kLinear ? OrderKey(FromOrderKey(low) + share * (FromOrderKey(high) - FromOrderKey(low)))
                                  : low + static_cast<uint32_t>(share * static_cast<float>(high - low));
      t[i] = min(max(at, low + 1), high - 1);
    }
    const int3 counts = CountAtLeast(keys, t[0], t[1], t[2], counters, &round);
    if (counts.x >= k && counts.x <= most) return t[0];
    if (counts.y >= k && counts.y <= most) return t[1];
    if (counts.z >= k && counts.z <= most) return t[2];
    if (counts.z > most) {
      low = t[2];
    } else if (counts.y > most) {
      low = t[1];
      high = t[2];
    } else if (counts.x > most) {
      low = t[0];
      high = t[1];
    } else {
      high = t[0];
    }
  }
  return ExactThreshold(keys, k, counters, ties);
}

}  // namespace headscope::kernels::decode
