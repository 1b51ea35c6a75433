// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include <algorithm>

#include "dependent_launch.cuh"
#include "fast_math.cuh"
#include "select/top_blocks.h"
#include "shared_memory.h"

namespace headscope::kernels::selection {
namespace {

constexpr int kTopWarps = 4;
constexpr int kTopThreads = 32 * kTopWarps;
constexpr int kUsualSharedBytes = 48 * 1024;  // of a launch that needs no allowance
constexpr int32_t kRowStep = 128;             // numbers that a warp looks at in one go
constexpr unsigned kFullWarp = 0xffffffffu;
constexpr float kInfinity = __builtin_huge_valf();

__device__ __forceinline__ int Lane() {
  return static_cast<int>(threadIdx.x) % 32;
}

// The same bits in every lane.
__device__ __forceinline__ float WarpSum(float sum) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(kFullWarp, sum, offset);
  return sum;
}

// Larger numbers have larger keys; NaN has the least, -0 is 0.
__device__ __forceinline__ uint32_t KeyOf(float score) {
  if (isnan(score)) return 0;
  const uint32_t bits = __float_as_uint(score + 0.0f);
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}

// What is kept of a row: all above the threshold, and the first `quota` that equal it.
struct Cut {
  uint32_t threshold;
  int32_t quota;
};
constexpr Cut kEverything = {0, INT32_MAX};
constexpr Cut kNothing = {UINT32_MAX, 0};

// One row of numbers, four of a lane at a time; behind the last stand zeros up to a multiple of 128.
class Row {
 public:
  __device__ Row(uint32_t* values, int32_t count) : values_(values), count_(count) {}

  // Sums of masses that are at least, or above, one.
  template <bool kOrEqual>
  __device__ float SumFrom(float least) const {
    float sums[4] = {};
    ForEachFour([&](const uint4& four) {
      const uint32_t some[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float mass = __uint_as_float(some[i]);
        sums[i] += (kOrEqual ? mass >= least : mass > least) ? mass : 0.0f;
      }
    });
    return WarpSum((sums[0] + sums[1]) + (sums[2] + sums[3]));
  }

  // How many keys are at least `least`, which is above 0.
  __device__ int32_t CountFrom(uint32_t least) const {
    int32_t count = 0;
    ForEachFour([&](const uint4& four) {
      count +=
          (four.x >= least ? 1 : 0) + (four.y >= least ? 1 : 0) + (four.z >= least ? 1 : 0) + (four.w >= least ? 1 : 0);
    });
    return __reduce_add_sync(kFullWarp, count);
  }

  __device__ int32_t count() const {
    return count_;
  }

 private:
  template <class Use>
  __device__ __forceinline__ void ForEachFour(Use&& use) const {
    const auto* const fours = reinterpret_cast<const uint4*>(values_);
#pragma unroll 4
    for (int32_t at = Lane(); at * 4 < count_; at += 32) use(fours[at]);
  }

  uint32_t* const values_;
  const int32_t count_;
};

// The largest value for which `reaches` is true; it is for all smaller ones. 0 where it is for none.
template <class Reaches>
__device__ uint32_t Largest(int highest_bit, Reaches&& reaches) {
  uint32_t value = 0;
#pragma unroll 1
  for (int bit = highest_bit; bit >= 0; --bit) {
    if (reaches(value | 1u << bit)) value |= 1u << bit;
  }
  return value;
}

// The fewest masses that reach `target`.
__device__ Cut CutAtShare(const Row& row, double target) {
  if (target <= 0) return kNothing;
  const uint32_t bits =
      Largest(30, [&](uint32_t least) { return row.SumFrom<true>(__uint_as_float(least)) >= target; });
  if (bits == 0) return kEverything;
  const float mass = __uint_as_float(bits);
  const double missing = target - static_cast<double>(row.SumFrom<false>(mass));
  return {bits, static_cast<int32_t>(min(ceil(missing / static_cast<double>(mass)), 1e9))};
}

// The most masses that stay within `limit`, one at least.
__device__ Cut CutWithin(const Row& row, double limit) {
  const uint32_t bits = Largest(30, [&](uint32_t least) { return row.SumFrom<true>(__uint_as_float(least)) > limit; });
  if (bits == 0) return kEverything;
  const float mass = __uint_as_float(bits);
  const float above = row.SumFrom<false>(mass);
  const auto quota =
      static_cast<int32_t>(min(floor((limit - static_cast<double>(above)) / static_cast<double>(mass)), 1e9));
  return {bits, above == 0 ? max(quota, 1) : max(quota, 0)};
}

// The k largest keys; keys that do not count are 0, and no number's key is.
__device__ Cut CutAtCount(const Row& row, int32_t k) {
  if (k >= row.count()) return kEverything;
  const uint32_t bits = Largest(31, [&](uint32_t least) { return row.CountFrom(least) >= k; });
  if (bits == 0) return kEverything;
  const int32_t above = bits == UINT32_MAX ? 0 : row.CountFrom(bits + 1);
  return {bits, k - above};
}

struct RowPlace {
  int32_t count;      // causal key blocks
  int32_t first_own;  // the first that holds a position of the row block
};

__device__ RowPlace PlaceOf(const TopBlocksParams& p, int32_t row_block) {
  const int32_t first = p.first_position + row_block * 128;
  const int32_t last = p.first_position + min((row_block + 1) * 128, p.seq_q) - 1;
  return {(last >> p.key_block_log2) + 1, first >> p.key_block_log2};
}

// values: the row's place in shared memory.
__device__ void PickBlocks(const TopBlocksParams& p, int64_t row, uint32_t* values) {
  const int lane = Lane();
  const float* const scores = p.scores + row * p.num_key_blocks;
  const int64_t list = row / p.num_row_blocks;
  const RowPlace place = PlaceOf(p, static_cast<int32_t>(row % p.num_row_blocks));
  const uint8_t* const key_counts =
      p.key_counts == nullptr ? nullptr : p.key_counts + list / p.group_size * p.num_key_blocks;
  const bool keeps_all = p.row_counts != nullptr && p.row_counts[row] == 0;
  auto counts = [&](int32_t key) { return key_counts == nullptr || key_counts[key] != 0; };
  auto is_forced = [&](int32_t key) { return p.force_ends && (key == 0 || key >= place.first_own); };

  float best = -kInfinity;
  if (p.rule == BlockRule::kWithin) {
    for (int32_t key = lane; key < place.count; key += 32) {
      if (counts(key)) best = fmaxf(best, scores[key]);
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) best = fmaxf(best, __shfl_xor_sync(kFullWarp, best, offset));
    if (best == -kInfinity) best = 0;
  }
  float forced = 0;
  float total = 0;
  const int32_t end = (place.count + kRowStep - 1) / kRowStep * kRowStep;
  for (int32_t key = lane; key < end; key += 32) {
    uint32_t value = 0;
    if (key < place.count && counts(key)) {
      const float score = scores[key];
      if (p.rule == BlockRule::kCount) {
        value = max(KeyOf(score), 1u);
      } else if (p.rule == BlockRule::kWithin) {
        const float mass = cuda::Exp2(score - best);
        value = isfinite(mass) ? __float_as_uint(mass) : 0;
      } else if (is_forced(key)) {
        forced += score;
      } else if (p.force_ends || isfinite(score)) {
        total += score;
        value = __float_as_uint(score);
      }
    }
    values[key] = value;
  }
  __syncwarp();

  const Row numbers(values, place.count);
  Cut cut = kEverything;
  if (!keeps_all) {
    if (p.rule == BlockRule::kCount) {
      cut = CutAtCount(numbers, p.count);
    } else if (p.share < 1) {
      if (p.rule == BlockRule::kWithin) {
        cut = CutWithin(numbers, p.share * static_cast<double>(numbers.SumFrom<true>(0.0f)));
      } else {
        forced = WarpSum(forced);
        total = forced + WarpSum(total);
        if (isfinite(total)) {
          cut = CutAtShare(numbers, p.share * static_cast<double>(total) - static_cast<double>(forced));
        }
      }
    }
  }

  auto* const halves = reinterpret_cast<uint32_t*>(p.bitmaps + row * p.words);
  int32_t ties_before = 0;
  for (int32_t half = 0; half < 2 * p.words; ++half) {
    const int32_t key = half * 32 + lane;
    const bool inside = key < place.count;
    const uint32_t value = inside ? values[key] : 0;
    const bool unasked = inside && (keeps_all || !counts(key) || is_forced(key));
    const bool tie = inside && !unasked && value == cut.threshold;
    const uint32_t ties = __ballot_sync(kFullWarp, tie);
    const int32_t rank = ties_before + __popc(ties & ((1u << lane) - 1));
    const bool kept = inside && (unasked || value > cut.threshold || (tie && rank < cut.quota));
    const uint32_t word = __ballot_sync(kFullWarp, kept);
    if (lane == 0) halves[half] = word;
    ties_before += __popc(ties);
  }
}

__global__ void __launch_bounds__(kTopThreads) TopBlocksKernel(const TopBlocksParams p, const int32_t pitch) {
  extern __shared__ uint4 rows[];
  cuda::LetNextKernelStart();
  cuda::WaitForKernelBefore();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (blockDim.x / 32) + warp;
  if (row >= int64_t{p.num_lists} * p.num_row_blocks) return;
  PickBlocks(p, row, reinterpret_cast<uint32_t*>(rows) + warp * pitch);
}

}  // namespace

int32_t MostTopBlocks(size_t shared_bytes) {
  return static_cast<int32_t>(std::min<size_t>(shared_bytes / sizeof(uint32_t), INT32_MAX)) / kRowStep * kRowStep;
}

cudaError_t LaunchTopBlocks(const TopBlocksParams& params, cudaStream_t stream) {
  const int32_t pitch = (params.num_key_blocks + kRowStep - 1) / kRowStep * kRowStep;
  const int row_bytes = pitch * static_cast<int>(sizeof(uint32_t));
  const int warps = std::clamp(kUsualSharedBytes / row_bytes, 1, kTopWarps);
  if (row_bytes > kUsualSharedBytes) {
    if (const cudaError_t error = AllowSharedMemory(TopBlocksKernel); error != cudaSuccess) return error;
  }
  const int64_t num_rows = int64_t{params.num_lists} * params.num_row_blocks;
  const auto grid = static_cast<unsigned>((num_rows + warps - 1) / warps);
  return cuda::LaunchDependent(TopBlocksKernel, grid, 32 * warps, static_cast<size_t>(row_bytes * warps), stream,
                               params, pitch);
}

}  // namespace headscope::kernels::selection
