// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include "dependent_launch.cuh"
#include "select/probe_sums.cuh"
#include "select/top_stripes.h"

namespace headscope::kernels::selection {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr unsigned kFullWarp = 0xffffffffu;

__device__ uint64_t FixedPoint(float mass) {
  return __float2ull_rz(mass * 0x1p55f);
}

__device__ uint64_t WarpPrefixSum(uint64_t value) {
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const uint64_t below = __shfl_up_sync(kFullWarp, value, offset);
    if (static_cast<int>(threadIdx.x) % 32 >= offset) value += below;
  }
  return value;
}

// Prefix sum over the block's threads, *total over all of them.
__device__ uint64_t BlockPrefixSum(uint64_t value, uint64_t* warp_sums, uint64_t* total) {
  value = WarpPrefixSum(value);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  __syncthreads();  // whoever still reads the last call's sums
  if (threadIdx.x % 32 == 31) warp_sums[warp] = value;
  __syncthreads();
  *total = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    if (w < warp) value += warp_sums[w];
    *total += warp_sums[w];
  }
  return value;
}

struct Found {
  uint32_t digit;
  uint64_t above;  // mass of larger digits
};

// Kept are all stripes of a larger mass than this and the first `quota` of exactly this mass.
struct StripeThreshold {
  float mass;
  uint64_t quota;
};

// 0 < target <= the masses' sum.
__device__ StripeThreshold FindThreshold(const float* masses, int32_t num_stripes, uint64_t target) {
  __shared__ unsigned long long bins[kThreads];  // one of 256 digits per thread
  __shared__ uint64_t warp_sums[kWarps];
  __shared__ Found found;
  const int thread = static_cast<int>(threadIdx.x);
  uint32_t bits = 0;
#pragma unroll 1
  for (int shift = 24; shift >= 0; shift -= 8) {
    bins[thread] = 0;
    __syncthreads();
    for (int32_t stripe = thread; stripe < num_stripes; stripe += kThreads) {
      const uint32_t key = __float_as_uint(masses[stripe]);
      // Shifted by 31 and once more, since a shift by 32 is not defined.
      if (((key ^ bits) >> (shift + 7)) >> 1 == 0) {
        atomicAdd(&bins[key >> shift & 255], static_cast<unsigned long long>(FixedPoint(masses[stripe])));
      }
    }
    __syncthreads();
    const uint64_t own = bins[255 - thread];  // sums run from the highest digit down
    uint64_t total;
    const uint64_t reached = BlockPrefixSum(own, warp_sums, &total);
    if (reached >= target && reached - own < target) found = {static_cast<uint32_t>(255 - thread), reached - own};
    __syncthreads();
    bits |= found.digit << shift;
    target -= found.above;
  }
  const float mass = __uint_as_float(bits);
  const uint64_t each = FixedPoint(mass);
  return {mass, (target + each - 1) / each};
}

__global__ void __launch_bounds__(kThreads) TopStripesKernel(const TopStripesParams p) {
  __shared__ uint64_t warp_sums[kWarps];
  cuda::LetNextKernelStart();
  cuda::WaitForKernelBefore();
  const int64_t set = blockIdx.x / 2;
  const int direction = static_cast<int>(blockIdx.x % 2);
  const int32_t chunk = static_cast<int32_t>(set % p.probe.num_chunks);
  const int thread = static_cast<int>(threadIdx.x);
  float* const masses = p.masses + static_cast<int64_t>(blockIdx.x) * p.num_stripes;

  constexpr int kAtOnce = 4;
  uint64_t sum = 0;
  for (int32_t first = thread; first < p.num_stripes; first += kAtOnce * kThreads) {
    float some[kAtOnce];
    AddUpLines<true>(p.probe, set, chunk, direction, first, kThreads, some);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int32_t stripe = first + i * kThreads;
      if (stripe >= p.num_stripes) break;
      const float mass = isfinite(some[i]) ? some[i] : 0.0f;  // not finite: from NaN in Q or K
      masses[stripe] = mass;
      sum += FixedPoint(mass);
    }
  }
  uint64_t total;
  BlockPrefixSum(sum, warp_sums, &total);
  const double share = p.share[direction];
  const auto target = min(static_cast<uint64_t>(ceil(share * static_cast<double>(total))), total);
  StripeThreshold threshold{0, 0};
  const bool all = share >= 1;
  if (!all && target > 0) threshold = FindThreshold(masses, p.num_stripes, target);
  const bool none = !all && target == 0;

  // A thread per stripe and round; ties are numbered in order of stripes.
  const int32_t num_words = (p.num_stripes + 63) / 64;
  uint64_t* const bitmap = p.bitmaps + static_cast<int64_t>(blockIdx.x) * LineBitmapWords(p.num_stripes);
  if (thread < kBitmapFront) bitmap[thread] = 0;
  if (thread < kBitmapBack) bitmap[kBitmapFront + num_words + thread] = 0;
  auto* const halves = reinterpret_cast<uint32_t*>(bitmap + kBitmapFront);
  uint64_t ties_before = 0;
  for (int32_t first = 0; first < num_words * 64; first += kThreads) {
    const int32_t stripe = first + thread;
    const bool inside = stripe < p.num_stripes;
    const float mass = inside ? masses[stripe] : 0.0f;
    const bool tie = inside && !none && mass == threshold.mass;
    uint64_t ties;
    const uint64_t rank = BlockPrefixSum(tie ? 1 : 0, warp_sums, &ties) + ties_before;  // from 1 on
    const bool kept = inside && !none && (all || mass > threshold.mass || (tie && rank <= threshold.quota));
    const uint32_t word = __ballot_sync(kFullWarp, kept);
    if (thread % 32 == 0 && stripe < num_words * 64) halves[stripe / 32] = word;
    ties_before += ties;
  }
}

}  // namespace

cudaError_t LaunchTopStripes(const TopStripesParams& params, cudaStream_t stream) {
  return cuda::LaunchDependent(TopStripesKernel, static_cast<unsigned>(params.num_sets * 2), kThreads, 0, stream,
                               params);
}

}  // namespace headscope::kernels::selection
