// The warp that picks the best scores of one query block. See pooled_blocks.h.
//
// Scores lie in shared memory as fp16, eight to a vector of 16 bytes; a slot that is NaN is empty. Rounding keeps their
// order, so the scores above the fp16 number in which the cut lies are kept and those below are not. Those that share
// it, one to three of a row as a rule, are scored again in fp32, and what sets them apart, a thousand times enlarged,
// takes the row's slots for another round.
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
__device__ __forceinline__ uint32_t BitsAbove(const uint4& scores, uint32_t bound) {
  return BitsWhere(scores, bound, [](__half2 a, __half2 b) { return __hgt2_mask(a, b); });
}
__device__ __forceinline__ uint32_t BitsEqual(const uint4& scores, uint32_t bound) {
  return BitsWhere(scores, bound, [](__half2 a, __half2 b) { return __heq2_mask(a, b); });
}

// The cut lies in this fp16 number: fewer than wanted scores are above it, and with those equal to it enough.
struct HalfCut {
  int32_t order;
  int32_t above;    // scores above it
  int32_t reached;  // scores above or equal
};

// Finds it among `present` scores of a row, 1 <= wanted <= present, trying three numbers at a time: at most 8 rounds.
// Ends early when exactly the wanted ones reach it. All lanes call it.
__device__ inline HalfCut FindHalfCut(const uint4* row, int32_t num_vectors, int32_t present, int32_t wanted) {
  constexpr int kTries = 3;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  HalfCut cut{-kInfinityOrder, 0, present};
  int32_t too_high = kInfinityOrder + 1;  // NaN: nothing reaches it
  while (too_high - cut.order > 1 && cut.reached != wanted) {
    const int32_t width = too_high - cut.order;
    const int32_t step = max(width / 4, 1);
    const int32_t tries[kTries] = {cut.order + step, cut.order + width / 2, too_high - step};
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
        too_high = tries[i];
        cut.above = reached[i];
      }
    }
  }
  return cut;
}

// Keeps the first `quota` of the scores equal to `bound`.
__device__ inline void KeepFirst(const uint4* row, int32_t num_vectors, uint32_t bound, int32_t quota, uint8_t* kept) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int32_t at = lane; quota > 0 && at - lane < num_vectors; at += 32) {
    uint32_t bits = BitsEqual(row[at], bound);
    const int32_t own = __popc(bits);
    int32_t up_to_here = own;
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
      const int32_t before = __shfl_up_sync(kFullWarp, up_to_here, offset);
      if (lane >= offset) up_to_here += before;
    }
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

// Keeps the best `wanted` of scores [0, visible) of a row: bit key % 8 of kept[key / 8], of num_bytes bytes that are
// all written. The row has room for visible scores, rounded up to kWarpScores, and is used up. score_of(key), called by
// all lanes, is the score in fp32, of which the row has the rounding; a score that is -infinity there is one that is no
// number. 1 <= wanted. All lanes call it.
template <class ScoreOf>
__device__ inline void PickRow(uint4* row, int32_t visible, int32_t wanted, const ScoreOf& score_of, uint8_t* kept,
                               int32_t num_bytes) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (wanted >= visible) {
    for (int32_t at = lane; at < num_bytes; at += 32) {
      kept[at] = static_cast<uint8_t>((1u << min(max(visible - kVectorScores * at, 0), kVectorScores)) - 1);
    }
    return;
  }
  const int32_t num_vectors = (visible + kWarpScores - 1) / kWarpScores * 32;
#pragma unroll 1
  for (int32_t key = visible + lane; key < num_vectors * kVectorScores; key += 32) {
    reinterpret_cast<uint16_t*>(row)[key] = 0xffff;
  }
  __syncwarp();

  // Every round tells apart what differs by a 2^-10th of the difference that the last one could not see: two or three
  // rounds, more only for scores near 0. Beyond 12 of them differences are below 2^-140 of the largest score.
  constexpr int kMostRounds = 12;
  constexpr float kGain = 1024.0f;
  float base = 0;
  float gain = 1;
  int32_t present = visible;
  bool all_equal = false;
  for (int round = 0;; ++round) {
    const HalfCut cut = FindHalfCut(row, num_vectors, present, wanted);
    const bool settled = cut.reached == wanted;
    const uint32_t bound = PairOfOrder(cut.order);
    const uint32_t below_kept = settled ? PairOfOrder(cut.order - 1) : bound;
    for (int32_t at = lane; at < num_bytes; at += 32) {
      const uint32_t bits = at < num_vectors ? BitsAbove(row[at], below_kept) : 0;
      if (round == 0) {
        kept[at] = static_cast<uint8_t>(bits);
      } else if (bits != 0) {
        kept[at] |= static_cast<uint8_t>(bits);
      }
    }
    if (settled) return;
    wanted -= cut.above;
    present = cut.reached - cut.above;
    if (all_equal || round == kMostRounds || cut.order == -kInfinityOrder) {
      KeepFirst(row, num_vectors, bound, wanted, kept);
      return;
    }
    base += __half2float(__low2half(AsHalves(bound))) / gain;
    gain *= kGain;
    all_equal = Enlarge(row, num_vectors, bound, base, gain, score_of);
  }
}

}  // namespace headscope::kernels::selection
