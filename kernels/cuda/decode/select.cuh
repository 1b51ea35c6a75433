// The exact k largest of many scores, by one block.
//
// Every thread takes the maximum of its own share. The k-th largest of these maxima is reached by at least k scores and
// by few more, so it cuts the crowd to a short list in shared memory at the price of one comparison per score; the list
// is then ranked. The threshold is found by halving an interval, with one barrier a round that counts. Ties go to the
// earlier token, because a list's key is (score, inverted token): no two are equal, and the result depends on no order
// of arrival. Where the list overflows (high scores side by side), the same halving runs over all scores once.
#pragma once

#include "decode/decode_common.cuh"

namespace headscope::kernels::decode {

// Sum of the threads' counts, each below 2^bits; bits is uniform. A barrier, too.
__device__ __forceinline__ int SumOverBlock(int count, int bits) {
  int sum = 0;
  for (int bit = 0; bit < bits; ++bit) sum += __syncthreads_count((count >> bit) & 1) << bit;
  return sum;
}

struct SelectShared {
  uint32_t low[kSparqWarps], high[kSparqWarps];
  int count;
};

// Smallest and largest of the threads' keys that are not kNoToken; (0xffffffff, 0) if all are.
__device__ __forceinline__ uint2 RangeOverBlock(uint32_t low, uint32_t high, SelectShared& shared) {
  low = __reduce_min_sync(kAllLanes, low == kNoToken ? 0xffffffffu : low);
  high = __reduce_max_sync(kAllLanes, high);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  __syncthreads();  // a slow warp may still read the last call's
  if (lane == 0) {
    shared.low[warp] = low;
    shared.high[warp] = high;
  }
  __syncthreads();
  return make_uint2(__reduce_min_sync(kAllLanes, shared.low[lane % kSparqWarps]),
                    __reduce_max_sync(kAllLanes, shared.high[lane % kSparqWarps]));
}

// A threshold that at least k and, if one exists, at most `most` keys reach. count(t) is this thread's number of keys
// >= t, below 2^bits. At least k keys must be >= low, fewer than k may be >= high.
template <typename Key, typename Count>
__device__ __forceinline__ Key Threshold(Key low, Key high, int k, int most, int bits, Count&& count) {
  while (high - low > 1) {
    const Key middle = low + (high - low) / 2;
    const int reached = SumOverBlock(count(middle), bits);
    if (reached >= k) {
      low = middle;
      if (reached <= most) break;
    } else {
      high = middle;
    }
  }
  return low;
}

__device__ __forceinline__ uint64_t CandidateKey(uint32_t key, int token) {
  return (uint64_t{key} << 32) | (0xfffffffeu - static_cast<uint32_t>(token));
}

// The short list: keys as of CandidateKey, and where each came from.
struct CandidateList {
  uint64_t* key;
  int* source;
};

// Fills the list with at most `capacity` (>= k, a multiple of kSparqThreads) of the source's scores, the k largest
// among them (all, if fewer exist), in no particular order. Returns their number. source.ForEachEight(f) calls f(keys,
// index) for every eight scores of this thread, kNoToken where there is none; source.Token(index(i)) names a token;
// source.bits: the thread's number of scores is below 2^bits.
template <typename Source>
__device__ __forceinline__ int CollectCandidates(const Source& source, int k, int capacity, CandidateList list,
                                                 SelectShared& shared) {
  constexpr int kParts = 8;
  // With few tokens wanted, one maximum a thread is sharp enough: k of 256. Else eight.
  constexpr int kFew = 160;
  if (k == 0) return 0;
  uint32_t best[kParts] = {};
  source.ForEachEight([&](const uint32_t(&key)[kParts], const auto&) {
#pragma unroll
    for (int part = 0; part < kParts; ++part) best[part] = max(best[part], key[part]);
  });
  uint32_t low = best[0], high = best[0];
#pragma unroll
  for (int part = 1; part < kParts; ++part) {
    low = min(low - 1, best[part] - 1) + 1;  // kNoToken, an empty part, counts as the largest
    high = max(high, best[part]);
  }
  const bool few = k <= kFew;
  const uint2 range = RangeOverBlock(few ? high : low, high, shared);
  const auto reached = [&](uint32_t t) {
    if (few) return static_cast<int>(high >= t);
    int count = 0;
#pragma unroll
    for (int part = 0; part < kParts; ++part) count += best[part] >= t;
    return count;
  };
  const int bits = few ? 1 : 4;
  uint32_t bound = kNoToken + 1;
  if (range.y == 0xffffffffu || range.y == kNoToken) {
    // Keys up to the last one leave no room above them (or there are none): keep all and let the list decide.
  } else if (SumOverBlock(reached(range.x), bits) >= k) {
    bound = Threshold(range.x, range.y + 1, k, k + k / 4, bits, reached);
  }

  // Twice at most: the second time with the exact threshold.
  uint64_t exact = 0;
  while (true) {
    if (threadIdx.x == 0) shared.count = 0;
    __syncthreads();
    source.ForEachEight([&](const uint32_t(&key)[kParts], const auto& index) {
      uint32_t reached_by = 0;
#pragma unroll
      for (int part = 0; part < kParts; ++part) reached_by |= (key[part] >= bound ? 1u : 0u) << part;
      if (exact != 0) {
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          if ((reached_by >> part & 1) != 0 && CandidateKey(key[part], source.Token(index(part))) < exact)
            reached_by &= ~(1u << part);
        }
      }
      if (reached_by == 0) return;
      int place = atomicAdd(&shared.count, __popc(reached_by));
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        if ((reached_by >> part & 1) == 0) continue;
        if (place < capacity) {
          list.key[place] = CandidateKey(key[part], source.Token(index(part)));
          list.source[place] = index(part);
        }
        ++place;
      }
    });
    __syncthreads();
    const int found = shared.count;
    __syncthreads();
    if (found <= capacity) return found;
    exact = Threshold(uint64_t{bound} << 32, uint64_t{range.y} << 32 | 0xffffffffu, k, capacity, source.bits,
                      [&](uint64_t t) {
                        int count = 0;
                        source.ForEachEight([&](const uint32_t(&key)[kParts], const auto& index) {
#pragma unroll
                          for (int part = 0; part < kParts; ++part)
                            count += key[part] >= bound && CandidateKey(key[part], source.Token(index(part))) >= t;
                        });
                        return count;
                      });
  }
}

// Ranks the list's n entries and leaves the k largest, best first, in tokens and sources. Returns min(k, n). The list
// has room for an even number of entries.
__device__ __forceinline__ int KeepLargest(CandidateList list, int n, int k, int* tokens, int* sources) {
  if (threadIdx.x == 0 && n % 2 != 0) list.key[n] = 0;  // ranks below all
  __syncthreads();
  for (int e = threadIdx.x; e < n; e += kSparqThreads) {
    const uint64_t mine = list.key[e];
    int rank = 0;
#pragma unroll 8
    for (int other = 0; other < n; other += 2) {
      const ulonglong2 two = *reinterpret_cast<const ulonglong2*>(list.key + other);
      rank += (two.x > mine) + (two.y > mine);
    }
    if (rank >= k) continue;
    tokens[rank] = static_cast<int>(0xfffffffeu - static_cast<uint32_t>(mine));
    sources[rank] = list.source[e];
  }
  __syncthreads();
  return min(k, n);
}

}  // namespace headscope::kernels::decode
