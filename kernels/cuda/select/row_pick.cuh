// SPDX-License-Identifier: Apache-2.0
// The warp that picks the best scores of one query block. See pooled_blocks.h.
//
// Scores lie in shared memory as fp16, eight to a vector of 16 bytes; a slot that is NaN is empty. Rounding keeps their
// order. The warp narrows the interval in which the cut lies, all scores against three numbers at a time, until no more
// scores are in it than it has lanes. These candidates go on a lane each; those that share the cut's 16 bits, one to
// three of a row as a rule, are scored again in fp32. Where more scores than lanes are equal in fp16, what sets them
// apart, a thousand times enlarged, takes the row's slots for another round.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace headscope::kernels::selection {

constexpr int kVectorScores = 8;
constexpr int kWarpScores = 32 * kVectorScores;  // what a warp looks at in one turn
constexpr unsigned kFullWarp = 0xffffffffu;

// fp16 numbers, numbered in their order: 0 is 0.0, and x and -x have opposite numbers.
constexpr int32_t kInfinityOrder = 0x7c00;

// Two times the number of the given order.
__device__ __forceinline__ uint32_t PairOfOrder(int32_t order) {
  return static_cast<uint32_t>(order >= 0 ? order : 0x8000 | -order) * 0x10001u;
}

__device__ __forceinline__ __half2 AsHalves(uint32_t pair) {
  return *reinterpret_cast<const __half2*>(&pair);
}

// Bit i: whether compare(pair of scores, bound) has set the i-th score's 16 bits.
template <class Compare>
__device__ __forceinline__ uint32_t BitsWhere(const uint4& scores, uint32_t bound, Compare&& compare) {
  const uint32_t pairs[4] = {scores.x, scores.y, scores.z, scores.w};
  uint32_t bits = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) bits |= compare(AsHalves(pairs[i]), AsHalves(bound)) & (0x00020001u << (2 * i));
  return (bits | bits >> 16) & 0xffu;
}
__device__ __forceinline__ uint32_t BitsFrom(const uint4& scores, uint32_t bound) {
  return BitsWhere(scores, bound, [](__half2 a, __half2 b) { return __hge2_mask(a, b); });
}
__device__ __forceinline__ uint32_t BitsEqual(const uint4& scores, uint32_t bound) {
  return BitsWhere(scores, bound, [](__half2 a, __half2 b) { return __heq2_mask(a, b); });
}

// The sum of the lanes' values up to each lane, its own included.
__device__ inline int32_t PrefixSum(int32_t value) {
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const int32_t before = __shfl_up_sync(kFullWarp, value, offset);
    if (static_cast<int>(threadIdx.x) % 32 >= offset) value += before;
  }
  return value;
}

// The cut lies among the scores from `order` on and below `too_high`.
struct Interval {
  int32_t order;
  int32_t too_high;
  int32_t reached;  // scores from `order` on: wanted or more
  int32_t above;    // scores from `too_high` on: fewer

  __device__ int32_t NumInside() const { return reached - above; }
};
constexpr int32_t kMostCandidates = 32;

// Finds it among `present` scores of a row, 1 <= wanted <= present: with at most kMostCandidates inside, or of a single
// number, or reached by just the wanted ones. At most 8 rounds; a good guess of its order saves half of them. All lanes
// call it.
__device__ inline Interval NarrowCut(const uint4* row, int32_t num_vectors, int32_t present, int32_t wanted,
                                     int32_t guess) {
  constexpr int kTries = 3;
  constexpr int32_t kGuessWidth = 256;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  Interval cut{-kInfinityOrder, kInfinityOrder + 1, present, 0};  // too high is NaN: nothing reaches it
  int32_t middle = min(max(guess, cut.order + 1 + kGuessWidth), kInfinityOrder - kGuessWidth);
  int32_t step = kGuessWidth;
  while (cut.NumInside() > kMostCandidates && cut.too_high - cut.order > 1 && cut.reached != wanted) {
    const int32_t tries[kTries] = {middle - step, middle, middle + step};
    uint32_t counts[kTries] = {};
    for (int32_t at = lane; at < num_vectors; at += 32) {
      const uint4 scores = row[at];
#pragma unroll
      for (int i = 0; i < kTries; ++i) {
        const __half2 bound = AsHalves(PairOfOrder(tries[i]));
        // Each half that reaches the bound adds its 16 bits, all ones.
        counts[i] += __hge2_mask(AsHalves(scores.x), bound) + __hge2_mask(AsHalves(scores.y), bound);
        counts[i] += __hge2_mask(AsHalves(scores.z), bound) + __hge2_mask(AsHalves(scores.w), bound);
      }
    }
    // Of l low and h high halves the sum is 65536 (l - h) - l, and rows have fewer than 65536 scores.
    auto num_halves = [](uint32_t sum) {
      const uint32_t low = -sum & 0xffffu;
      return 2 * low - static_cast<uint32_t>(static_cast<int32_t>(sum + low) >> 16);
    };
    const uint32_t first_two = __reduce_add_sync(kFullWarp, num_halves(counts[0]) | num_halves(counts[1]) << 16);
    const uint32_t third = __reduce_add_sync(kFullWarp, num_halves(counts[2]));
    const int32_t reached[kTries] = {static_cast<int32_t>(first_two & 0xffffu), static_cast<int32_t>(first_two >> 16),
                                     static_cast<int32_t>(third)};
#pragma unroll
    for (int i = 0; i < kTries; ++i) {
      if (reached[i] >= wanted) {
        cut.order = tries[i];
        cut.reached = reached[i];
      }
    }
#pragma unroll
    for (int i = kTries - 1; i >= 0; --i) {
      if (reached[i] < wanted) {
        cut.too_high = tries[i];
        cut.above = reached[i];
      }
    }
    // Quarters; of fewer than four numbers, each.
    middle = (cut.order + cut.too_high) >> 1;
    step = min((cut.too_high - cut.order) >> 2, middle - cut.order - 1);
  }
  return cut;
}

// Appends to `keys` those of the lanes' bits, bit i of a lane being key first_key + i, in order. Returns how many there
// are then.
__device__ inline int32_t AppendKeys(uint32_t bits, int32_t first_key, uint16_t* keys, int32_t num_keys) {
  const int32_t up_to_here = PrefixSum(__popc(bits));
  int32_t next = num_keys + up_to_here - __popc(bits);
  for (; bits != 0; bits &= bits - 1)
    keys[next++] = static_cast<uint16_t>(first_key + __ffs(static_cast<int>(bits)) - 1);
  return num_keys + __shfl_sync(kFullWarp, up_to_here, 31);
}

// Keeps the first `quota` of the scores equal to `bound`.
__device__ inline void KeepFirst(const uint4* row, int32_t num_vectors, uint32_t bound, int32_t quota, uint8_t* kept) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int32_t at = lane; quota > 0 && at - lane < num_vectors; at += 32) {
    uint32_t bits = BitsEqual(row[at], bound);
    const int32_t own = __popc(bits);
    const int32_t up_to_here = PrefixSum(own);
    for (int32_t left = own - max(quota - (up_to_here - own), 0); left > 0; --left) bits ^= 0x80000000u >> __clz(bits);
    if (bits != 0) kept[at] |= static_cast<uint8_t>(bits);
    quota -= __shfl_sync(kFullWarp, up_to_here, 31);
  }
}

// Puts gain * (score - base) into the slots equal to `bound`, with scores from score_of(key), and empties the others.
// Returns whether all those scores are the same.
template <class ScoreOf>
__device__ inline bool Enlarge(uint4* row, int32_t num_vectors, uint32_t bound, float base, float gain,
                               const ScoreOf& score_of) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float least = __int_as_float(0x7f800000);
  float most = -least;
  for (int32_t first = 0; first < num_vectors; first += 32) {
    const uint32_t equal = BitsEqual(row[first + lane], bound);
    row[first + lane] = {~0u, ~0u, ~0u, ~0u};
    __syncwarp();
    for (uint32_t lanes = __ballot_sync(kFullWarp, equal != 0); lanes != 0; lanes &= lanes - 1) {
      const int owner = __ffs(static_cast<int>(lanes)) - 1;
      for (uint32_t bits = __shfl_sync(kFullWarp, equal, owner); bits != 0; bits &= bits - 1) {
        const int32_t key = (first + owner) * kVectorScores + __ffs(static_cast<int>(bits)) - 1;
        const float rest = (score_of(key) - base) * gain;
        least = fminf(least, rest);
        most = fmaxf(most, rest);
        if (lane == 0) reinterpret_cast<__half*>(row)[key] = __float2half_rn(rest);
      }
    }
  }
  __syncwarp();
  return least == most;
}

// Keeps the best `wanted` of at most kMostCandidates scores, whose keys are in `keys` and in order; each is from
// `least` on and less than `width` numbers above it. Equal scores by lower key.
template <class ScoreOf>
__device__ inline void KeepBestOfFew(const uint4* row, const uint16_t* keys, int32_t num_candidates, int32_t least,
                                     int32_t width, int32_t wanted, const ScoreOf& score_of, uint8_t* kept) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool has_one = lane < num_candidates;
  const int32_t key = has_one ? keys[lane] : 0;
  const int32_t bits = reinterpret_cast<const uint16_t*>(row)[key];
  const int32_t order = (bits & 0x8000) != 0 ? -(bits & 0x7fff) : bits;
  const auto height = static_cast<uint32_t>(order - least);
  uint32_t open = __ballot_sync(kFullWarp,
                                has_one);  // lanes not decided yet, of which `wanted` are chosen
  uint32_t chosen = 0;
  for (int bit = 31 - __clz(width); bit >= 0 && __popc(open) > wanted; --bit) {
    const uint32_t higher = __ballot_sync(kFullWarp, (height >> bit & 1) != 0) & open;
    if (__popc(higher) >= wanted) {
      open = higher;
    } else {
      chosen |= higher;
      wanted -= __popc(higher);
      open &= ~higher;
    }
  }
  if (__popc(open) == wanted) {
    chosen |= open;
  } else {
    float score = 0;
    for (uint32_t left = open; left != 0; left &= left - 1) {
      const int owner = __ffs(static_cast<int>(left)) - 1;
      const float of_owner = score_of(__shfl_sync(kFullWarp, key, owner));
      if (lane == owner) score = of_owner;
    }
    int better = 0;
    for (uint32_t left = open; left != 0; left &= left - 1) {
      const int other = __ffs(static_cast<int>(left)) - 1;
      const float of_other = __shfl_sync(kFullWarp, score, other);
      better += of_other > score || (of_other == score && other < lane) ? 1 : 0;
    }
    chosen |= __ballot_sync(kFullWarp, better < wanted) & open;
  }
  __syncwarp();
  if ((chosen >> lane & 1) != 0) atomicOr(reinterpret_cast<uint32_t*>(kept) + key / 32, 1u << (key % 32));
}

// What picking a row takes beside its scores.
template <class ScoreOf>
struct RowPick {
  uint4* row;         // room for visible scores, rounded up to kWarpScores; used up
  uint16_t* keys;     // [kMostCandidates], the warp's own
  int32_t visible;    // scores in the row, fewer than 65536
  int32_t wanted;     // 1 or more
  int32_t guess;      // order near which the cut may lie
  ScoreOf score_of;   // score_of(key), called by all lanes: the score in fp32 that the row has rounded
  uint8_t* kept;      // bit key % 8 of kept[key / 8]; aligned to 4 bytes
  int32_t num_bytes;  // all of them are written
};

// Keeps the best `wanted` scores of a row, equal ones by lower key; -infinity stands for no number. Returns an order
// near the cut. All lanes call it.
template <class ScoreOf>
__device__ inline int32_t PickRow(const RowPick<ScoreOf>& p) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int32_t wanted = p.wanted;
  if (wanted >= p.visible) {
    for (int32_t at = lane; at < p.num_bytes; at += 32) {
      p.kept[at] = static_cast<uint8_t>((1u << min(max(p.visible - kVectorScores * at, 0), kVectorScores)) - 1);
    }
    return p.guess;
  }
  const int32_t num_vectors = (p.visible + kWarpScores - 1) / kWarpScores * 32;
#pragma unroll 1
  for (int32_t key = p.visible + lane; key < num_vectors * kVectorScores; key += 32) {
    reinterpret_cast<uint16_t*>(p.row)[key] = 0xffff;
  }
  for (int32_t at = num_vectors + lane; at < p.num_bytes; at += 32) p.kept[at] = 0;
  __syncwarp();

  // Every round tells apart what differs by a 2^-10th of the difference that the last one could not see: two or three
  // rounds, more only for scores near 0. Beyond 12 of them differences are below 2^-140 of the largest score.
  constexpr int kMostRounds = 12;
  constexpr float kGain = 1024.0f;
  float base = 0;
  float gain = 1;
  int32_t present = p.visible;
  int32_t guess = p.guess;
  bool all_equal = false;
  for (int round = 0;; ++round) {
    const Interval cut = NarrowCut(p.row, num_vectors, present, wanted, guess);
    if (round == 0) guess = cut.order;
    const bool all_inside = cut.reached == wanted;
    const bool few = !all_inside && cut.NumInside() <= kMostCandidates;
    const uint32_t bound = PairOfOrder(cut.order);
    const uint32_t kept_from = all_inside ? bound : PairOfOrder(cut.too_high);
    int32_t num_keys = 0;
    for (int32_t at = lane; at - lane < num_vectors; at += 32) {
      const uint4 scores = p.row[at];
      const uint32_t bits = BitsFrom(scores, kept_from);
      if (at < p.num_bytes && (round == 0 || bits != 0)) {
        p.kept[at] = static_cast<uint8_t>(round == 0 ? bits : p.kept[at] | bits);
      }
      if (!few) continue;
      const uint32_t inside = BitsFrom(scores, bound) & ~bits;
      if (__any_sync(kFullWarp, inside != 0)) num_keys = AppendKeys(inside, at * kVectorScores, p.keys, num_keys);
    }
    if (all_inside) return guess;
    wanted -= cut.above;
    present = cut.NumInside();
    if (few) {
      __syncwarp();
      KeepBestOfFew(p.row, p.keys, present, cut.order, cut.too_high - cut.order, wanted, p.score_of, p.kept);
      return guess;
    }
    if (all_equal || round == kMostRounds || cut.order == -kInfinityOrder) {
      KeepFirst(p.row, num_vectors, bound, wanted, p.kept);
      return guess;
    }
    base += __half2float(__low2half(AsHalves(bound))) / gain;
    gain *= kGain;
    all_equal = Enlarge(p.row, num_vectors, bound, base, gain, p.score_of);
  }
}

}  // namespace headscope::kernels::selection
