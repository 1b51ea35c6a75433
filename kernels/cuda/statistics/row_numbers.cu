// SPDX-License-Identifier: Apache-2.0
// Numbers of single rows that one fold over a tile of scores cannot give: how many of the largest probabilities reach a
// target, which keys are a row's best, the mass of blocks of keys.
//
// Some rows at a time, the scores go to the GPU's memory as they are (a chunk of at most 256 MiB), and a block of
// threads for each row reads them as often as it takes. A float orders as its bits do. Where masses reach a target is
// found digit by digit, from the highest one down: three readings add up the mass of each value of a digit, for all
// targets, in fixed point, whose sums are exact in any order. The k-th best of a few rows is found bit by bit, by
// counts of what reaches a bound. Every pair is written once and read five times.
#include <cuda_runtime.h>

#include <algorithm>
#include <string>

#include "device_memory.h"
#include "kernels/stop_status.h"
#include "shared_memory.h"
#include "statistics/mass_digits.cuh"
#include "statistics/row_numbers.h"
#include "statistics/score_rows.cuh"

namespace headscope::kernels {
namespace statistics {
namespace {

constexpr float kLog2E = 1.442695040888963407f;
constexpr float kLn2 = 0.693147180559945309f;
constexpr int kBlockGroups = 4;    // key blocks of a block that adds them up
constexpr int kNumbersPerRow = 4;  // entropy, sink, local and retrieval mass

// A chunk's rows, whose positions are consecutive, and the scores of each from column 0 on: base 2, and of columns that
// the row does not attend to whatever was there before.
struct Chunk {
  const float* scores;  // [num_rows, pitch]
  int64_t pitch;
  int num_rows, first_position, seq_k, window;
  int sink_columns, local_tokens;
};

struct RowExtent {
  int position, begin, end, far_begin, far_end;

  __device__ RowExtent(const Chunk& chunk, int row) {
    position = chunk.first_position + row;
    end = min(position + 1, chunk.seq_k);
    begin = min(chunk.window > 0 ? max(position - chunk.window + 1, 0) : 0, end);
    far_begin = min(max(chunk.sink_columns, begin), end);
    far_end = min(max(position - chunk.local_tokens + 1, far_begin), end);
  }
};

__device__ __forceinline__ float InBase2(float natural) {
  return natural == -INFINITY ? INFINITY : natural * kLog2E;
}

// Sums over the block, the same in every thread and from run to run.
template <int kCount, typename T>
__device__ __forceinline__ void BlockSums(T (&values)[kCount]) {
  __shared__ T parts[kCount][kRowWarps];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) values[i] += __shfl_xor_sync(~0u, values[i], offset);
  }
  __syncthreads();  // the parts of the call before have been read
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (lane == 0) parts[i][warp] = values[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    T sum = 0;
    for (int part = 0; part < kRowWarps; ++part) sum += parts[i][part];
    values[i] = sum;
  }
}

__device__ __forceinline__ unsigned long long BlockMax(unsigned long long value) {
  __shared__ unsigned long long parts[kRowWarps];
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    const unsigned long long other = __shfl_xor_sync(~0u, value, offset);
    value = other > value ? other : value;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  for (int part = 0; part < kRowWarps; ++part) value = parts[part] > value ? parts[part] : value;
  return value;
}

// Queries of some rows with all but their r components of largest magnitude zeroed (equal ones: the lower index stays).
// A block a row, a thread a component.
__global__ void KeepComponentsKernel(const uint16_t* q, const int* rows, int64_t row_stride, int head_dim, int r,
                                     uint16_t* kept) {
  extern __shared__ int magnitudes[];
  const int component = static_cast<int>(threadIdx.x);
  const uint16_t bits = q[rows[blockIdx.x] * row_stride + component];
  const int magnitude = bits & 0x7FFF;  // orders as the values' magnitudes do
  magnitudes[component] = magnitude;
  __syncthreads();
  int before = 0;
  for (int other = 0; other < head_dim; ++other) {
    before += magnitudes[other] > magnitude || (magnitudes[other] == magnitude && other < component) ? 1 : 0;
  }
  kept[int64_t{blockIdx.x} * head_dim + component] = before < r ? bits : uint16_t{0};
}

struct Targets {
  int count;
  double mass[kMostMassTargets];
};

// Puts p among the four largest.
__device__ __forceinline__ void Insert(float (&best)[kRetrievalTokens], float p) {
  if (p <= best[kRetrievalTokens - 1]) return;
#pragma unroll
  for (int i = 0; i < kRetrievalTokens; ++i) {
    const float larger = fmaxf(best[i], p);
    p = fminf(best[i], p);
    best[i] = larger;
  }
}

// numbers: [rows, kNumbersPerRow]; needed: [rows, targets.count].
__global__ void __launch_bounds__(kRowThreads)
    RowNumbersKernel(Chunk chunk, const float* lse, Targets targets, float* numbers, int* needed) {
  const int row = static_cast<int>(blockIdx.x);
  const RowExtent extent(chunk, row);
  const float* const scores = chunk.scores + row * chunk.pitch;
  const float row_lse = InBase2(lse[row]);
  const int first = extent.begin + static_cast<int>(threadIdx.x);
  extern __shared__ __align__(8) char shared[];  // 48 KB, more than a launch has unasked
  DigitTables& tables = *reinterpret_cast<DigitTables*>(shared);
  for (int i = static_cast<int>(threadIdx.x); i < kMostDigits; i += kRowThreads) {
    tables.mass[i] = 0;
    tables.count[i] = 0;
  }
  __syncthreads();

  float entropy = 0, sink = 0, local = 0;
  float best[kRetrievalTokens] = {};
  for (int column = first; column < extent.end; column += kRowThreads) {
    const float below = scores[column] - row_lse;
    const float p = Exp2(below);
    entropy -= p * below;
    if (column < chunk.sink_columns) sink += p;
    if (extent.position - column < chunk.local_tokens) local += p;
    if (column >= extent.far_begin && column < extent.far_end) Insert(best, p);
    const unsigned digit = min(__float_as_uint(p) >> 20, static_cast<unsigned>(kMostDigits - 1));
    atomicAdd(&tables.mass[digit], static_cast<unsigned long long>(p * kMassUnit));
    atomicAdd(&tables.count[digit], 1);
  }
  // The sums' barriers stand between the tables and their readers.
  double sums[3] = {static_cast<double>(entropy), static_cast<double>(sink), static_cast<double>(local)};
  BlockSums(sums);
  float retrieval = 0;
  for (int i = 0; i < kRetrievalTokens; ++i) {
    // The largest of what the threads still have, and whose it is.
    const unsigned long long own = static_cast<unsigned long long>(__float_as_uint(best[0])) << 32 | threadIdx.x;
    const unsigned long long most = BlockMax(own);
    retrieval += __uint_as_float(static_cast<unsigned>(most >> 32));
    if (most == own) {
#pragma unroll
      for (int j = 0; j + 1 < kRetrievalTokens; ++j) best[j] = best[j + 1];
      best[kRetrievalTokens - 1] = 0;
    }
  }
  if (threadIdx.x == 0) {
    float* const to = numbers + int64_t{row} * kNumbersPerRow;
    to[0] = static_cast<float>(sums[0]) * kLn2;
    to[1] = static_cast<float>(sums[1]);
    to[2] = static_cast<float>(sums[2]);
    to[3] = retrieval;
  }

  // The largest bound, as bits, whose probabilities and all above sum to the target.
  TargetBound bounds[kMostMassTargets] = {};
  unsigned long long wanted[kMostMassTargets];
#pragma unroll
  for (int i = 0; i < kMostMassTargets; ++i) {
    // A target of 0 is reached by the largest.
    wanted[i] =
        i < targets.count ? max(static_cast<unsigned long long>(ceil(targets.mass[i] / kPerMassUnit)), 1ull) : 0;
  }
  // The first digit's table was made above.
#pragma unroll
  for (int i = 0; i < kMostMassTargets; ++i) {
    if (i < targets.count) FindDigit<kDigitBits[0]>(tables.mass, tables.count, wanted[i], 20, &bounds[i]);
  }
#pragma unroll
  for (int shift = 10; shift >= 0; shift -= 10) {
    __syncthreads();  // the tables have been read
    for (int i = static_cast<int>(threadIdx.x); i < kMostMassTargets << 10; i += kRowThreads) {
      tables.mass[i] = 0;
      tables.count[i] = 0;
    }
    __syncthreads();
    for (int column = first; column < extent.end; column += kRowThreads) {
      const float p = Exp2(scores[column] - row_lse);
      const unsigned bits = __float_as_uint(p);
#pragma unroll
      for (int i = 0; i < kMostMassTargets; ++i) {
        if (!bounds[i].reached || bits >> (shift + 10) != bounds[i].bits >> (shift + 10)) continue;
        const int place = i << 10 | (bits >> shift & 1023u);
        atomicAdd(&tables.mass[place], static_cast<unsigned long long>(p * kMassUnit));
        atomicAdd(&tables.count[place], 1);
      }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kMostMassTargets; ++i) {
      if (!bounds[i].reached) continue;  // the same for all threads
      FindDigit<kDigitBits[1]>(tables.mass + (i << 10), tables.count + (i << 10), wanted[i], shift, &bounds[i]);
    }
  }
  if (threadIdx.x == 0) {
#pragma unroll
    for (int i = 0; i < kMostMassTargets; ++i) {
      if (i >= targets.count) continue;
      int count = extent.end - extent.begin;  // all of them together do not reach it
      if (bounds[i].reached) {
        // How many of those equal to the bound are needed as well.
        const double missing = targets.mass[i] - static_cast<double>(bounds[i].mass_above) * kPerMassUnit;
        const double each = static_cast<double>(__uint_as_float(bounds[i].bits));
        count = min(count, bounds[i].count_above + max(1, static_cast<int>(ceil(missing / each))));
      }
      needed[int64_t{row} * targets.count + i] = count;
    }
  }
}

// Far mass of blocks of 64 query positions and 64 keys. Grid (groups of key blocks, query blocks of the chunk); masses
// [query blocks, num_key_blocks].
__global__ void __launch_bounds__(kBlockGroups* kStatisticsBlock)
    BlockMassKernel(Chunk chunk, const float* lse, int num_key_blocks, float* masses) {
  __shared__ float halves[kBlockGroups][2];
  const int group = static_cast<int>(threadIdx.x) / kStatisticsBlock;
  const int key_block = static_cast<int>(blockIdx.x) * kBlockGroups + group;
  const int column = key_block * kStatisticsBlock + static_cast<int>(threadIdx.x) % kStatisticsBlock;
  const int first_block = chunk.first_position / kStatisticsBlock;
  const int position = (first_block + static_cast<int>(blockIdx.y)) * kStatisticsBlock;
  const int row_begin = max(position - chunk.first_position, 0);
  const int row_end = min(position + kStatisticsBlock - chunk.first_position, chunk.num_rows);
  float sum = 0;
  for (int row = row_begin; row < row_end; ++row) {
    const RowExtent extent(chunk, row);
    if (column < extent.far_begin || column >= extent.far_end) continue;
    sum += Exp2(chunk.scores[row * chunk.pitch + column] - InBase2(lse[row]));
  }
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
  if (threadIdx.x % 32 == 0) halves[group][threadIdx.x / 32 % 2] = sum;
  __syncthreads();
  if (threadIdx.x % kStatisticsBlock == 0 && key_block < num_key_blocks) {
    masses[int64_t{blockIdx.y} * num_key_blocks + key_block] = halves[group][0] + halves[group][1];
  }
}

struct Counts {
  int count;
  int k[kMostBestCounts];
};

// A row's k best columns: those whose order key is above `least`, and those that equal it left of `tie_end`.
struct Best {
  unsigned least;
  int tie_end;

  __device__ bool Has(unsigned key, int column) const { return key > least || (key == least && column < tie_end); }
};

// Orders as the float does.
__device__ __forceinline__ unsigned OrderKey(float value) {
  const unsigned bits = __float_as_uint(value);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// The next two take some rows of a head, whose scores alone are in the chunk: block b has row rows[b], counted from the
// chunk's first position.
//
// best: [rows, counts.count]; untouched where the row has no more columns than k.
__global__ void __launch_bounds__(kRowThreads)
    BestColumnsKernel(Chunk chunk, const int* rows, Counts counts, Best* best) {
  const int number = static_cast<int>(blockIdx.x), row = rows[number];
  const RowExtent extent(chunk, row);
  const float* const scores = chunk.scores + number * chunk.pitch;
  const int first = extent.begin + static_cast<int>(threadIdx.x);
  const int num_columns = extent.end - extent.begin;

  unsigned least[kMostBestCounts] = {};
  bool exact[kMostBestCounts];  // just k reach `least`
  int open = 0;
#pragma unroll
  for (int i = 0; i < kMostBestCounts; ++i) {
    exact[i] = i >= counts.count || num_columns <= counts.k[i];
    open += exact[i] ? 0 : 1;
  }
  for (int bit = 31; bit >= 0 && open > 0; --bit) {
    int reach[kMostBestCounts] = {};
    for (int column = first; column < extent.end; column += kRowThreads) {
      const unsigned key = OrderKey(scores[column]);
#pragma unroll
      for (int i = 0; i < kMostBestCounts; ++i) reach[i] += key >= (least[i] | 1u << bit) ? 1 : 0;
    }
    BlockSums(reach);
#pragma unroll
    for (int i = 0; i < kMostBestCounts; ++i) {
      if (exact[i] || reach[i] < counts.k[i]) continue;
      least[i] |= 1u << bit;
      if (reach[i] > counts.k[i]) continue;
      exact[i] = true;
      --open;
    }
  }
#pragma unroll
  for (int i = 0; i < kMostBestCounts; ++i) {
    if (i >= counts.count || num_columns <= counts.k[i]) continue;  // the same for all threads
    Best found{least[i], extent.end};
    if (!exact[i]) {
      // More columns than are wanted equal the k-th largest: the lower ones are taken.
      int above[1] = {0};
      for (int column = first; column < extent.end; column += kRowThreads) {
        above[0] += OrderKey(scores[column]) > found.least ? 1 : 0;
      }
      BlockSums(above);
      const int wanted = counts.k[i] - above[0];
      int low = extent.begin, high = extent.end;  // the first column before which there are enough lies in (low, high]
      while (high - low > 1) {
        const int middle = low + (high - low) / 2;
        int equal[1] = {0};
        for (int column = first; column < middle; column += kRowThreads) {
          equal[0] += OrderKey(scores[column]) == found.least ? 1 : 0;
        }
        BlockSums(equal);
        (equal[0] >= wanted ? high : low) = middle;
      }
      found.tie_end = high;
    }
    if (threadIdx.x == 0) best[int64_t{number} * counts.count + i] = found;
  }
}

// How many of a row's best columns by `chunk` are also its best by `estimates`; -1 where the row has no more columns
// than k. common: of the first row and this r; rows are `stride` apart.
__global__ void __launch_bounds__(kRowThreads)
    CommonColumnsKernel(Chunk chunk, const int* rows, const float* estimates, Counts counts, const Best* exact,
                        const Best* estimated, int* common, int stride) {
  const int number = static_cast<int>(blockIdx.x), row = rows[number];
  const RowExtent extent(chunk, row);
  int both[kMostBestCounts] = {};
  Best by_score[kMostBestCounts], by_estimate[kMostBestCounts];
#pragma unroll
  for (int i = 0; i < kMostBestCounts; ++i) {
    const bool asked = i < counts.count && extent.end - extent.begin > counts.k[i];
    by_score[i] = asked ? exact[int64_t{number} * counts.count + i] : Best{~0u, 0};
    by_estimate[i] = asked ? estimated[int64_t{number} * counts.count + i] : Best{~0u, 0};
  }
  for (int column = extent.begin + static_cast<int>(threadIdx.x); column < extent.end; column += kRowThreads) {
    const unsigned score = OrderKey(chunk.scores[number * chunk.pitch + column]);
    const unsigned estimate = OrderKey(estimates[number * chunk.pitch + column]);
#pragma unroll
    for (int i = 0; i < kMostBestCounts; ++i) {
      both[i] += by_score[i].Has(score, column) && by_estimate[i].Has(estimate, column) ? 1 : 0;
    }
  }
  BlockSums(both);
  if (threadIdx.x == 0) {
#pragma unroll
    for (int i = 0; i < kMostBestCounts; ++i) {
      if (i >= counts.count) continue;
      common[int64_t{number} * stride + i] = extent.end - extent.begin > counts.k[i] ? both[i] : -1;
    }
  }
}

Status Launched(const char* kernel, const AttentionProblem& problem) {
  return CudaStatus(cudaGetLastError(), std::string(kernel) + " (" + Describe(problem) + ")");
}

template <typename T>
Status Allocate(int64_t count, DeviceMemory* memory, T** array) {
  Status status = AllocateOnDevice(std::max<int64_t>(count, 1) * int64_t{sizeof(T)}, "the statistics of rows", memory);
  if (status.ok()) *array = static_cast<T*>(memory->get());
  return status;
}

template <typename T>
Status Fetch(const T* device, int64_t count, std::vector<T>* host) {
  host->resize(static_cast<size_t>(count));
  if (count == 0) return {};
  return CudaStatus(cudaMemcpy(host->data(), device, static_cast<size_t>(count) * sizeof(T), cudaMemcpyDeviceToHost),
                    "computing the statistics of rows on the GPU");
}

Status CheckRequest(const AttentionProblem& problem, const RowNumbersRequest& request) {
  if (problem.batch != 1 || problem.num_qo_heads != 1) {
    return {StatusCode::kUnsupported, "the statistics of rows are of one head of one sequence, and the problem has " +
                                          std::to_string(problem.batch) + " x " + std::to_string(problem.num_qo_heads) +
                                          "; compute this on the CPU."};
  }
  if (request.targets.size() > kMostMassTargets) {
    return {StatusCode::kUnsupported, std::to_string(request.targets.size()) +
                                          " targets of kept mass are more than the " +
                                          std::to_string(kMostMassTargets) + " that the GPU takes at once"};
  }
  if (!request.agreement_r.empty() && request.agreement_k.size() > kMostBestCounts) {
    return {StatusCode::kUnsupported, std::to_string(request.agreement_k.size()) +
                                          " numbers of best keys are more than the " + std::to_string(kMostBestCounts) +
                                          " that the GPU takes at once"};
  }
  for (const int32_t k : request.agreement_k) {
    if (k < 1) return {StatusCode::kInvalidArgument, "agreement_k is " + std::to_string(k) + ": must be 1 or more."};
  }
  for (size_t i = 0; i < request.agreement_rows.size(); ++i) {
    const int32_t row = request.agreement_rows[i], before = i == 0 ? -1 : request.agreement_rows[i - 1];
    if (row <= before || row >= problem.seq_q) {
      return {StatusCode::kInvalidArgument, "agreement_rows has " + std::to_string(row) +
                                                ": rows must rise and lie in 0 .. " +
                                                std::to_string(problem.seq_q - 1) + "."};
    }
  }
  if (request.sink_columns < 0 || request.local_tokens < 0) {
    return {StatusCode::kInvalidArgument, "sink_columns is " + std::to_string(request.sink_columns) +
                                              " and local_tokens " + std::to_string(request.local_tokens) +
                                              ": both must be 0 or more."};
  }
  return {};
}

// The arrays of a pass, all on the GPU.
class Pass {
 public:
  Pass(const AttentionProblem& problem, const ScoreParams& params, const float* lse, const RowNumbersRequest& request)
      : problem_(problem), params_(params), lse_(lse), request_(request) {
    pitch_ = ScorePitch(params);
    chunk_rows_ = ScoreChunkRows(params);
    targets_.count = static_cast<int>(request.targets.size());
    std::copy(request.targets.begin(), request.targets.end(), targets_.mass);
    const bool agrees = !request.agreement_r.empty() && !request.agreement_rows.empty();
    counts_.count = agrees ? static_cast<int>(request.agreement_k.size()) : 0;
    std::copy_n(request.agreement_k.begin(), counts_.count, counts_.k);
    num_key_blocks_ = (params.seq_k + kStatisticsBlock - 1) / kStatisticsBlock;
  }

  Status Prepare() {
    const int64_t rows = params_.seq_q;
    const int64_t chunk_blocks = chunk_rows_ / kStatisticsBlock + 1;
    // One statement each: nvcc takes a Status that is assigned for one that is dropped.
    if (Status status = Allocate(chunk_rows_ * pitch_, &scores_memory_, &scores_); !status.ok()) return status;
    if (Status status = Allocate(rows * kNumbersPerRow, &numbers_memory_, &numbers_); !status.ok()) return status;
    if (Status status = Allocate(rows * targets_.count, &needed_memory_, &needed_); !status.ok()) return status;
    if (Status status = Allocate(chunk_blocks * num_key_blocks_, &blocks_memory_, &blocks_); !status.ok())
      return status;
    if (Status status = CudaStatus(AllowSharedMemory(RowNumbersKernel), "asking for the tables' shared memory");
        !status.ok()) {
      return status;
    }
    if (counts_.count == 0) return {};
    const auto agreeing = static_cast<int64_t>(request_.agreement_rows.size());
    const int64_t at_once = std::min(agreeing, chunk_rows_);
    if (Status status = Allocate(agreeing, &rows_memory_, &rows_); !status.ok()) return status;
    if (Status status = CopyToDevice(request_.agreement_rows.data(), agreeing * int64_t{sizeof(int)}, rows_);
        !status.ok()) {
      return status;
    }
    if (Status status = Allocate(at_once * pitch_, &estimates_memory_, &estimates_); !status.ok()) return status;
    if (Status status = Allocate(at_once * params_.head_dim, &components_memory_, &components_); !status.ok())
      return status;
    if (Status status = Allocate(at_once * counts_.count, &exact_memory_, &exact_); !status.ok()) return status;
    if (Status status = Allocate(at_once * counts_.count, &estimated_memory_, &estimated_); !status.ok()) return status;
    return Allocate(agreeing * Pairs(), &common_memory_, &common_);
  }

  // Chunks end where blocks of positions do.
  int64_t EndOfChunk(int64_t begin) const {
    const int64_t position = params_.first_position + begin;
    const int64_t end = position / kStatisticsBlock * kStatisticsBlock + chunk_rows_ - params_.first_position;
    return std::min<int64_t>(end, params_.seq_q);
  }

  Status Run(int64_t begin, int64_t end) {
    const ScoreParams params = RowsOf(params_, begin, end);
    const Chunk chunk{scores_,      pitch_,        params.seq_q,          params.first_position,
                      params.seq_k, params.window, request_.sink_columns, request_.local_tokens};
    const auto rows = static_cast<unsigned>(params.seq_q);
    if (Status status = ScoreRows(problem_, params, scores_); !status.ok()) return status;
    RowNumbersKernel<<<rows, kRowThreads, sizeof(DigitTables)>>>(
        chunk, lse_ + begin, targets_, numbers_ + begin * kNumbersPerRow, needed_ + begin * targets_.count);
    if (Status status = Launched("RowNumbersKernel", problem_); !status.ok()) return status;
    const int64_t num_blocks = NumBlocks(begin, end);
    BlockMassKernel<<<dim3(static_cast<unsigned>((num_key_blocks_ + kBlockGroups - 1) / kBlockGroups),
                           static_cast<unsigned>(num_blocks)),
                      kBlockGroups * kStatisticsBlock>>>(chunk, lse_ + begin, num_key_blocks_, blocks_);
    if (Status status = Launched("BlockMassKernel", problem_); !status.ok()) return status;
    std::vector<float> masses;
    if (Status status = Fetch(blocks_, num_blocks * num_key_blocks_, &masses); !status.ok()) return status;
    for (int64_t block = 0; block < num_blocks; ++block) {
      request_.take_blocks(next_block_++, masses.data() + block * num_key_blocks_, num_key_blocks_);
    }
    return {};
  }

  // What some components of queries find of what all of them do, for as many of the rows that are asked about at a time
  // as a chunk has room for.
  Status Agree() const {
    const auto agreeing = counts_.count == 0 ? 0 : static_cast<int64_t>(request_.agreement_rows.size());
    for (int64_t begin = 0; begin < agreeing; begin += chunk_rows_) {
      if (request_.stop.stop_requested()) return Stopped();
      const auto count = static_cast<int>(std::min(chunk_rows_, agreeing - begin));
      const auto blocks = static_cast<unsigned>(count);
      const int last_row = request_.agreement_rows[static_cast<size_t>(begin + count - 1)];
      const Chunk chunk{scores_,
                        pitch_,
                        count,
                        params_.first_position,
                        params_.seq_k,
                        params_.window,
                        request_.sink_columns,
                        request_.local_tokens};
      Chunk estimates = chunk;
      estimates.scores = estimates_;
      const int* const rows = rows_ + begin;
      if (Status status = ScoreSome(rows, count, last_row, params_.head_dim, params_.cap, scores_); !status.ok())
        return status;
      BestColumnsKernel<<<blocks, kRowThreads>>>(chunk, rows, counts_, exact_);
      if (Status status = Launched("BestColumnsKernel", problem_); !status.ok()) return status;
      for (size_t i = 0; i < request_.agreement_r.size(); ++i) {
        // Ranks alone matter: no cap.
        if (Status status = ScoreSome(rows, count, last_row, request_.agreement_r[i], 0, estimates_); !status.ok())
          return status;
        BestColumnsKernel<<<blocks, kRowThreads>>>(estimates, rows, counts_, estimated_);
        if (Status status = Launched("BestColumnsKernel", problem_); !status.ok()) return status;
        CommonColumnsKernel<<<blocks, kRowThreads>>>(
            chunk, rows, estimates_, counts_, exact_, estimated_,
            common_ + begin * Pairs() + static_cast<int64_t>(i) * counts_.count, static_cast<int>(Pairs()));
        if (Status status = Launched("CommonColumnsKernel", problem_); !status.ok()) return status;
      }
    }
    return {};
  }

  Status Finish(RowNumbers* numbers) const {
    const int64_t rows = params_.seq_q;
    std::vector<float> together;
    if (Status status = Fetch(numbers_, rows * kNumbersPerRow, &together); !status.ok()) return status;
    if (Status status = Fetch(needed_, rows * targets_.count, &numbers->needed); !status.ok()) return status;
    if (Status status =
            Fetch(common_, counts_.count == 0 ? 0 : static_cast<int64_t>(request_.agreement_rows.size()) * Pairs(),
                  &numbers->common);
        !status.ok())
      return status;
    for (int64_t row = 0; row < rows; ++row) {
      const float* const from = together.data() + row * kNumbersPerRow;
      numbers->entropy.push_back(from[0]);
      numbers->sink_mass.push_back(from[1]);
      numbers->local_mass.push_back(from[2]);
      numbers->retrieval_mass.push_back(from[3]);
    }
    return {};
  }

 private:
  int64_t Pairs() const { return static_cast<int64_t>(request_.agreement_r.size()) * counts_.count; }

  int64_t NumBlocks(int64_t begin, int64_t end) const {
    const int64_t first = (params_.first_position + begin) / kStatisticsBlock;
    return (params_.first_position + end - 1) / kStatisticsBlock - first + 1;
  }

  // Scores of some rows, by the r components of largest magnitude of each query. rows: `count` of them, on the GPU.
  Status ScoreSome(const int* rows, int count, int last_row, int32_t r, float cap, float* scores) const {
    KeepComponentsKernel<<<static_cast<unsigned>(count), static_cast<unsigned>(params_.head_dim),
                           static_cast<size_t>(params_.head_dim) * sizeof(int)>>>(params_.q, rows, params_.q_row_stride,
                                                                                  params_.head_dim, r, components_);
    if (Status status = Launched("KeepComponentsKernel", problem_); !status.ok()) return status;
    // As if they stood one behind the other in front of the last: each gets scores of all columns that it sees where it
    // really stands, and of some more.
    ScoreParams params = params_;
    params.first_position += last_row + 1 - count;
    params.seq_q = count;
    params.window = 0;
    params.q = components_;
    params.q_row_stride = params.head_dim;
    params.cap = cap;
    return ScoreRows(problem_, params, scores);
  }

  const AttentionProblem& problem_;
  const ScoreParams& params_;
  const float* const lse_;
  const RowNumbersRequest& request_;
  int64_t pitch_ = 0, chunk_rows_ = 0, next_block_ = 0;
  int num_key_blocks_ = 0;
  Targets targets_{};
  Counts counts_{};
  DeviceMemory scores_memory_, estimates_memory_, components_memory_, numbers_memory_, needed_memory_, blocks_memory_,
      exact_memory_, estimated_memory_, common_memory_, rows_memory_;
  float *scores_ = nullptr, *estimates_ = nullptr, *numbers_ = nullptr, *blocks_ = nullptr;
  uint16_t* components_ = nullptr;
  int *needed_ = nullptr, *common_ = nullptr, *rows_ = nullptr;
  Best *exact_ = nullptr, *estimated_ = nullptr;
};

}  // namespace

Status RowNumbersOnDevice(const AttentionProblem& problem, int32_t window, const float* lse,
                          const RowNumbersRequest& request, RowNumbers* numbers) {
  if (Status status = CheckRequest(problem, request); !status.ok()) return status;
  ScoreParams params;
  if (Status status = MakeScoreParams(problem, window, 0, {{"lse", lse}}, nullptr, &params); !status.ok()) {
    return status;
  }
  Pass pass(problem, params, lse, request);
  if (Status status = pass.Prepare(); !status.ok()) return status;
  for (int64_t begin = 0; begin < params.seq_q;) {
    if (request.stop.stop_requested()) return Stopped();
    const int64_t end = pass.EndOfChunk(begin);
    if (Status status = pass.Run(begin, end); !status.ok()) return status;
    begin = end;
  }
  if (Status status = pass.Agree(); !status.ok()) return status;
  return pass.Finish(numbers);
}

}  // namespace statistics
}  // namespace headscope::kernels
