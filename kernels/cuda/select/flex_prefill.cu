// SPDX-License-Identifier: Apache-2.0
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>

#include "cluster.cuh"
#include "cluster_launch.cuh"
#include "dependent_launch.cuh"
#include "fast_math.cuh"
#include "select/flex_prefill.h"
#include "select/probe_sums.cuh"
#include "transaction_barrier.cuh"

namespace headscope::kernels::selection {
namespace {

constexpr unsigned kFullWarp = 0xffffffffu;
constexpr float kInfinity = __builtin_huge_valf();

__device__ __forceinline__ int Lane() {
  return static_cast<int>(threadIdx.x) % 32;
}

struct Plus {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Maximum {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// Over neighbouring lanes, as many as kLanes.
template <int kLanes = 32, class T, class Combine>
__device__ __forceinline__ T OverWarp(T value, Combine combine) {
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2)
    value = combine(value, __shfl_xor_sync(kFullWarp, value, offset));
  return value;
}

// Over a thread block of kThreads, in one fixed order; the same bits in every thread. `parts`: one for every warp.
template <int kThreads, class T, class Combine>
__device__ __forceinline__ T OverBlock(T value, T* parts, Combine combine) {
  constexpr int kWarps = kThreads / 32;
  value = OverWarp(value, combine);
  __syncthreads();  // whoever still reads the last call's parts
  if (Lane() == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  static_assert(kWarps <= 32);
  return OverWarp<kWarps>(parts[Lane() % kWarps], combine);
}

__device__ __forceinline__ float Finite(float mass) {
  return isfinite(mass) ? mass : 0.0f;
}

// A thread block per stripe of 128 lines, direction and list.
__global__ void __launch_bounds__(kStripe) LineMassKernel(const FlexPrefillParams p) {
  __shared__ float parts[kStripe / 32];
  cuda::LetNextKernelStart();
  cuda::WaitForKernelBefore();
  const auto stripes = static_cast<unsigned>(p.NumStripes());
  const auto stripe = static_cast<int32_t>(blockIdx.x % stripes);
  const int64_t pick = blockIdx.x / stripes;  // list, direction
  const int32_t line = stripe * kStripe + static_cast<int32_t>(threadIdx.x);
  float mass[1];
  AddUpLines<false>(p.probe, pick / 2, 0, static_cast<int>(pick % 2), min(line, p.num_lines - 1), 0, mass);
  if (line < p.num_lines) {
    p.lines[pick * p.num_lines + line] = Finite(mass[0]);
  } else {
    mass[0] = 0;
  }
  mass[0] = OverWarp(mass[0], Plus());
  if (Lane() == 0) parts[threadIdx.x / 32] = mass[0];
  __syncthreads();
  if (threadIdx.x == 0) p.stripes[pick * p.NumStripes() + stripe] = (parts[0] + parts[1]) + (parts[2] + parts[3]);
}

constexpr int kDecideThreads = 256;
constexpr int kMostComponents = 256;

__device__ __forceinline__ float LoadElement(uint16_t raw, bool is_bf16) {
  return is_bf16 ? __uint_as_float(static_cast<uint32_t>(raw) << 16) : __half2float(__ushort_as_half(raw));
}

// A thread block per list: whether the mean of the last queries foretells where their attention goes.
__global__ void __launch_bounds__(kDecideThreads) DecideKernel(const FlexPrefillParams p) {
  __shared__ float query[kMostComponents];
  __shared__ float parts[kDecideThreads / 32];
  __shared__ double wide_parts[kDecideThreads / 32];
  cuda::LetNextKernelStart();
  cuda::WaitForKernelBefore();
  const BlockScoresParams& b = p.blocks;
  const int64_t list = blockIdx.x;
  const int64_t sequence = list / b.num_qo_heads;
  const int64_t head = list % b.num_qo_heads;
  const int64_t kv_list = sequence * b.num_kv_heads + head / (b.num_qo_heads / b.num_kv_heads);
  const int thread = static_cast<int>(threadIdx.x);
  const int32_t num_rows = min(kStripe, b.seq_q);
  const auto* const rows = static_cast<const uint16_t*>(b.q.data) + sequence * b.q.batch_stride +
                           head * b.q.head_stride + (b.seq_q - num_rows) * b.q.row_stride;
  if (thread < b.head_dim) {
    float sum = 0;
#pragma unroll 8
    for (int32_t row = 0; row < num_rows; ++row) sum += LoadElement(rows[row * b.q.row_stride + thread], b.is_bf16);
    query[thread] = sum / static_cast<float>(num_rows);
  }
  __syncthreads();

  const int32_t num_stripes = p.NumStripes();
  const float* const means = b.k_means + kv_list * num_stripes * b.head_dim;
  // The scores take the list's place in the map until its masses come.
  float* const scores = p.map + list * p.MapSize();
  float best = -kInfinity;
  for (int32_t stripe = thread / 32; stripe < num_stripes; stripe += kDecideThreads / 32) {
    float sum = 0;
    for (int component = Lane(); component < b.head_dim; component += 32)
      sum = fmaf(query[component], means[int64_t{stripe} * b.head_dim + component], sum);
    const float score = OverWarp(sum, Plus()) * b.score_scale;
    const float logit = b.cap > 0 ? b.cap * cuda::Tanh(score) : score;
    best = fmaxf(best, logit);
    if (Lane() == 0) scores[stripe] = logit;
  }
  best = OverBlock<kDecideThreads>(best, parts, Maximum());
  const float* const columns = p.stripes + list * 2 * num_stripes;
  float predicted_total = 0;
  float actual_total = 0;
  for (int32_t stripe = thread; stripe < num_stripes; stripe += kDecideThreads) {
    predicted_total += cuda::Exp2(scores[stripe] - best);
    actual_total += columns[stripe];
  }
  predicted_total = OverBlock<kDecideThreads>(predicted_total, parts, Plus());
  actual_total = OverBlock<kDecideThreads>(actual_total, parts, Plus());
  double divergence = 0;
  for (int32_t stripe = thread; stripe < num_stripes; stripe += kDecideThreads) {
    const auto x = static_cast<double>(cuda::Exp2(scores[stripe] - best) / predicted_total);
    const auto y = static_cast<double>(columns[stripe] / actual_total);
    const double mean = (x + y) / 2;
    if (x > 0) divergence += x * log(x / mean) / 2;
    if (y > 0) divergence += y * log(y / mean) / 2;
  }
  divergence = OverBlock<kDecideThreads>(divergence, wide_parts, Plus());
  if (thread == 0) p.by_means[list] = sqrt(fmax(divergence, 0.0)) < p.tau ? 1 : 0;
}

constexpr int kRowThreads = 128;

__device__ __forceinline__ int32_t CausalBlocks(const BlockScoresParams& b, int32_t row_block) {
  return (b.first_position + min((row_block + 1) * kStripe, b.seq_q) - 1) / kStripe + 1;
}

// A warp per row block of a list: the softmax over its causal key blocks.
__global__ void __launch_bounds__(kRowThreads) MapMassKernel(const FlexPrefillParams p) {
  cuda::LetNextKernelStart();
  cuda::WaitForKernelBefore();
  const int32_t num_rows = p.blocks.NumQueryBlocks();
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * kRowThreads + static_cast<int64_t>(threadIdx.x)) / 32;
  if (row >= int64_t{p.num_lists} * num_rows) return;
  const int64_t list = row / num_rows;
  if (p.by_means[list] == 0) return;
  const auto row_block = static_cast<int32_t>(row % num_rows);
  const int32_t count = CausalBlocks(p.blocks, row_block);
  const float* const scores = p.blocks.scores + row * p.NumStripes();
  float best = -kInfinity;
  for (int32_t key = Lane(); key < count; key += 32) best = fmaxf(best, scores[key]);
  best = OverWarp(best, Maximum());
  float total = 0;
  for (int32_t key = Lane(); key < count; key += 32) total += cuda::Exp2(scores[key] - best);
  const float inverse = 1.0f / OverWarp(total, Plus());
  float* const masses = p.map + list * p.MapSize() + p.MapBefore(row_block);
  for (int32_t key = Lane(); key < p.RoomOf(row_block); key += 32)
    masses[key] = key < count ? Finite(cuda::Exp2(scores[key] - best) * inverse) : 0.0f;
}

constexpr int kCutThreads = 1024;
// Of the cluster that finds a cut, on compute capability 9.0, where there are so many masses that a block alone would
// take longer than they wait for each other.
constexpr int kCutBlocks = 4;
constexpr int64_t kMassesOfOne = 65536;

// A cut through masses: those above the threshold are kept and `quota` of those that equal it.
struct ShareCut {
  float mass;
  int64_t above;  // how many are
  int64_t quota;
};

struct CutParts {
  float sums[3][kCutThreads / 32];
  long long counts[kCutThreads / 32];
  uint4 of_blocks[2][kCutBlocks];
  uint64_t arrived[2];
};

// Words of the blocks of a cluster that has several: those of block b in words(b), for all threads of all blocks. There
// are two places, used in turn, so that the words of one call may be read while the next are on their way.
class SharedWords {
 public:
  // The cluster's barrier lies between this and the first call of Exchange.
  __device__ explicit SharedWords(CutParts& parts) : parts_(parts) {
#if __CUDA_ARCH__ >= 900
    if (threadIdx.x == 0) {
      cuda::InitBarrier(&parts.arrived[0], 1);
      cuda::InitBarrier(&parts.arrived[1], 1);
      cuda::ShowBarriersToCluster();
    }
#endif
  }
  __device__ __forceinline__ void Exchange([[maybe_unused]] const uint4& own) {
    turn_ = calls_ % 2;
#if __CUDA_ARCH__ >= 900
    const int thread = static_cast<int>(threadIdx.x), blocks = cuda::ClusterBlocks(), block = cuda::BlockOfCluster();
    uint64_t* const barrier = &parts_.arrived[turn_];
    if (thread == 0) cuda::ArriveExpecting(barrier, static_cast<uint32_t>(blocks) * sizeof(uint4));
    if (thread < blocks) cuda::SendToBlock(&parts_.of_blocks[turn_][block], own, barrier, thread);
    cuda::AwaitBarrier(barrier, calls_ / 2 & 1);
#endif
    ++calls_;
  }
  __device__ __forceinline__ uint4 words(int block) const {
    return parts_.of_blocks[turn_][block];
  }

 private:
  CutParts& parts_;
  uint32_t calls_ = 0, turn_ = 0;
};

// The fewest masses that hold the share, by a whole cluster.
__device__ ShareCut CutAtShare(const float* masses, int64_t count, double share, CutParts& parts, SharedWords& shared) {
  const int blocks = cuda::ClusterBlocks();
  const int64_t first = static_cast<int64_t>(cuda::BlockOfCluster()) * kCutThreads + static_cast<int64_t>(threadIdx.x);
  const int64_t step = static_cast<int64_t>(blocks) * kCutThreads;
  // Eight loads at once; -1 behind the last mass.
  const auto for_each = [&](auto&& use) {
#pragma unroll 1
    for (int64_t begin = first; begin < count; begin += 8 * step) {
      float mass[8];
#pragma unroll
      for (int u = 0; u < 8; ++u) mass[u] = begin + u * step < count ? masses[begin + u * step] : -1.0f;
#pragma unroll
      for (int u = 0; u < 8; ++u) use(mass[u]);
    }
  };
  // Of three thresholds at a time, what is at least as large; of all where a threshold is 0.
  const auto sums_from = [&](const float(&least)[3], float(&totals)[3]) {
    float sums[3] = {};
    for_each([&](float mass) {
#pragma unroll
      for (int i = 0; i < 3; ++i) sums[i] += mass >= least[i] ? mass : 0.0f;
    });
    __syncthreads();  // whoever still reads the last parts
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      const float sum = OverWarp(sums[i], Plus());
      if (Lane() == 0) parts.sums[i][threadIdx.x / 32] = sum;
    }
    __syncthreads();
    float own[3];
#pragma unroll
    for (int i = 0; i < 3; ++i) own[i] = OverWarp(parts.sums[i][Lane()], Plus());
#pragma unroll
    for (int i = 0; i < 3; ++i) totals[i] = blocks == 1 ? own[i] : 0.0f;
    if (blocks == 1) return;
    shared.Exchange({__float_as_uint(own[0]), __float_as_uint(own[1]), __float_as_uint(own[2]), 0});
    for (int block = 0; block < blocks; ++block) {
      const uint4 words = shared.words(block);
      totals[0] += __uint_as_float(words.x);
      totals[1] += __uint_as_float(words.y);
      totals[2] += __uint_as_float(words.z);
    }
  };
  float totals[3];
  sums_from({0, 0, 0}, totals);
  const double target = share * static_cast<double>(totals[0]);
  if (share >= 1) return {-1.0f, count, 0};
  if (target <= 0) return {kInfinity, 0, 0};
  uint32_t bits = 0;
#pragma unroll 1
  for (int shift = 30; shift >= 0; shift -= 2) {
    // Bit 31 is the sign's.
    const uint32_t candidates[3] = {bits | 1u << shift, bits | 2u << shift, bits | 3u << shift};
    float least[3];
#pragma unroll
    for (int i = 0; i < 3; ++i) least[i] = (candidates[i] >> 31) != 0 ? kInfinity : __uint_as_float(candidates[i]);
    sums_from(least, totals);
#pragma unroll
    for (int i = 0; i < 3; ++i) {
      if ((candidates[i] >> 31) == 0 && totals[i] >= target) bits = candidates[i];
    }
  }
  if (bits == 0) return {-1.0f, count, 0};
  const float cut = __uint_as_float(bits);
  const float next = __uint_as_float(bits + 1);
  sums_from({next, next, next}, totals);
  long long above_here = 0;
  for_each([&](float mass) { above_here += mass > cut ? 1 : 0; });
  above_here = OverBlock<kCutThreads>(above_here, parts.counts, Plus());
  int64_t above = above_here;
  if (blocks > 1) {
    const auto words_above = static_cast<unsigned long long>(above_here);
    shared.Exchange({static_cast<uint32_t>(words_above), static_cast<uint32_t>(words_above >> 32), 0, 0});
    above = 0;
    for (int block = 0; block < blocks; ++block) {
      const uint4 words = shared.words(block);
      above += static_cast<int64_t>(words.x | static_cast<unsigned long long>(words.y) << 32);
    }
  }
  const double missing = target - static_cast<double>(totals[0]);
  return {cut, above, static_cast<int64_t>(ceil(missing / static_cast<double>(cut)))};
}

// The `count` best stripes as a bitmap, larger first, equal ones by lower index; the first before all.
__device__ void PickStripes(const FlexPrefillParams& p, int64_t pick, int64_t count, CutParts& parts) {
  const float* const stripes = p.stripes + pick * p.NumStripes();
  const int32_t num_stripes = p.NumStripes();
  auto* const halves = reinterpret_cast<uint32_t*>(p.stripe_bits + pick * p.words);
  // Masses are not negative; NaN has the least key, above those of places behind the last.
  auto key_of = [&](int32_t stripe) -> uint32_t {
    if (stripe >= num_stripes) return 0;
    if (stripe == 0) return 0x7f800000u;
    const float mass = stripes[stripe];
    return isnan(mass) ? 1 : min(__float_as_uint(mass) + 2, 0x7f7fffffu);
  };
  auto count_from = [&](uint32_t least) {
    long long above = 0;
    for (int32_t stripe = static_cast<int32_t>(threadIdx.x); stripe < num_stripes; stripe += kCutThreads)
      above += key_of(stripe) >= least ? 1 : 0;
    return OverBlock<kCutThreads>(above, parts.counts, Plus());
  };
  uint32_t threshold = 0;
  long long quota = num_stripes;
  if (count < num_stripes) {
#pragma unroll 1
    for (int bit = 30; bit >= 0; --bit) {
      if (count_from(threshold | 1u << bit) >= count) threshold |= 1u << bit;
    }
    quota = count - count_from(threshold + 1);
  }
  if (threadIdx.x >= 32) return;
  long long ties_before = 0;
  for (int32_t half = 0; half < 2 * p.words; ++half) {
    const int32_t stripe = half * 32 + Lane();
    const uint32_t key = key_of(stripe);
    const uint32_t ties = __ballot_sync(kFullWarp, key == threshold && stripe < num_stripes);
    const long long rank = ties_before + __popc(ties & ((1u << Lane()) - 1));
    const bool kept = stripe < num_stripes && (key > threshold || (key == threshold && rank < quota));
    const uint32_t word = __ballot_sync(kFullWarp, kept);
    if (Lane() == 0) halves[half] = word;
    ties_before += __popc(ties);
  }
}

// A cluster per list and columns (0), diagonals (1) or map (2).
__global__ void __launch_bounds__(kCutThreads) FlexCutKernel(const FlexPrefillParams p) {
  __shared__ CutParts parts;
  cuda::LetNextKernelStart();
  cuda::WaitForKernelBefore();
  SharedWords shared(parts);
  cuda::ArriveAtClusterRelaxed();
  cuda::AwaitCluster();  // the other blocks have started
  const int number = cuda::ClusterNumber(), block = cuda::BlockOfCluster(), blocks = cuda::ClusterBlocks();
  // Maps take the longest: first.
  const int64_t list = number % p.num_lists;
  const int part = 2 - number / p.num_lists;
  const bool by_means = p.by_means[list] != 0;
  if (part < 2) {
    const int64_t pick = list * 2 + part;
    int64_t count = p.least_stripes;
    if (!by_means) {
      const ShareCut cut = CutAtShare(p.lines + pick * p.num_lines, p.num_lines, p.gamma, parts, shared);
      count = max(count, (cut.above + cut.quota) / kStripe + 1);
    }
    if (block == 0) PickStripes(p, pick, count, parts);
    return;
  }
  if (!by_means) return;
  const float* const map = p.map + list * p.MapSize();
  const ShareCut cut = CutAtShare(map, p.MapSize(), p.gamma, parts, shared);
  if (block == 0 && threadIdx.x == 0)
    p.cuts[list] = {cut.mass, static_cast<int32_t>(min(cut.quota, static_cast<int64_t>(INT32_MAX)))};
  // Ties in front of every row block, in two steps: those of each, and their sums.
  const int32_t num_rows = p.blocks.NumQueryBlocks();
  int32_t* const ties_before = p.ties_before + list * num_rows;
  constexpr int kWarps = kCutThreads / 32;
  for (int32_t row = block * kWarps + static_cast<int32_t>(threadIdx.x) / 32; row < num_rows; row += blocks * kWarps) {
    const float* const masses = map + p.MapBefore(row);
    const int32_t count = CausalBlocks(p.blocks, row);
    int32_t ties = 0;
    for (int32_t key = Lane(); key < count; key += 32) ties += masses[key] == cut.mass ? 1 : 0;
    ties = OverWarp(ties, Plus());
    if (Lane() == 0) ties_before[row] = ties;
  }
  if (blocks == 1) {
    __syncthreads();  // without the cluster's wait for the whole GPU to see the counts
  } else {
    cuda::ArriveAtCluster();
    cuda::AwaitCluster();
  }
  if (block > 0 || threadIdx.x >= 32) return;
  int32_t sum = 0;
  for (int32_t first = 0; first < num_rows; first += 32) {
    const int32_t row = first + Lane();
    const int32_t ties = row < num_rows ? ties_before[row] : 0;
    int32_t prefix = ties;
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
      const int32_t below = __shfl_up_sync(kFullWarp, prefix, offset);
      if (Lane() >= offset) prefix += below;
    }
    if (row < num_rows) ties_before[row] = sum + prefix - ties;
    sum += __shfl_sync(kFullWarp, prefix, 31);
  }
}

// A warp per row block of a list: columns' stripes, diagonals' stripes from each of its own key blocks on, and blocks
// of the map.
__global__ void __launch_bounds__(kRowThreads) FlexBitmapsKernel(const FlexPrefillParams p) {
  cuda::LetNextKernelStart();
  cuda::WaitForKernelBefore();
  const int32_t num_rows = p.blocks.NumQueryBlocks();
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * kRowThreads + static_cast<int64_t>(threadIdx.x)) / 32;
  if (row >= int64_t{p.num_lists} * num_rows) return;
  const int64_t list = row / num_rows;
  const auto row_block = static_cast<int32_t>(row % num_rows);
  const int32_t count = CausalBlocks(p.blocks, row_block);
  const int32_t first_own = (p.blocks.first_position + row_block * kStripe) / kStripe;
  const uint64_t* const columns = p.stripe_bits + list * 2 * p.words;
  const uint64_t* const diagonals = columns + p.words;
  auto has = [](const uint64_t* bits, int32_t place) { return (bits[place / 64] >> (place % 64) & 1) != 0; };
  const bool by_means = p.by_means[list] != 0;
  const float* const masses = p.map + list * p.MapSize() + p.MapBefore(row_block);
  const MapCut cut = by_means ? p.cuts[list] : MapCut{};
  int32_t ties_before = by_means ? p.ties_before[row] : 0;
  auto* const halves = reinterpret_cast<uint32_t*>(p.bitmaps + row * p.words);
  for (int32_t half = 0; half < 2 * p.words; ++half) {
    const int32_t key = half * 32 + Lane();
    bool kept = false;
    bool tie = false;
    float mass = 0;
    if (key < count) {
      kept = has(columns, key);
      for (int32_t own = max(first_own, key); own < count; ++own) kept = kept || has(diagonals, own - key);
      if (by_means) {
        mass = masses[key];
        tie = mass == cut.mass;
      }
    }
    const uint32_t ties = __ballot_sync(kFullWarp, tie);
    if (by_means && key < count) {
      const int32_t rank = ties_before + __popc(ties & ((1u << Lane()) - 1));
      kept = kept || mass > cut.mass || (tie && rank < cut.quota);
    }
    ties_before += __popc(ties);
    const uint32_t word = __ballot_sync(kFullWarp, kept);
    if (Lane() == 0) halves[half] = word;
  }
}

}  // namespace

cudaError_t LaunchLineMass(const FlexPrefillParams& params, cudaStream_t stream) {
  const auto grid = static_cast<unsigned>(int64_t{params.num_lists} * 2 * params.NumStripes());
  return cuda::LaunchDependent(LineMassKernel, grid, kStripe, 0, stream, params);
}

cudaError_t LaunchFlexDecision(const FlexPrefillParams& params, cudaStream_t stream) {
  return cuda::LaunchDependent(DecideKernel, static_cast<unsigned>(params.num_lists), kDecideThreads, 0, stream,
                               params);
}

cudaError_t LaunchFlexPrefill(const FlexPrefillParams& params, cudaStream_t stream) {
  const int64_t num_rows = int64_t{params.num_lists} * params.blocks.NumQueryBlocks();
  const auto row_grid = static_cast<unsigned>((num_rows * 32 + kRowThreads - 1) / kRowThreads);
  const auto lists = static_cast<unsigned>(params.num_lists);
  cudaError_t error = cuda::LaunchDependent(MapMassKernel, row_grid, kRowThreads, 0, stream, params);
  bool is_hopper = false;
  if (error == cudaSuccess) error = cuda::RunsHopperCode(reinterpret_cast<const void*>(FlexCutKernel), &is_hopper);
  if (error != cudaSuccess) return error;
  const bool many = std::max<int64_t>(params.num_lines, params.MapSize()) > kMassesOfOne;
  const int blocks = is_hopper && many ? kCutBlocks : 1;
  error = cuda::LaunchDependentClusters(FlexCutKernel, blocks, 3 * lists * static_cast<unsigned>(blocks), kCutThreads,
                                        0, stream, params);
  if (error != cudaSuccess) return error;
  return cuda::LaunchDependent(FlexBitmapsKernel, row_grid, kRowThreads, 0, stream, params);
}

}  // namespace headscope::kernels::selection
