// SPDX-License-Identifier: Apache-2.0
// The best pages of a list by one thread block that has the keys of all of them in shared memory. The cut is found by
// counting, at once, how many keys reach each of three thresholds: an interval becomes a quarter in one exchange
// between the warps, and as it begins with the least and the largest key, the bits that all keys share cost nothing.
#pragma once

#include "decode/decode_common.cuh"

namespace headscope::kernels::decode {

constexpr int kSearchWarps = 8, kSearchThreads = kSearchWarps * 32;
constexpr int kKeysOfTurn = 4 * kSearchThreads;  // that the block's threads read at once, four neighbours each
constexpr int kMostTurns = 8;
constexpr int kMostSearched = kMostTurns * kKeysOfTurn;

struct PageSearchShared {
  uint2 counts[2][kSearchWarps];
  uint2 extremes[kSearchWarps];
  uint32_t before[kMostTurns * kSearchWarps];
};

// Leaves in `list` the numbers of the `picks` largest of n keys, ascending; of equal keys the lower number wins.
// 1 <= picks <= n <= kMostSearched. `keys` is 16-byte aligned and goes on with zeros to a multiple of kKeysOfTurn. The
// keys must be there for all threads; `list` is there behind the next barrier.
__device__ __forceinline__ void SearchPages(const uint32_t* keys, int n, int picks, int32_t* list,
                                            PageSearchShared& shared) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const int turns = (n + kKeysOfTurn - 1) / kKeysOfTurn;
  const auto four = [&](int turn) { return reinterpret_cast<const uint4*>(keys)[turn * kSearchThreads + thread]; };
  uint32_t low = 0xffffffffu, high = 0;
#pragma unroll 4
  for (int turn = 0; turn < turns; ++turn) {
    const uint4 x = four(turn);
    const int first = turn * kKeysOfTurn + 4 * thread;
    high = max(high, max(max(x.x, x.y), max(x.z, x.w)));
    if (first < n) low = min(low, x.x);
    if (first + 1 < n) low = min(low, x.y);
    if (first + 2 < n) low = min(low, x.z);
    if (first + 3 < n) low = min(low, x.w);
  }
  low = __reduce_min_sync(kAllLanes, low);
  high = __reduce_max_sync(kAllLanes, high);
  if (lane == 0) shared.extremes[warp] = make_uint2(low, high);
  __syncthreads();
  const uint2 extremes = shared.extremes[lane % kSearchWarps];
  low = __reduce_min_sync(kAllLanes, extremes.x);
  high = __reduce_max_sync(kAllLanes, extremes.y);

  // `picks` keys or more reach `low`; `above` keys, fewer than that, exceed `high`.
  int above = 0, parity = 0;
  bool exact = picks == n;
#pragma unroll 1
  while (low < high && !exact) {
    const uint32_t span = high - low, part = span / 4 + 1;
    uint32_t tried[3];
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      const uint32_t further = part * static_cast<uint32_t>(i + 1);
      tried[i] = further < span ? low + further : high;
    }
    uint32_t reach[3] = {};
#pragma unroll 4
    for (int turn = 0; turn < turns; ++turn) {
      const uint4 x = four(turn);
#pragma unroll
      for (int i = 0; i < 3; ++i) {
        reach[i] += (x.x >= tried[i] ? 1u : 0u) + (x.y >= tried[i] ? 1u : 0u) + (x.z >= tried[i] ? 1u : 0u) +
                    (x.w >= tried[i] ? 1u : 0u);
      }
    }
    const uint32_t two = __reduce_add_sync(kAllLanes, reach[0] | reach[1] << 16);
    const uint32_t one = __reduce_add_sync(kAllLanes, reach[2]);
    if (lane == 0) shared.counts[parity][warp] = make_uint2(two, one);
    __syncthreads();
    const uint2 of_warp = lane < kSearchWarps ? shared.counts[parity][lane] : make_uint2(0, 0);
    parity ^= 1;
    const uint32_t both = __reduce_add_sync(kAllLanes, of_warp.x);
    const int count[3] = {static_cast<int>(both & 0xffffu), static_cast<int>(both >> 16),
                          static_cast<int>(__reduce_add_sync(kAllLanes, of_warp.y))};
#pragma unroll
    for (int i = 0; i < 3; ++i) {  // ascending thresholds, so counts that fall
      if (count[i] >= picks) {
        low = tried[i];
        exact = count[i] == picks;
      } else if (tried[i] <= high) {
        high = tried[i] - 1;
        above = count[i];
      }
    }
  }
  const int ties = exact ? n : picks - above;  // so many of those that equal the cut, `low`

  // Of each turn and warp, how many exceed the cut and, in the upper half, how many equal it.
  const auto taken = [&](const uint4& x) {
    const auto of = [&](uint32_t key) { return (key > low ? 1u : 0u) + (key == low ? 1u << 16 : 0u); };
    return of(x.x) + of(x.y) + of(x.z) + of(x.w);
  };
#pragma unroll 4
  for (int turn = 0; turn < turns; ++turn) {
    const uint32_t of_warp = __reduce_add_sync(kAllLanes, taken(four(turn)));
    if (lane == 0) shared.before[turn * kSearchWarps + warp] = of_warp;
  }
  __syncthreads();
  // Lane l has those before entries 2 l and 2 l + 1.
  static_assert(kMostTurns * kSearchWarps == 64);
  const int entries = turns * kSearchWarps;
  const uint32_t even = 2 * lane < entries ? shared.before[2 * lane] : 0;
  const uint32_t odd = 2 * lane < entries ? shared.before[2 * lane + 1] : 0;
  const uint32_t through = SumThroughLane(even + odd);
  const uint32_t before_even = through - even - odd, before_odd = through - odd;
#pragma unroll 2
  for (int turn = 0; turn < turns; ++turn) {
    const uint4 x = four(turn);
    const uint32_t mine = taken(x);
    const uint32_t of_lanes = SumThroughLane(mine);
    const int entry = turn * kSearchWarps + warp;
    const uint32_t of_warps = __shfl_sync(kAllLanes, entry % 2 == 0 ? before_even : before_odd, entry / 2);
    const uint32_t before = of_warps + of_lanes - mine;
    int larger = static_cast<int>(before & 0xffffu), equal = static_cast<int>(before >> 16);
    const uint32_t key[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const bool tie = key[i] == low;
      const int number = turn * kKeysOfTurn + 4 * thread + i;
      if (number < n && (key[i] > low || (tie && equal < ties))) list[larger + min(equal, ties)] = number;
      larger += key[i] > low ? 1 : 0;
      equal += tie ? 1 : 0;
    }
  }
}

}  // namespace headscope::kernels::decode
