// SPDX-License-Identifier: Apache-2.0
// The exact k largest of up to 4096 keys by one crew, in its threads' registers.
//
// Where few are wanted, 256 parts of the keys vote with their maxima, a part for each two pieces of a thread: the k-th
// largest maximum is reached by at least k keys and by few more, so it cuts the crowd to a short list, in which the
// same is done to the last key. Every warp finds a threshold by itself, by halving an interval, which costs no
// barriers. High keys side by side have few threads to vote for them and overflow the list: then all threads go on
// halving, over all keys, until the list holds what is left. Where many are wanted, or more than the list holds are
// equal, they halve to the end. Places come from prefix sums, so that the result is in ascending order of index and
// depends on no order of arrival; of equal keys the lower index wins.
#pragma once

#include "decode/decode_common.cuh"
#include "decode/sparq_crew.cuh"

namespace headscope::kernels::decode {

constexpr int kVotes = 256;
constexpr int kShortList = 256;  // entries
constexpr int kSums = 8;         // sums over 32: of entries of the short list, or of the threads' counts of two pieces

struct SelectShared {
  uint32_t best[kVotes];
  uint32_t sums[4][kSums];
};
struct ShortList {
  uint32_t key[kShortList];
  int index[kShortList];
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

// Sum over the crew of the threads' counts. One barrier; `sums` may be used again after the next.
template <typename Crew>
__device__ __forceinline__ int SumOverCrew(int count, uint32_t (&sums)[kSums]) {
  const uint32_t sum = __reduce_add_sync(kAllLanes, static_cast<uint32_t>(count));
  if (Lane() == 0) sums[Crew::Warp()] = sum;
  Crew::Barrier();
  uint32_t total = 0;
#pragma unroll
  for (int w = 0; w < Crew::kWarps; ++w) total += sums[w];
  return static_cast<int>(total);
}

// Where a thread's entries of each piece begin in the order (piece, thread), and the number of all.
template <typename Crew>
struct Places {
  int first[Crew::kPieces], total;
};
// One barrier; `sums` may be used again after the next.
template <typename Crew>
__device__ __forceinline__ Places<Crew> PlacesInCrew(const int (&count)[Crew::kPieces], uint32_t (&sums)[kSums]) {
  static_assert(Crew::kPairs * Crew::kWarps == kSums);
  const int lane = Lane(), warp = Crew::Warp();
  uint32_t own[Crew::kPairs], inclusive[Crew::kPairs];
#pragma unroll
  for (int pair = 0; pair < Crew::kPairs; ++pair)
    own[pair] = inclusive[pair] = static_cast<uint32_t>(count[2 * pair]) | static_cast<uint32_t>(count[2 * pair + 1])
                                                                               << 16;
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
#pragma unroll
    for (int pair = 0; pair < Crew::kPairs; ++pair) {
      const uint32_t other = __shfl_up_sync(kAllLanes, inclusive[pair], offset);
      if (lane >= offset) inclusive[pair] += other;
    }
  }
#pragma unroll
  for (int pair = 0; pair < Crew::kPairs; ++pair) {
    if (lane == 31) sums[pair * Crew::kWarps + warp] = inclusive[pair];
  }
  Crew::Barrier();
  Places<Crew> places;
  places.total = 0;
#pragma unroll
  for (int pair = 0; pair < Crew::kPairs; ++pair) {
    uint32_t before = inclusive[pair] - own[pair], all = 0;
#pragma unroll
    for (int w = 0; w < Crew::kWarps; ++w) {
      const uint32_t sum = sums[pair * Crew::kWarps + w];
      all += sum;
      if (w < warp) before += sum;
    }
    places.first[2 * pair] = places.total + static_cast<int>(before & 0xffffu);
    places.first[2 * pair + 1] = places.total + static_cast<int>((all & 0xffffu) + (before >> 16));
    places.total += static_cast<int>((all & 0xffffu) + (all >> 16));
  }
  return places;
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

// Bounds of which hardly more than k + k / 4 of the votes reach the lower.
__device__ __forceinline__ Bounds VoteForBounds(const uint32_t (&best)[kVotes], int k) {
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

// Leaves the k largest of the list's n <= kShortList entries in `to`, in the list's order; all of them reach
// bounds.low. One barrier, before which none of `to` is written. Every warp finds by itself a cut that k entries reach.
// If equal ones stand in its way, every thread counts what comes before its entries; up to three entries behind the
// n-th are then kNoToken.
template <typename Crew>
__device__ __forceinline__ int KeepLargest(const ShortList& list, int n, int k, Bounds bounds, uint32_t (&sums)[kSums],
                                           SelectedList to) {
  constexpr int kOwn = kShortList / Crew::kThreads;
  static_assert(kShortList == 32 * kSums);
  const int lane = Lane();
  uint32_t all[kSums];
#pragma unroll
  for (int i = 0; i < kSums; ++i) all[i] = i * 32 + lane < n ? list.key[i * 32 + lane] : kNoToken;
  const auto count = [&](uint32_t t) { return CountInWarp(all, t); };
  const uint32_t cut = n <= k ? bounds.low : Bisect(bounds.low, bounds.high, k, k, count);
  const bool clear = count(cut) <= k;
  uint32_t mine[kOwn], keeps[kOwn];
#pragma unroll
  for (int own = 0; own < kOwn; ++own) {
    const int entry = own * Crew::kThreads + Crew::Thread();
    mine[own] = list.key[entry];
    bool keep = entry < n && mine[own] >= cut;
    if (!clear && entry - lane < n) {
      int before = 0;
#pragma unroll 1
      for (int four = 0; four < (n + 3) / 4; ++four) {
        const uint4 other = reinterpret_cast<const uint4*>(list.key)[four];
        const bool equal_first = four < entry / 4;  // the lower index
        const auto comes_first = [&](uint32_t key) { return key > mine[own] || (equal_first && key == mine[own]); };
        before += comes_first(other.x) + comes_first(other.y) + comes_first(other.z) + comes_first(other.w);
      }
#pragma unroll
      for (int i = 0; i < 3; ++i) before += i < entry % 4 && list.key[entry / 4 * 4 + i] == mine[own];
      keep = entry < n && before < k;
    }
    keeps[own] = __ballot_sync(kAllLanes, keep);
    if (lane == 0) sums[entry / 32] = static_cast<uint32_t>(__popc(keeps[own]));
  }
  Crew::Barrier();
#pragma unroll
  for (int own = 0; own < kOwn; ++own) {
    const int entry = own * Crew::kThreads + Crew::Thread();
    int place = __popc(keeps[own] & ((1u << lane) - 1));
#pragma unroll
    for (int w = 0; w < kSums; ++w) place += w < entry / 32 ? static_cast<int>(sums[w]) : 0;
    if ((keeps[own] >> lane & 1) != 0) {
      to.key[place] = mine[own];
      to.index[place] = list.index[entry];
    }
  }
  return min(n, k);
}

// The k largest of the crew's keys that are not kNoToken (all, if fewer exist) into `to`, in ascending order of index:
// index_of(piece, i), which ascends in the order (piece, thread, i). Some smaller keys may come with them, up to `room`
// >= k entries: what is selected from again need not be cut to the last key. Returns the number of entries. Ends with a
// barrier. `list` may be what other threads still read before they come here, if a barrier lies between.
template <typename Crew, typename IndexOf>
__device__ __forceinline__ int SelectLargest(const OfTokens<uint32_t, Crew>& key, IndexOf&& index_of, int k, int room,
                                             SelectShared& shared, ShortList& list, SelectedList to) {
  if (k == 0) {
    Crew::Barrier();
    return 0;
  }
  const auto count = [&](auto&& f) {
    int sum = 0;
#pragma unroll
    for (int piece = 0; piece < Crew::kPieces; ++piece) {
#pragma unroll
      for (int i = 0; i < kKeysOfPiece; ++i) sum += f(key[piece][i]) ? 1 : 0;
    }
    return sum;
  };
  const auto places_of = [&](auto&& f, uint32_t(&sums)[kSums]) {
    int of_piece[Crew::kPieces] = {};
#pragma unroll
    for (int piece = 0; piece < Crew::kPieces; ++piece) {
#pragma unroll
      for (int i = 0; i < kKeysOfPiece; ++i) of_piece[piece] += f(key[piece][i]) ? 1 : 0;
    }
    return PlacesInCrew<Crew>(of_piece, sums);
  };
  const auto for_each = [&](const Places<Crew>& places, auto&& keep, auto&& f) {
#pragma unroll
    for (int piece = 0; piece < Crew::kPieces; ++piece) {
      int place = places.first[piece];
#pragma unroll
      for (int i = 0; i < kKeysOfPiece; ++i) {
        if (keep(piece, i)) f(place++, key[piece][i], index_of(piece, i));
      }
    }
  };
  if (k <= kMostVotes) {
    constexpr int kOwnVotes = kVotes / Crew::kThreads;
    static_assert(Crew::kPieces % kOwnVotes == 0);
#pragma unroll
    for (int vote = 0; vote < kOwnVotes; ++vote) {
      uint32_t best = key[vote][0];
#pragma unroll
      for (int piece = vote; piece < Crew::kPieces; piece += kOwnVotes) {
#pragma unroll
        for (int i = 0; i < kKeysOfPiece; ++i) best = max(best, key[piece][i]);
      }
      shared.best[vote * Crew::kThreads + Crew::Thread()] = best;
    }
    Crew::Barrier();
    const Bounds bounds = VoteForBounds(shared.best, k);
    uint32_t bound = bounds.low;
    const auto reaches = [&](uint32_t x) { return x >= bound; };
    Places<Crew> places = places_of(reaches, shared.sums[0]);
    if (places.total > kShortList) {  // high keys side by side
      int round = 0;
      bound = Bisect(bound, bounds.high, k, kShortList, [&](uint32_t t) {
        return SumOverCrew<Crew>(count([&](uint32_t x) { return x >= t; }), shared.sums[1 + (round++ & 1)]);
      });
      places = places_of(reaches, shared.sums[3]);
      Crew::Barrier();
    }
    if (places.total <= kShortList) {
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
        Crew::Barrier();
        return places.total;
      }
      if (Crew::Thread() < 3 && places.total + Crew::Thread() < kShortList)
        list.key[places.total + Crew::Thread()] = kNoToken;
      Crew::Barrier();
      const int kept = KeepLargest<Crew>(list, places.total, k, {bound, bounds.high}, shared.sums[3], to);
      Crew::Barrier();
      return kept;
    }
  }
  int round = 0;
  const auto sum = [&](auto&& f) { return SumOverCrew<Crew>(count(f), shared.sums[1 + (round++ & 1)]); };
  const uint32_t cut =
      Bisect(kNoToken, 0xffffffffu, k, k, [&](uint32_t t) { return sum([&](uint32_t x) { return x >= t; }); });
  const int ties = cut == kNoToken ? 0 : k - sum([&](uint32_t x) { return x > cut; });
  const Places<Crew> equal = places_of([&](uint32_t x) { return x == cut; }, shared.sums[0]);
  uint32_t kept[Crew::kPieces] = {};  // bits
  int of_piece[Crew::kPieces];
#pragma unroll
  for (int piece = 0; piece < Crew::kPieces; ++piece) {
    int place = equal.first[piece];
#pragma unroll
    for (int i = 0; i < kKeysOfPiece; ++i) {
      if (key[piece][i] > cut || (key[piece][i] == cut && place++ < ties)) kept[piece] |= 1u << i;
    }
    of_piece[piece] = __popc(kept[piece]);
  }
  const Places<Crew> places = PlacesInCrew<Crew>(of_piece, shared.sums[3]);
  for_each(
      places, [&](int piece, int i) { return (kept[piece] >> i & 1) != 0; },
      [&](int place, uint32_t x, int index) {
        to.key[place] = x;
        to.index[place] = index;
      });
  Crew::Barrier();
  return places.total;
}

}  // namespace headscope::kernels::decode
