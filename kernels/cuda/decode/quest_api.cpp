// SPDX-License-Identifier: Apache-2.0
// Checks, scratch layout and launches of Quest's decode step (kernels/cuda_quest.h).
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <string>

#include "current_device.h"
#include "decode/chained_selection.h"
#include "decode/decode_check.h"
#include "decode/dense_plan.h"
#include "decode/operands_of.h"
#include "decode/quest_cluster.h"
#include "decode/quest_params.h"
#include "device_memory.h"
#include "device_pointers.h"
#include "kernels/cuda_quest.h"
#include "kernels/cuda_resources.h"
#include "problem_check.h"
#include "refusals.h"

namespace headscope::kernels {
namespace {

using decode::QuestParams;

int32_t NumPages(const AttentionProblem& problem, int32_t page_size) {
  return (problem.seq_k - 1) / page_size + 1;
}

// Pages that a block scores: a turn of its warps at least; more than so many leave the last blocks alone at the end.
constexpr int64_t kPagesOfTurn = 64, kMostPagesEach = 256;

Status CheckBounds(const AttentionProblem& problem, int32_t page_size, const CudaPageBounds& bounds) {
  if (page_size < 1 || page_size > 1024)
    return InvalidStatus("page_size " + std::to_string(page_size) + ": it must lie in 1 .. 1024");
  if (Status status = CheckPointer("bounds.data", bounds.data, 16); !status.ok()) return status;
  const int64_t least = int64_t{NumPages(problem, page_size)} * 2 * problem.head_dim;
  if (bounds.list_stride >= least && bounds.list_stride % 8 == 0) return {};
  return InvalidStatus("bounds.list_stride " + std::to_string(bounds.list_stride) + ": it must be at least " +
                       std::to_string(least) + " elements, 2 * head_dim a page, and a multiple of 8");
}

struct Scratch {
  int64_t page_begin, pages, attend, total;  // the scores stand first
};

Status LayOut(const AttentionProblem& problem, const QuestCudaOptions& options, Scratch* scratch,
              CudaSelection* selection) {
  const int64_t lists = int64_t{problem.batch} * problem.num_kv_heads;
  const int32_t picks = NumQuestPicks(problem, options);
  selection->page_size = options.page_size;
  selection->num_pages = lists * picks;
  selection->pages_of_list = picks;
  selection->longest_list = static_cast<int32_t>(std::min<int64_t>(int64_t{picks} * options.page_size, problem.seq_k));
  scratch->page_begin = ArrayBytes(lists * NumQuestPages(problem, options) * 4);
  scratch->pages = scratch->page_begin + ArrayBytes((lists + 1) * 8);
  scratch->attend = scratch->pages + ArrayBytes(lists * picks * 4);
  scratch->total = scratch->attend + static_cast<int64_t>(SelectionWorkspaceBytes(problem, *selection));
  return {};
}

QuestParams BaseParams(const AttentionProblem& problem, int32_t page_size, const CudaPageBounds& bounds) {
  QuestParams params{};
  params.x = decode::OperandsOf(problem, /*output=*/{});
  params.bounds = bounds.data;
  params.bounds_list = bounds.list_stride;
  params.lists = problem.batch * problem.num_kv_heads;
  params.page_size = page_size;
  params.num_pages = NumPages(problem, page_size);
  return params;
}

// The step in one launch, if that takes it (decode/quest_cluster.h).
Status InOneLaunch(const AttentionProblem& problem, const AttentionOutput& output, const QuestParams& quest,
                   int32_t* chosen_pages, const CurrentDevice& current, cudaStream_t stream, bool* launched) {
  if (problem.ValueDim() != problem.head_dim || current.compute_capability < 90) return {};
  decode::DecodeDevice device;
  if (Status status = decode::FindDecodeDevice(&device); !status.ok()) return status;
  decode::WithSinks<decode::QuestStepParams> step{};
  step.sinks = SinksOf(problem);
  step.x = decode::OperandsOf(problem, output);
  step.soft_cap = problem.soft_cap;
  step.lse = output.lse;
  step.row_max = output.row_max;
  step.bounds = quest.bounds;
  step.bounds_list = quest.bounds_list;
  step.pages = chosen_pages;
  step.lists = quest.lists;
  step.page_size = quest.page_size;
  step.num_pages = quest.num_pages;
  step.candidates = quest.candidates;
  step.picks = quest.picks;
  step.newest = quest.newest;
  step.mean_query = quest.mean_query;
  step.bounds_leave_first = quest.leaves_cache_first;
  const int64_t kept =
      std::min<int64_t>(int64_t{quest.picks + (quest.newest ? 1 : 0)} * quest.page_size, problem.seq_k);
  step.rows_leave_first = int64_t{4} * quest.lists * kept * problem.head_dim <= decode::kCacheFriendlyBytes;
  step.by_kv_heads = DivideBy(problem.num_kv_heads);
  step.by_page = DivideBy(quest.page_size);
  const decode::QuestStepDevice on{.num_multiprocessors = current.num_multiprocessors,
                                   .shared_of_block = device.shared_of_block,
                                   .shared_of_multiprocessor = device.shared_of_multiprocessor};
  const cudaError_t error = problem.dtype == DType::kBFloat16
                                ? decode::LaunchQuestStep<__nv_bfloat16>(step, problem.head_dim, on, stream, launched)
                                : decode::LaunchQuestStep<__half>(step, problem.head_dim, on, stream, launched);
  return CudaStatus(error, "QuestStepKernel (" + Describe(problem) + ")");
}

}  // namespace

Status UpdatePageBoundsCuda(const AttentionProblem& problem, int32_t page_size, int32_t first_token,
                            const CudaPageBounds& bounds, void* stream) {
  if (Status status = decode::CheckKeysShape(problem); !status.ok()) return status;
  if (Status status = decode::CheckKeys(problem); !status.ok()) return status;
  if (Status status = CheckBounds(problem, page_size, bounds); !status.ok()) return status;
  if (Status status = decode::CheckFirstToken(problem, first_token); !status.ok()) return status;
  CurrentDevice device;
  if (Status status = FindCurrentDevice(&device); !status.ok()) return status;
  if (Status status = CheckOnDevice({{"k.data", problem.k.data}, {"bounds.data", bounds.data}}, stream); !status.ok())
    return status;
  QuestParams params = BaseParams(problem, page_size, bounds);
  params.first_page = first_token / page_size;
  auto* const on = static_cast<cudaStream_t>(stream);
  const cudaError_t error = problem.dtype == DType::kBFloat16
                                ? decode::LaunchPageBounds<__nv_bfloat16>(params, problem.head_dim, on)
                                : decode::LaunchPageBounds<__half>(params, problem.head_dim, on);
  return CudaStatus(error, "PageBoundsKernel (" + Describe(problem) + ")");
}

size_t QuestWorkspaceBytes(const AttentionProblem& problem, const QuestCudaOptions& options) {
  Scratch scratch;
  CudaSelection selection;
  if (!decode::CheckQuestShape(problem, options).ok()) return 0;
  return LayOut(problem, options, &scratch, &selection).ok() ? static_cast<size_t>(scratch.total) : 0;
}

Status DecodeQuestCuda(const AttentionProblem& problem, const QuestCudaOptions& options, const CudaPageBounds& bounds,
                       const AttentionOutput& output, int32_t* chosen_pages, void* workspace, size_t workspace_bytes,
                       void* stream) {
  if (Status status = decode::CheckQuestShape(problem, options); !status.ok()) return status;
  if (Status status = decode::CheckSelectionStep(problem, output); !status.ok()) return status;
  if (Status status = CheckBounds(problem, options.page_size, bounds); !status.ok()) return status;
  CurrentDevice device;
  if (Status status = FindCurrentDevice(&device); !status.ok()) return status;
  Scratch scratch;
  CudaSelection selection;
  if (Status status = LayOut(problem, options, &scratch, &selection); !status.ok()) return status;
  if (Status status =
          decode::CheckWorkspace(workspace, workspace_bytes, static_cast<size_t>(scratch.total), "QuestWorkspaceBytes");
      !status.ok()) {
    return status;
  }
  if (Status status = decode::CheckDecodeOnDevice(problem, output, {}, nullptr, nullptr, workspace, stream);
      !status.ok()) {
    return status;
  }
  if (Status status = CheckOnDevice({{"bounds.data", bounds.data}, {"chosen_pages", chosen_pages}}, stream);
      !status.ok()) {
    return status;
  }
  char* const base = static_cast<char*>(workspace);
  QuestParams params = BaseParams(problem, options.page_size, bounds);
  // One wave, if there are not too many.
  const int64_t of_list =
      std::max<int64_t>(1, int64_t{device.num_multiprocessors} * decode::kScoreBlocks / params.lists);
  const int64_t each = (params.num_pages + of_list - 1) / of_list;
  params.pages_each =
      static_cast<int32_t>(std::min((each + kPagesOfTurn - 1) / kPagesOfTurn * kPagesOfTurn, kMostPagesEach));
  params.leaves_cache_first =
      int64_t{4} * params.lists * params.num_pages * problem.head_dim <= decode::kCacheFriendlyBytes;
  params.mean_query = options.mean_query;
  params.newest = options.keep_newest;
  params.picks = NumQuestPicks(problem, options) - (options.keep_newest ? 1 : 0);
  params.candidates = params.num_pages - (options.keep_newest ? 1 : 0);
  params.scores = static_cast<float*>(workspace);
  params.page_begin = reinterpret_cast<int64_t*>(base + scratch.page_begin);
  params.pages = chosen_pages != nullptr ? chosen_pages : reinterpret_cast<int32_t*>(base + scratch.pages);
  auto* const on = static_cast<cudaStream_t>(stream);
  bool launched = false;
  if (Status status = InOneLaunch(problem, output, params, chosen_pages, device, on, &launched);
      !status.ok() || launched)
    return status;
  cudaError_t error = problem.dtype == DType::kBFloat16
                          ? decode::LaunchPageScores<__nv_bfloat16>(params, problem.head_dim, on)
                          : decode::LaunchPageScores<__half>(params, problem.head_dim, on);
  if (error == cudaSuccess) error = decode::LaunchPickPages(params, on);
  if (error != cudaSuccess) return CudaStatus(error, "Quest's choice of pages (" + Describe(problem) + ")");
  selection.page_begin = params.page_begin;
  selection.pages = params.pages;
  return decode::AttendSelection(problem, selection, output, base + scratch.attend,
                                 workspace_bytes - static_cast<size_t>(scratch.attend), /*chained=*/true, stream);
}

}  // namespace headscope::kernels
