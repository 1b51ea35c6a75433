// SPDX-License-Identifier: Apache-2.0
// Statistics of attention probabilities on the GPU: what analysis/ computes on the CPU, by the same definitions
// (docs/analysis.md), without ever holding seq_q x seq_k numbers.
//
// Method: every call is one pass of Q K^T on the tensor cores (mma.m16n8k16, fp32 accumulation), row tile by row tile,
// all heads in one launch; each statistic folds a tile of scores while it is in registers. p = exp(score - lse) with
// the LSE of the caller, so any row LSE that a trace recorded gives the probabilities that the trace means.
//
// What every call takes. problem: device pointers; q and k in bf16 or fp16, 16-byte aligned with strides that are
// multiples of 8 elements; head_dim a multiple of 16 up to 256; v is not read. A row attends to key c when c <= its
// position, c < seq_k and, with `window` > 0, position - c < window; problem.window is 0. Sinks (of at most 128 query
// heads) are a term of the LSE alone. lse [batch, num_qo_heads, seq_q] fp32, natural
// log. Outputs are device pointers, contiguous, written whole. `stream` is a cudaStream_t; calls are asynchronous,
// allocate nothing and can be captured in a CUDA graph. Results do not change from run to run: sums are taken in a
// fixed order or in fixed point.
//
// Accuracy. fp32 knows a score to 5e-7 of the largest |score| of the problem, and so p relative to itself. The errors
// given below therefore hold for scores up to 10; with larger ones, allow 1e-6 of the largest |score| where that is
// more (8e-5 at 80). They are against float64 with the same lse.
//
// Errors, before anything is launched: kInvalidArgument names the field, an array that the GPU cannot reach among them;
// kUnsupported for fp32 (the tensor cores would round it: use the CPU), another head_dim, misaligned tensors, a GPU
// older than compute capability 8.0 or with too little shared memory; kDeviceMissing without a GPU or in a build
// without CUDA.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

#include "kernels/attention_problem.h"
#include "kernels/sparse_index.h"
#include "kernels/status.h"

namespace headscope::kernels {

// lse of every row, its head's sink among the terms where the problem has sinks; otherwise -inf for a row that attends
// to nothing; NaN for one with NaN among its scores. wgmma on compute capability 9.0. Against float64: 5e-6 absolute
// plus 2e-6 of the largest |score|.
Status RowLseCuda(const AttentionProblem& problem, int32_t window, float* lse, void* stream);

// mass [batch, num_qo_heads, seq_q]: sum of p over those columns that the index keeps for the row and the row attends
// to; its least value over rows is the CRA (SampleAttention, section 3.3). The index's lists are trusted, as by
// AttendCuda. 64-row tiles run at half the rate of 128-row tiles. Against float64: relative 1e-5, plus 1e-7 absolute.
Status KeptMassCuda(const AttentionProblem& problem, int32_t window, const float* lse, const SparseIndexView& index,
                    float* mass, void* stream);

// Which pairs a profile counts. Far: column >= sink_tokens and position - column >= local_tokens; near: the others.
enum class LineRegion : int32_t { kAll = 0, kNear = 1, kFar = 2 };
struct LineOptions {
  LineRegion region = LineRegion::kAll;
  int32_t sink_tokens = 4;
  int32_t local_tokens = 128;
};
// columns [batch, num_qo_heads, seq_k]: p summed over the rows, per key column. distances [batch, num_qo_heads,
// first_position + seq_q]: the same per distance position - column. Summed in fixed point (2^-40), so independent of
// the order of blocks. Against float64: relative 2e-5, plus 2e-9 absolute.
Status LineMassCuda(const AttentionProblem& problem, int32_t window, const float* lse, const LineOptions& options,
                    double* columns, double* distances, void* stream);

// top_mass [batch, num_qo_heads, seq_q, kTopMassCounts]: sum of the row's 2^i largest p, i = 0 .. 10 (all of them when
// there are fewer). Exact selection; ties count as often as they occur. Against float64: relative 1e-5, plus 1e-7
// absolute. The workspace keeps 2048 candidates for each row that is in flight: 1 MiB per resident block, some 260 MiB
// on a GPU of 132 multiprocessors, whatever the lengths.
inline constexpr int32_t kTopMassCounts = 11;
Status TopMassWorkspaceBytes(const AttentionProblem& problem, int64_t* bytes);
Status TopMassCuda(const AttentionProblem& problem, int32_t window, const float* lse, float* top_mass, void* workspace,
                   int64_t workspace_bytes, void* stream);

// A grid of texels over the map: texel (i, j) covers rows [row_begin + i * 2^level, ..) and columns [column_begin + j *
// 2^level, ..), 2^level of each; what lies outside the map counts nothing. A tile of analysis/types/tile.h is the grid
// of 256 x 256 texels at row_begin = y * 256 * 2^level, column_begin = x * 256 * 2^level. At most 65535 heads a call.
enum class TexelValue : int32_t {
  kMaxLog2 = 0,  // log2 of the largest p; -inf where no pair is attended
  kSum = 1,      // sum of p
};
struct TexelRequest {
  TexelValue value = TexelValue::kMaxLog2;
  int32_t level = 0;                          // 0 .. 20
  int64_t row_begin = 0, column_begin = 0;    // multiples of 2^level
  int32_t num_rows = 256, num_columns = 256;  // texels
};
// texels [batch, num_qo_heads, num_rows, num_columns] fp32. Against float64: 1e-4 in log2, for p >= 2^-120; of a sum,
// pairs whose p lies below 2^-126 may be missing, which fp32 takes for 0.
Status TexelsCuda(const AttentionProblem& problem, int32_t window, const float* lse, const TexelRequest& request,
                  float* texels, void* stream);

// What a head's statistics ask of single rows beyond masses: of numbers that take a row's whole list of scores. One
// head of one sequence.
inline constexpr int32_t kMostMassTargets = 4;
inline constexpr int32_t kMostBestCounts = 2;
inline constexpr int32_t kRetrievalTokens = 4;
inline constexpr int32_t kStatisticsBlock = 64;  // positions of a query block, and keys of a key block
struct RowNumbersRequest {
  // Far: column >= sink_columns and distance >= local_tokens.
  int32_t sink_columns = 4;
  int32_t local_tokens = 128;
  std::vector<double> targets;  // of kept mass; at most kMostMassTargets
  // Best columns by all components of q against those by its r of largest magnitude; at most kMostBestCounts k.
  std::vector<int32_t> agreement_r, agreement_k;
  std::vector<int32_t> agreement_rows;  // for these rows alone, ascending
  // The far mass of a block of query positions by key blocks, one query block after the other, from 0.
  std::function<void(int64_t query_block, const float* masses, int64_t num_key_blocks)> take_blocks;
  std::stop_token stop = {};
};
struct RowNumbers {
  std::vector<float> entropy;  // [rows] nats
  std::vector<float> sink_mass, local_mass;
  std::vector<float> retrieval_mass;  // of the kRetrievalTokens largest far p
  std::vector<int32_t> needed;        // [rows, targets] fewest largest p whose sum reaches the target; else all
  // [agreement_rows, r, k] columns that are among the k best both ways (equal scores: the lower one); -1: no more than
  // k columns.
  std::vector<int32_t> common;
};

// The same for host data, for the application: Q, K and LSE of a problem stay on the current GPU while the object
// lives. Calls are synchronous, allocate what they need for their duration and may come from any thread.
class CudaScores {
 public:
  // host_problem: host pointers, any strides; as above otherwise. host_lse null: computed here. Memory: Q, K and LSE.
  static Status Create(const AttentionProblem& host_problem, int32_t window, const float* host_lse,
                       std::unique_ptr<CudaScores>* made);
  ~CudaScores();
  CudaScores(const CudaScores&) = delete;
  CudaScores& operator=(const CudaScores&) = delete;

  // Outputs are host pointers of the shapes above. The index is validated.
  Status RowLse(float* lse) const;
  Status KeptMass(const SparseIndexView& host_index, float* mass) const;
  Status LineMass(const LineOptions& options, double* columns, double* distances) const;
  Status TopMass(float* top_mass) const;
  Status Texels(const TexelRequest& request, float* texels) const;
  // The same with any edges, of one head of one sequence: texel (i, j) covers rows [row_edges[i], row_edges[i + 1]) and
  // columns likewise; edges rise (equal ones make an empty texel) and lie in the map. texels [texel rows, texel
  // columns]. Memory: at most 256 MiB.
  Status TexelsBetween(TexelValue value, const std::vector<int64_t>& row_edges,
                       const std::vector<int64_t>& column_edges, double* texels) const;
  // Memory: twice 256 MiB (more from 512K keys on) and some bytes a row. kUnsupported for more targets or counts than
  // the limits above; kCancelled.
  Status RowNumbers(const RowNumbersRequest& request, kernels::RowNumbers* numbers) const;

 private:
  CudaScores() = default;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headscope::kernels
