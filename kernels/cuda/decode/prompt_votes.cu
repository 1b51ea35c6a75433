// SPDX-License-Identifier: Apache-2.0
// SnapKV's choice on the GPU (kernels/cuda_prompt_votes.h): what lies behind the probabilities' sums.
#include <algorithm>
#include <string>

#include "decode/quest_params.h"
#include "dependent_launch.cuh"
#include "device_memory.h"
#include "device_pointers.h"
#include "kernels/cuda_prompt_votes.h"
#include "kernels/cuda_resources.h"
#include "kernels/cuda_statistics.h"
#include "problem_check.h"

namespace headscope::kernels {
namespace {

constexpr int kSmoothThreads = 256, kMostNeighbours = 1025;

struct SmoothParams {
  const double* columns;  // [batch, num_qo_heads, seq_k]
  float* scores;          // [lists, seq_k]
  int32_t group, seq_k, before, kernel;
  float voters;  // rows * group
  bool maximum;
};

// The votes of a block's tokens and of their neighbours, then their smoothing, in the CPU's order of additions.
__global__ void __launch_bounds__(kSmoothThreads) SmoothVotesKernel(const SmoothParams p) {
  __shared__ float votes[kSmoothThreads + kMostNeighbours];
  const int64_t list = blockIdx.y;
  const int first = static_cast<int>(blockIdx.x) * kSmoothThreads, thread = static_cast<int>(threadIdx.x);
  const int begin = first - p.kernel / 2;  // of the votes
  cuda::LetNextKernelStart();
  for (int i = thread; i < kSmoothThreads + p.kernel - 1; i += kSmoothThreads) {
    const int token = begin + i;
    float vote = 0;
    if (token >= 0 && token < p.before) {
      const double* const column = p.columns + list * p.group * p.seq_k + token;
      for (int head = 0; head < p.group; ++head) vote += static_cast<float>(column[int64_t{head} * p.seq_k]) / p.voters;
    }
    votes[i] = vote;
  }
  __syncthreads();
  if (first + thread >= p.before) return;
  float pooled = 0;
  for (int near = 0; near < p.kernel; ++near) {
    const float vote = votes[thread + near];
    pooled = p.maximum ? fmaxf(pooled, vote) : pooled + vote / static_cast<float>(p.kernel);
  }
  p.scores[list * p.seq_k + first + thread] = pooled;
}

// The chosen tokens, and behind them the window's.
__global__ void JoinWindowKernel(const int32_t* picked, int32_t picks, int32_t before, int32_t kept, int32_t* tokens) {
  cuda::WaitForKernelBefore();
  const int64_t list = blockIdx.y;
  const auto i = static_cast<int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= kept) return;
  tokens[list * kept + i] = i < picks ? picked[list * picks + i] : before + (i - picks);
}

struct Scratch {
  int64_t lse = 0, distances, scores, page_begin, picked, total;  // the columns stand first
};

Scratch LayOut(const AttentionProblem& prompt, const PromptVotes& votes) {
  const int64_t heads = int64_t{prompt.batch} * prompt.num_qo_heads;
  const int64_t lists = int64_t{prompt.batch} * prompt.num_kv_heads;
  Scratch scratch;
  scratch.distances = ArrayBytes(heads * prompt.seq_k * 8);
  scratch.lse = scratch.distances + ArrayBytes(heads * (int64_t{prompt.first_position} + prompt.seq_q) * 8);
  scratch.scores = scratch.lse + ArrayBytes(heads * prompt.seq_q * 4);
  scratch.page_begin = scratch.scores + ArrayBytes(lists * prompt.seq_k * 4);
  scratch.picked = scratch.page_begin + ArrayBytes((lists + 1) * 8);
  scratch.total = scratch.picked + ArrayBytes(lists * votes.kept * 4);
  return scratch;
}

Status CheckVotes(const AttentionProblem& prompt, const PromptVotes& votes) {
  const auto invalid = [](const std::string& message) { return Status(StatusCode::kInvalidArgument, message); };
  if (votes.window < 1) return invalid("window " + std::to_string(votes.window) + ": it must be at least 1");
  if (votes.kernel < 1 || votes.kernel > kMostNeighbours)
    return invalid("kernel " + std::to_string(votes.kernel) + ": it must lie in 1 .. 1025");
  const int32_t rows = std::min(votes.window, prompt.seq_k);
  if (prompt.seq_q != rows || prompt.first_position != prompt.seq_k - rows) {
    return invalid("seq_q " + std::to_string(prompt.seq_q) + ", first_position " +
                   std::to_string(prompt.first_position) + ": the rows must be the last " + std::to_string(rows) +
                   " queries, min(window, seq_k)");
  }
  if (votes.kept < rows || votes.kept > prompt.seq_k) {
    return invalid("kept " + std::to_string(votes.kept) + ": it must lie in " + std::to_string(rows) +
                   ", what the window alone keeps, .. seq_k (" + std::to_string(prompt.seq_k) + ")");
  }
  if (int64_t{prompt.batch} * prompt.num_kv_heads > 65535)
    return {StatusCode::kUnsupported, "batch * num_kv_heads: a call takes at most 65,535 lists; make several calls"};
  return {};
}

}  // namespace

size_t PromptVotesWorkspaceBytes(const AttentionProblem& prompt, const PromptVotes& votes) {
  return CheckVotes(prompt, votes).ok() ? static_cast<size_t>(LayOut(prompt, votes).total) : 0;
}

Status KeepByPromptVotesCuda(const AttentionProblem& prompt, const PromptVotes& votes, const float* lse,
                             int32_t* tokens, void* workspace, size_t workspace_bytes, void* stream) {
  if (Status status = CheckVotes(prompt, votes); !status.ok()) return status;
  const Scratch scratch = LayOut(prompt, votes);
  if (workspace == nullptr || workspace_bytes < static_cast<size_t>(scratch.total)) {
    return {StatusCode::kInvalidArgument,
            "workspace: " + std::to_string(scratch.total) + " bytes are needed (PromptVotesWorkspaceBytes)"};
  }
  if (Status status = CheckPointer("workspace", workspace, kArrayAlignment); !status.ok()) return status;
  if (Status status = CheckPointer("tokens", tokens, 4); !status.ok()) return status;
  if (Status status = CheckOnDevice({{"tokens", tokens}, {"workspace", workspace}}, stream); !status.ok())
    return status;
  char* const base = static_cast<char*>(workspace);
  auto* const columns = reinterpret_cast<double*>(base);
  auto* const picked = reinterpret_cast<int32_t*>(base + scratch.picked);
  const int32_t lists = prompt.batch * prompt.num_kv_heads;
  const int32_t before = prompt.seq_k - prompt.seq_q, picks = votes.kept - prompt.seq_q;
  auto* const on = static_cast<cudaStream_t>(stream);
  if (picks > 0) {
    if (lse == nullptr) {
      auto* const made = reinterpret_cast<float*>(base + scratch.lse);
      if (Status status = RowLseCuda(prompt, /*window=*/0, made, stream); !status.ok()) return status;
      lse = made;
    }
    Status status = LineMassCuda(prompt, /*window=*/0, lse, {}, columns,
                                 reinterpret_cast<double*>(base + scratch.distances), stream);
    if (!status.ok()) return status;
    SmoothParams smooth{};
    smooth.columns = columns;
    smooth.scores = reinterpret_cast<float*>(base + scratch.scores);
    smooth.group = prompt.GroupSize();
    smooth.seq_k = prompt.seq_k;
    smooth.before = before;
    smooth.kernel = votes.kernel;
    smooth.voters = static_cast<float>(int64_t{prompt.seq_q} * smooth.group);
    smooth.maximum = votes.maximum;
    const dim3 grid(static_cast<unsigned>((before + kSmoothThreads - 1) / kSmoothThreads),
                    static_cast<unsigned>(lists));
    SmoothVotesKernel<<<grid, kSmoothThreads, 0, on>>>(smooth);
    if (Status launched = CudaStatus(cudaGetLastError(), "SmoothVotesKernel (" + Describe(prompt) + ")");
        !launched.ok()) {
      return launched;
    }
    decode::QuestParams pick{};
    pick.lists = lists;
    pick.num_pages = prompt.seq_k;
    pick.candidates = before;
    pick.picks = picks;
    pick.scores = smooth.scores;
    pick.page_begin = reinterpret_cast<int64_t*>(base + scratch.page_begin);
    pick.pages = picked;
    if (Status launched = CudaStatus(decode::LaunchPickPages(pick, on), "PickPagesKernel (" + Describe(prompt) + ")");
        !launched.ok()) {
      return launched;
    }
  }
  constexpr int kThreads = 256;
  const dim3 grid(static_cast<unsigned>((votes.kept + kThreads - 1) / kThreads), static_cast<unsigned>(lists));
  return CudaStatus(
      cuda::LaunchDependent(JoinWindowKernel, grid, kThreads, 0, on, picked, picks, before, votes.kept, tokens),
      "JoinWindowKernel (" + Describe(prompt) + ")");
}

}  // namespace headscope::kernels
