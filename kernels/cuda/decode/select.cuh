// The exact k largest of up to 4096 keys by one block, 16 of them in each thread's registers.
//
// Where few are wanted, the threads' maxima vote: the k-th largest of 256 maxima is reached by at least k keys and by
// few more, so it cuts the crowd to a short list, of which every entry then counts the larger ones. Every warp finds
// the threshold by itself, by halving an interval, which costs no barriers. High keys side by side have few threads to
// vote for them and overflow the list: then all threads go on halving, over all keys, until the list holds what is
// left. Where many are wanted, or more than the list holds are equal, they halve to the end. Places come from prefix
// sums, so that the result is in ascending order of index and depends on no order of arrival; of equal keys the lower
// index wins.
#pragma once

#include "decode/decode_common.cuh"
#include "decode/sparq_crew.cuh"

namespace headscope::kernels::decode {

constexpr int kKeysOfPiece = 8;

struct SelectShared {
  uint32_t best[kSparqThreads];
  uint32_t sums[4][kSparqWarps];
};
struct ShortList {
  uint32_t key[kSparqThreads];
  int index[kSparqThreads];
};
struct SelectedList {
  uint32_t* key;
  int* index;
};

// The largest t of [low, high] that at least k keys reach, or an earlier one that at most `most` reach; low, if none
// does. count(t): the number of keys >= t.
template <typename Count>
__device__ __forceinline__ uint32_t Bisect(uint32_t low, uint32_t high, int k, int most, Count&& count) {
#pragma unroll 1
  while (low < high) {
    const uint32_t middle = high - (high - low) / 2;
    const int reached = count(middle);
    if (reached >= k) {
      low = middle;
      if (reached <= most) break;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

// Sum over the block of the threads' counts. One barrier; `sums` may be used again after the next.
__device__ __forceinline__ int SumOverBlock(int count, uint32_t (&sums)[kSparqWarps]) {
  const uint32_t sum = __reduce_add_sync(kAllLanes, static_cast<uint32_t>(count));
  if (Lane() == 0) sums[CrewWarp()] = sum;
  CrewBarrier();
  uint32_t total = 0;
#pragma unroll
  for (int w = 0; w < kSparqWarps; ++w) total += sums[w];
  return static_cast<int>(total);
}

// Where a thread's entries of each piece begin in the order (piece, thread), and the number of all.
struct Places {
  int first[2], total;
};
// One barrier; `sums` may be used again after the next.
__device__ __forceinline__ Places PlacesInBlock(int count, int second_count, uint32_t (&sums)[kSparqWarps]) {
  const int lane = Lane(), warp = CrewWarp();
  const uint32_t own = static_cast<uint32_t>(count) | static_cast<uint32_t>(second_count) << 16;
  uint32_t inclusive = own;
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const uint32_t other = __shfl_up_sync(kAllLanes, inclusive, offset);
    if (lane >= offset) inclusive += other;
  }
  if (lane == 31) sums[warp] = inclusive;
  CrewBarrier();
  uint32_t before = inclusive - own, all = 0;
#pragma unroll
  for (int w = 0; w < kSparqWarps; ++w) {
    const uint32_t sum = sums[w];
    all += sum;
    if (w < warp) before += sum;
  }
  return {{static_cast<int>(before & 0xffffu), static_cast<int>((all & 0xffffu) + (before >> 16))},
          static_cast<int>((all & 0xffffu) + (all >> 16))};
}

// How many of the lanes' keys reach t, over the warp.
template <int kKeys>
__device__ __forceinline__ int CountInWarp(const uint32_t (&key)[kKeys], uint32_t t) {
  uint32_t count = 0;
#pragma unroll
  for (int c = 0; c < kKeys; ++c) count += key[c] >= t ? 1u : 0u;
  return static_cast<int>(__reduce_add_sync(kAllLanes, count));
}

// At least k keys reach `low`, if that many exist, and none is larger than `high`.
struct Bounds {
  uint32_t low, high;
};

// Bounds of which hardly more than k + k / 4 of the threads' maxima reach the lower.
__device__ __forceinline__ Bounds VoteForBounds(const uint32_t (&best)[kSparqThreads], int k) {
  const int lane = Lane();
  uint32_t vote[8];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint4 four = *reinterpret_cast<const uint4*>(best + half * 128 + lane * 4);
    vote[half * 4] = four.x;
    vote[half * 4 + 1] = four.y;
    vote[half * 4 + 2] = four.z;
    vote[half * 4 + 3] = four.w;
  }
  uint32_t below_least = 0xffffffffu, most = kNoToken;
#pragma unroll
  for (int c = 0; c < 8; ++c) {
    below_least = min(below_least, vote[c] - 1);  // no key counts as the largest
    most = max(most, vote[c]);
  }
  const uint32_t least = __reduce_min_sync(kAllLanes, below_least) + 1;
  most = __reduce_max_sync(kAllLanes, most);
  const auto count = [&](uint32_t t) { return CountInWarp(vote, t); };
  if (most == kNoToken || count(least) < k) return {kNoToken + 1, max(most, kNoToken + 1)};
  return {Bisect(least, most, k, k + k / 4, count), most};
}

// Leaves the k largest of the list's n <= kSparqThreads entries in `to`, in the list's order. Every thread counts what
// comes before its entry: no search and one barrier, before which none of `to` is written. Up to three entries behind
// the n-th are kNoToken.
__device__ __forceinline__ int KeepLargest(const ShortList& list, int n, int k, uint32_t (&sums)[kSparqWarps],
                                           SelectedList to) {
  const int entry = CrewThread(), lane = entry % 32, warp = entry / 32;
  const uint32_t mine = list.key[entry];
  int before = 0;
  if (warp * 32 < n) {
#pragma unroll 4
    for (int four = 0; four < (n + 3) / 4; ++four) {
      const uint4 other = reinterpret_cast<const uint4*>(list.key)[four];
      const uint32_t larger = four < entry / 4 ? mine : mine + 1;  // an equal one comes first if its index is lower
      before += (other.x >= larger) + (other.y >= larger) + (other.z >= larger) + (other.w >= larger);
    }
#pragma unroll
    for (int i = 0; i < 3; ++i) before += i < entry % 4 && list.key[entry / 4 * 4 + i] == mine;
  }
  const bool keep = entry < n && before < k;
  const uint32_t keeps = __ballot_sync(kAllLanes, keep);
  if (lane == 0) sums[warp] = static_cast<uint32_t>(__popc(keeps));
  CrewBarrier();
  int place = __popc(keeps & ((1u << lane) - 1));
#pragma unroll
  for (int w = 0; w < kSparqWarps; ++w) place += w < warp ? static_cast<int>(sums[w]) : 0;
  if (keep) {
    to.key[place] = mine;
    to.index[place] = list.index[entry];
  }
  return min(n, k);
}

// The k largest of the block's keys that are not kNoToken (all, if fewer exist) into `to`, in ascending order of
// index: key [piece][i] has index (piece * kSparqThreads + thread) * neighbours + i; those from i = neighbours <=
// 8 on are kNoToken. Some smaller keys may come with them, up to `room` >= k entries: what is selected from again need
// not be cut to the last key. Returns the number of entries. Ends with a barrier. `list` may be what other threads
// still read before they come here, if a barrier lies between.
__device__ __forceinline__ int SelectLargest(const uint32_t (&key)[2][kKeysOfPiece], int neighbours, int k, int room,
                                             SelectShared& shared, ShortList& list, SelectedList to) {
  if (k == 0) {
    CrewBarrier();
    return 0;
  }
  const auto count = [&](auto&& f, int piece) {
    int sum = 0;
#pragma unroll
    for (int i = 0; i < kKeysOfPiece; ++i) sum += f(key[piece][i]) ? 1 : 0;
    return sum;
  };
  const auto for_each = [&](const Places& places, auto&& keep, auto&& f) {
#pragma unroll
    for (int piece = 0; piece < 2; ++piece) {
      int place = places.first[piece];
#pragma unroll
      for (int i = 0; i < kKeysOfPiece; ++i) {
        if (keep(piece, i)) f(place++, key[piece][i], (piece * kSparqThreads + CrewThread()) * neighbours + i);
      }
    }
  };
  if (k <= kMostVotes) {
    uint32_t best = key[0][0];
#pragma unroll
    for (int i = 0; i < kKeysOfPiece; ++i) best = max(best, max(key[0][i], key[1][i]));
    shared.best[CrewThread()] = best;
    CrewBarrier();
    const Bounds bounds = VoteForBounds(shared.best, k);
    uint32_t bound = bounds.low;
    const auto reaches = [&](uint32_t x) { return x >= bound; };
    Places places = PlacesInBlock(count(reaches, 0), count(reaches, 1), shared.sums[0]);
    if (places.total > kSparqThreads) {  // high keys side by side
      int round = 0;
      bound = Bisect(bound, bounds.high, k, kSparqThreads, [&](uint32_t t) {
        const auto reach = [&](uint32_t x) { return x >= t; };
        return SumOverBlock(count(reach, 0) + count(reach, 1), shared.sums[1 + (round++ & 1)]);
      });
      places = PlacesInBlock(count(reaches, 0), count(reaches, 1), shared.sums[3]);
      CrewBarrier();
    }
    if (places.total <= kSparqThreads) {
      const bool fits = places.total <= room;
      uint32_t* const key_to = fits ? to.key : list.key;
      int* const index_to = fits ? to.index : list.index;
      for_each(
          places, [&](int piece, int i) { return key[piece][i] >= bound; },
          [&](int place, uint32_t x, int index) {
            key_to[place] = x;
            index_to[place] = index;
          });
      if (fits) {
        CrewBarrier();
        return places.total;
      }
      if (CrewThread() < 3 && places.total + CrewThread() < kSparqThreads)
        list.key[places.total + CrewThread()] = kNoToken;
      CrewBarrier();
      const int kept = KeepLargest(list, places.total, k, shared.sums[3], to);
      CrewBarrier();
      return kept;
    }
  }
  int round = 0;
  const auto sum = [&](auto&& f) { return SumOverBlock(count(f, 0) + count(f, 1), shared.sums[1 + (round++ & 1)]); };
  const uint32_t cut =
      Bisect(kNoToken, 0xffffffffu, k, k, [&](uint32_t t) { return sum([&](uint32_t x) { return x >= t; }); });
  const int ties = cut == kNoToken ? 0 : k - sum([&](uint32_t x) { return x > cut; });
  const auto equals = [&](uint32_t x) { return x == cut; };
  const Places equal = PlacesInBlock(count(equals, 0), count(equals, 1), shared.sums[0]);
  uint32_t kept[2] = {0, 0};  // bits
#pragma unroll
  for (int piece = 0; piece < 2; ++piece) {
    int place = equal.first[piece];
#pragma unroll
    for (int i = 0; i < kKeysOfPiece; ++i) {
      if (key[piece][i] > cut || (key[piece][i] == cut && place++ < ties)) kept[piece] |= 1u << i;
    }
  }
  const Places places = PlacesInBlock(__popc(kept[0]), __popc(kept[1]), shared.sums[3]);
  for_each(
      places, [&](int piece, int i) { return (kept[piece] >> i & 1) != 0; },
      [&](int place, uint32_t x, int index) {
        to.key[place] = x;
        to.index[place] = index;
      });
  CrewBarrier();
  return places.total;
}

}  // namespace headscope::kernels::decode
