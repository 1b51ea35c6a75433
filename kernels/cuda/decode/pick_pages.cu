// SPDX-License-Identifier: Apache-2.0
// The best pages of each KV head, ascending. A block a list; its scores' order keys are halved bit by bit from the top
// until as many pages as wanted are left, or all bits are spent: then the lower pages of those that tie.
#include "decode/decode_common.cuh"
#include "decode/quest_params.h"
#include "dependent_launch.cuh"

namespace headscope::kernels::decode {
namespace {

constexpr int kPickThreads = 512, kPickWarps = kPickThreads / 32;

// Sum over the block's threads; every thread gets it. `turn` alternates from call to call.
__device__ __forceinline__ int BlockSum(int value, int turn, int (&sums)[2][kPickWarps]) {
  const int of_warp = __reduce_add_sync(kAllLanes, value);
  if (threadIdx.x % 32 == 0) sums[turn][threadIdx.x / 32] = of_warp;
  __syncthreads();
  return __reduce_add_sync(kAllLanes, threadIdx.x % 32 < kPickWarps ? sums[turn][threadIdx.x % 32] : 0);
}

// Sum over the threads before this one.
__device__ __forceinline__ int SumBefore(int value, int (&sums)[kPickWarps]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int through = SumThroughLane(value);
  if (lane == 31) sums[warp] = through;
  __syncthreads();
  return through - value + __reduce_add_sync(kAllLanes, lane < warp ? sums[lane] : 0);
}

// kEach: neighbouring pages of a thread that stay in its registers; 0: any number, read from memory each time.
template <int kEach>
__global__ void __launch_bounds__(kPickThreads) PickPagesKernel(const __grid_constant__ QuestParams p) {
  __shared__ int sums[2][kPickWarps], above_before[kPickWarps], equal_before[kPickWarps];
  const int list = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  const int each = kEach != 0 ? kEach : (p.candidates + kPickThreads - 1) / kPickThreads;
  const int first = min(thread * each, p.candidates), count = min(each, p.candidates - first);
  const float* const scores = p.scores + int64_t{list} * p.num_pages + first;
  cuda::LetNextKernelStart();
  cuda::WaitForKernelBefore();

  uint32_t keys[kEach != 0 ? kEach : 1];
  if constexpr (kEach != 0) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) keys[i] = i < count ? PageKey(scores[i]) : 0;
  }
  const auto for_each = [&](auto&& use) {
    if constexpr (kEach != 0) {
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        if (i < count) use(i, keys[i]);
      }
    } else {
      for (int i = 0; i < count; ++i) use(i, PageKey(scores[i]));
    }
  };
  uint32_t cut = 0;
  int turn = 0;
#pragma unroll 1
  for (int bit = 31; bit >= 0; --bit) {
    const uint32_t tried = cut | 1u << bit;
    int reach = 0;
    for_each([&](int, uint32_t key) { reach += key >= tried ? 1 : 0; });
    const int total = BlockSum(reach, turn, sums);
    turn ^= 1;
    if (total >= p.picks) cut = tried;
    if (total == p.picks) break;
  }
  int above = 0, equal = 0;
  for_each([&](int, uint32_t key) {
    above += key > cut ? 1 : 0;
    equal += key == cut ? 1 : 0;
  });
  const int with_newest = p.picks + (p.newest ? 1 : 0);
  const int ties = p.picks - BlockSum(above, turn, sums);  // so many of those that equal the cut
  int before = SumBefore(above, above_before), ties_before = SumBefore(equal, equal_before);
  int32_t* const pages = p.pages + int64_t{list} * with_newest;
  for_each([&](int i, uint32_t key) {
    const bool tie = key == cut;
    if (key > cut || (tie && ties_before < ties)) pages[before + min(ties_before, ties)] = first + i;
    before += key > cut ? 1 : 0;
    ties_before += tie ? 1 : 0;
  });
  if (thread != 0) return;
  if (p.newest) pages[p.picks] = p.num_pages - 1;
  p.page_begin[list] = int64_t{list} * with_newest;
  if (list + 1 == p.lists) p.page_begin[list + 1] = int64_t{p.lists} * with_newest;
}

}  // namespace

cudaError_t LaunchPickPages(const QuestParams& p, cudaStream_t stream) {
  const int each = (p.candidates + kPickThreads - 1) / kPickThreads;
  const auto kernel = each <= 4 ? PickPagesKernel<4> : each <= 16 ? PickPagesKernel<16> : PickPagesKernel<0>;
  return cuda::LaunchDependent(kernel, static_cast<unsigned>(p.lists), kPickThreads, 0, stream, p);
}

}  // namespace headscope::kernels::decode
