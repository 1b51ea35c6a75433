// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include "dependent_launch.cuh"
#include "select/funnel_shift.cuh"
#include "select/probe_sums.cuh"
#include "select/state_change.cuh"
#include "select/top_lines.h"

namespace headscope::kernels::selection {
namespace {

constexpr int kKeyThreads = 256;
constexpr int kLinesPerThread = 4;
constexpr int kTopThreads = 1024;
constexpr int kTopWarps = kTopThreads / 32;
constexpr int kBins = 2048;
constexpr unsigned kFullWarp = 0xffffffffu;

// Larger is better; sums are not negative. NaN is worse than anything.
__device__ inline uint32_t RankKey(float sum) {
  return isnan(sum) ? 0u : __float_as_uint(sum) | 0x80000000u;
}

__global__ void __launch_bounds__(kKeyThreads) LineKeysKernel(const TopLinesParams p) {
  cuda::LetNextKernelStart();
  cuda::WaitForKernelBefore();
  const int64_t list = blockIdx.y / 2;
  const int direction = static_cast<int>(blockIdx.y % 2);
  uint32_t* const keys = p.keys + (list * 2 + direction) * p.key_pitch;
  const int32_t first =
      static_cast<int32_t>(blockIdx.x) * (kKeyThreads * kLinesPerThread) + static_cast<int32_t>(threadIdx.x);
  float sums[kLinesPerThread];
  AddUpLines<false>(p.probe, list, /*chunk=*/0, direction, first, kKeyThreads, sums);
#pragma unroll
  for (int i = 0; i < kLinesPerThread; ++i) {
    const int32_t line = first + i * kKeyThreads;
    if (line < p.num_lines) keys[line] = line < p.forced[direction] ? 0xffffffffu : RankKey(sums[i]);
  }
}

struct Found {
  uint32_t digit;
  int32_t above;  // keys with a larger digit
  int32_t equal;
};

// The digit of the wanted-th largest of the counted keys, 1 <= wanted <= sum of bins. All threads call it.
__device__ Found FindDigit(const int32_t* bins, int32_t wanted, int32_t* warp_sums, Found* result) {
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  // Thread t takes the t-th highest pair of bins; sums run from the highest down.
  const int high_bin = kBins - 1 - 2 * thread;
  const int32_t high = bins[high_bin];
  const int32_t low = bins[high_bin - 1];
  int32_t sum = high + low;
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const int32_t before = __shfl_up_sync(kFullWarp, sum, offset);
    if (lane >= offset) sum += before;
  }
  if (lane == 31) warp_sums[thread / 32] = sum;
  __syncthreads();
  static_assert(kTopWarps == 32);
  sum += __reduce_add_sync(kFullWarp, lane < thread / 32 ? warp_sums[lane] : 0);
  const int32_t above_pair = sum - high - low;
  if (above_pair < wanted && wanted <= above_pair + high) {
    *result = {static_cast<uint32_t>(high_bin), above_pair, high};
  } else if (above_pair + high < wanted && wanted <= sum) {
    *result = {static_cast<uint32_t>(high_bin - 1), above_pair + high, low};
  }
  __syncthreads();
  return *result;
}

// What is kept: every key above the threshold, and the first `quota` of those equal to it.
struct Threshold {
  uint32_t key;
  int32_t quota;
  int32_t equal;
};

__device__ Threshold FindThreshold(const uint32_t* keys, int32_t num_keys, int32_t wanted) {
  __shared__ int32_t bins[kBins];
  __shared__ int32_t warp_sums[kTopWarps];
  __shared__ Found found;
  Threshold threshold{0, wanted, 0};
  constexpr int kShifts[] = {21, 10, 0};
  int known = 32;  // bits above this one are fixed
#pragma unroll
  for (const int shift : kShifts) {
    for (int bin = static_cast<int>(threadIdx.x); bin < kBins; bin += kTopThreads) bins[bin] = 0;
    __syncthreads();
    const uint32_t mask = (1u << (known - shift)) - 1;
    auto count = [&](uint32_t key, int32_t line) {
      const bool matches = known == 32 || key >> (known & 31) == threshold.key >> (known & 31);
      if (line < num_keys && matches) atomicAdd(&bins[key >> shift & mask], 1);
    };
    // Several loads on their way before the first is counted.
    constexpr int kLoads = 4;
    constexpr int32_t kStride = kTopThreads * 4;
    for (int32_t first = static_cast<int32_t>(threadIdx.x) * 4; first < num_keys; first += kLoads * kStride) {
      uint4 four[kLoads];
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int32_t line = first + i * kStride;
        four[i] = line < num_keys ? *reinterpret_cast<const uint4*>(keys + line) : uint4{0, 0, 0, 0};
      }
#pragma unroll
      for (int i = 0; i < kLoads; ++i) {
        const int32_t line = first + i * kStride;
        count(four[i].x, line);
        count(four[i].y, line + 1);
        count(four[i].z, line + 2);
        count(four[i].w, line + 3);
      }
    }
    __syncthreads();
    const Found digit = FindDigit(bins, threshold.quota, warp_sums, &found);
    threshold.key |= digit.digit << shift;
    threshold.quota -= digit.above;
    threshold.equal = digit.equal;
    known = shift;
  }
  return threshold;
}

// Bit i: some line of the 64 from i on is set, lines 0 .. 63 in `low`, 64 .. 127 in `high`.
__device__ uint64_t AnyOfNext64(uint64_t low, uint64_t high) {
  const uint64_t from_low = low == 0 ? 0 : ~uint64_t{0} >> __clzll(static_cast<long long>(low));
  const uint64_t from_high = high == 0 ? 0 : (~uint64_t{0} << (__ffsll(static_cast<long long>(high)) - 1)) << 1;
  return from_low | from_high;
}

// p - x falls as x rises: the bitmap is read forwards and turned round.
__device__ void StoreWindows(const TopLinesParams& p, const uint64_t* slashes, uint64_t* windows) {
  for (int32_t word = static_cast<int32_t>(threadIdx.x); word < WindowWords(p.top_position); word += kTopThreads) {
    const int32_t bit = p.top_position - 64 * word - 63 + 64 * kBitmapFront;
    const uint64_t* const from = slashes + bit / 64;
    const uint64_t low = FunnelShift(from[0], from[1], bit % 64);
    const uint64_t high = FunnelShift(from[1], from[2], bit % 64);
    windows[word] = __brevll(AnyOfNext64(low, high));
  }
}

// Numbers the set bits of num_words words in ascending order, from `number` on: before[word] is the number of a word's
// first, before[num_words] the one behind the last. emit(number, word, bit), by the thread that asked for the word's
// bits. All threads call it. Where words are fewer than threads, a thread takes a piece of one: emitting one bit after
// the other is what takes time.
template <class BitsAt, class Emit>
__device__ void NumberBits(int32_t num_words, int32_t number, int32_t* before, BitsAt&& bits_at, Emit&& emit) {
  __shared__ int32_t warp_sums[kTopWarps];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  int shift = 0;  // a word is 2^shift pieces
  while (shift < 3 && num_words << (shift + 1) <= kTopThreads) ++shift;
  const int piece_bits = 64 >> shift;
  const int begin = piece_bits * (static_cast<int>(threadIdx.x) & ((1 << shift) - 1));
  for (int32_t first = 0; first < num_words << shift; first += kTopThreads) {
    const int32_t word = (first + static_cast<int32_t>(threadIdx.x)) >> shift;
    uint64_t bits = word < num_words ? bits_at(word) & (~uint64_t{0} >> (64 - piece_bits) << begin) : 0;
    const int32_t count = __popcll(bits);
    int32_t sum = count;
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
      const int32_t below = __shfl_up_sync(kFullWarp, sum, offset);
      if (lane >= offset) sum += below;
    }
    if (lane == 31) warp_sums[warp] = sum;
    __syncthreads();
    static_assert(kTopWarps == 32);
    const int32_t of_warp = warp_sums[lane];
    int32_t next = number + __reduce_add_sync(kFullWarp, lane < warp ? of_warp : 0) + sum - count;
    number += __reduce_add_sync(kFullWarp, of_warp);
    if (begin == 0 && word < num_words) before[word] = next;
    for (; bits != 0; bits &= bits - 1) emit(next++, word, __ffsll(static_cast<long long>(bits)) - 1);
    __syncthreads();
  }
  if (threadIdx.x == 0) before[num_words] = number;
}

// The kept columns in order.
__device__ void StoreColumns(const TopLinesParams& p, int64_t list, const uint64_t* columns) {
  const int32_t num_words = (p.num_lines + 63) / 64;
  int32_t* const kept = p.columns + list * p.count[0];
  NumberBits(
      num_words, 0, p.columns_before + list * (num_words + 1), [&](int32_t word) { return columns[word]; },
      [&](int32_t number, int32_t word, int bit) { kept[number] = 64 * word + bit; });
}

// Where the state of the windows changes, the lower half's a word behind the upper's. Places below 64 are no key's: the
// first change, at 0, stands for whatever is in front.
__device__ void StoreChanges(const TopLinesParams& p, int64_t list, const uint64_t* windows) {
  StateChange* const changes =
      reinterpret_cast<StateChange*>(p.changes) + list * MostChanges(p.count[1], p.top_position);
  if (threadIdx.x == 0) changes[0] = StateChange::Make(0, 0);
  const int32_t num_words = ChangeWords(p.top_position);
  uint64_t upper = 0, lower = 0;  // of the thread's word
  NumberBits(
      num_words, 1, p.changes_before + list * (num_words + 1),
      [&](int32_t word) -> uint64_t {
        if (word == 0) return 0;
        upper = windows[word];
        lower = windows[word - 1];
        const uint64_t upper_before = word == 1 ? 0 : lower >> 63;
        const uint64_t lower_before = word == 1 ? 0 : windows[word - 2] >> 63;
        return (upper ^ (upper << 1 | upper_before)) | (lower ^ (lower << 1 | lower_before));
      },
      [&](int32_t number, int32_t word, int bit) {
        const auto state = static_cast<uint32_t>((upper >> bit & 1) | (lower >> bit & 1) << 1);
        changes[number] = StateChange::Make(64 * word + bit, state);
      });
}

// Ascending order of lines: bit i of word w is line 64 w + i.
__global__ void __launch_bounds__(kTopThreads) TopLinesKernel(const TopLinesParams p) {
  __shared__ int32_t ties_of_warp[kTopWarps];
  cuda::LetNextKernelStart();
  cuda::WaitForKernelBefore();
  const int direction = static_cast<int>(blockIdx.x % 2);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const uint32_t* const keys = p.keys + static_cast<int64_t>(blockIdx.x) * p.key_pitch;
  const int32_t num_words = (p.num_lines + 63) / 64;
  uint64_t* const words = p.bitmaps + static_cast<int64_t>(blockIdx.x) * LineBitmapWords(p.num_lines);
  if (threadIdx.x < kBitmapFront) words[threadIdx.x] = 0;
  if (threadIdx.x < kBitmapBack) words[kBitmapFront + num_words + threadIdx.x] = 0;

  const int32_t wanted = min(p.count[direction], p.num_lines);
  Threshold threshold{0xffffffffu, 0, 0};
  if (wanted == p.num_lines) {
    threshold = {0, 1, 1};  // all: keys of NaN are 0
  } else if (wanted > 0) {
    threshold = FindThreshold(keys, p.num_lines, wanted);
  }
  const bool all_ties = threshold.quota == threshold.equal && threshold.quota > 0;

  // Each warp writes neighbouring words, so that ties are numbered in order of lines.
  const int32_t words_per_warp = (num_words + kTopWarps - 1) / kTopWarps;
  const int32_t begin = min(warp * words_per_warp, num_words);
  const int32_t end = min(begin + words_per_warp, num_words);
  auto key_at = [&](int32_t line, bool* inside) {
    *inside = line < p.num_lines;
    return *inside ? keys[line] : 0u;
  };
  int32_t ties_before = 0;
  if (!all_ties && threshold.quota > 0) {
    int32_t ties = 0;
    for (int32_t word = begin; word < end; ++word) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        bool inside;
        const uint32_t key = key_at(word * 64 + half * 32 + lane, &inside);
        ties += __popc(__ballot_sync(kFullWarp, inside && key == threshold.key));
      }
    }
    if (lane == 0) ties_of_warp[warp] = ties;
    __syncthreads();
    ties_before = __reduce_add_sync(kFullWarp, lane < warp ? ties_of_warp[lane] : 0);
  }
  constexpr int kWords = 4;  // whose keys are loaded at once
  for (int32_t first = begin; first < end; first += kWords) {
    uint32_t word_keys[kWords][2];
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int32_t line = (first + i) * 64 + half * 32 + lane;
        word_keys[i][half] = line < p.num_lines ? keys[line] : 0u;
      }
    }
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const int32_t word = first + i;
      if (word >= end) break;
      uint64_t bits = 0;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const bool inside = word * 64 + half * 32 + lane < p.num_lines;
        const uint32_t key = word_keys[i][half];
        const uint32_t ties = __ballot_sync(kFullWarp, inside && key == threshold.key);
        const int32_t rank = ties_before + __popc(ties & ((1u << lane) - 1));
        const bool kept =
            inside && (key > threshold.key || (key == threshold.key && (all_ties || rank < threshold.quota)));
        bits |= static_cast<uint64_t>(__ballot_sync(kFullWarp, kept)) << (32 * half);
        ties_before += __popc(ties);
      }
      if (lane == 0) words[kBitmapFront + word] = bits;
    }
  }
  const int64_t list = blockIdx.x / 2;
  __syncthreads();
  if (direction == 0) {
    StoreColumns(p, list, words + kBitmapFront);
    return;
  }
  uint64_t* const windows = p.windows + list * WindowWords(p.top_position);
  StoreWindows(p, words, windows);
  __syncthreads();
  StoreChanges(p, list, windows);
}

}  // namespace

cudaError_t LaunchTopLines(const TopLinesParams& params, cudaStream_t stream) {
  constexpr int32_t kLinesPerBlock = kKeyThreads * kLinesPerThread;
  const dim3 grid(static_cast<unsigned>((params.num_lines + kLinesPerBlock - 1) / kLinesPerBlock),
                  static_cast<unsigned>(params.num_lists * 2));
  const cudaError_t error = cuda::LaunchDependent(LineKeysKernel, grid, kKeyThreads, 0, stream, params);
  if (error != cudaSuccess) return error;
  return cuda::LaunchDependent(TopLinesKernel, static_cast<unsigned>(params.num_lists * 2), kTopThreads, 0, stream,
                               params);
}

}  // namespace headscope::kernels::selection
