// SPDX-License-Identifier: Apache-2.0
// Checks, upload, scratch layout and dispatch of a decode step over any selection (kernels/cuda_decode_selection.h).
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "decode/chained_selection.h"
#include "decode/decode_check.h"
#include "decode/dense_plan.h"
#include "decode/operands_of.h"
#include "decode/selection_params.h"
#include "device_memory.h"
#include "device_pointers.h"
#include "index/checks.h"
#include "kernels/cuda_decode.h"
#include "kernels/cuda_decode_selection.h"
#include "kernels/cuda_resources.h"
#include "problem_check.h"
#include "refusals.h"

namespace headscope::kernels {
namespace {

// A stretch is a whole number of turns of a block's warps, and no shorter than what hides a block's beginning and end.
constexpr int32_t kStretchTokens = 128;
constexpr int32_t kBlocksPerMultiprocessor = 4;

bool DenseTakes(const AttentionProblem& problem, const CudaSelection& selection) {
  return selection.dense && decode::CheckDecodeShape(problem).ok();
}

struct SelectionPlan {
  int32_t head_blocks = 1, stretches = 1, stretch = 0;
  int64_t part_sums = 0;  // offset
  int64_t total = 0;      // bytes
  decode::DenseParams tiles{};
  int32_t part_columns = 0;
};

bool OnTiles(const AttentionProblem& problem) {
  return decode::RunsOnTiles(problem.head_dim, problem.ValueDim(), problem.dtype == DType::kFloat32);
}

// Shares of the steps as dense decode has them, of a cache that is as long as the longest list.
Status PlanTiles(const AttentionProblem& problem, const CudaSelection& selection, const decode::DecodeDevice& device,
                 SelectionPlan* plan) {
  AttentionProblem kept = problem;
  kept.seq_k = std::max(selection.longest_list, 1);
  decode::DensePlan dense;
  if (Status status = decode::PlanDense(kept, device, &dense); !status.ok()) return status;
  const decode::DenseParams& tiles = plan->tiles = dense.params;
  plan->part_columns = tiles.heads_per_pass * problem.head_dim / 4;
  // As many blocks as there may be: memory for a long list does for a shorter one.
  const int64_t most = std::min<int64_t>(int64_t{tiles.passes} * tiles.steps, device.num_multiprocessors);
  const int64_t columns = 2 * most * plan->part_columns;
  plan->part_sums = ArrayBytes(columns * 16);
  plan->total = plan->part_sums + ArrayBytes(columns * 8);
  return {};
}

SelectionPlan PlanStretches(const AttentionProblem& problem, const CudaSelection& selection,
                            int32_t num_multiprocessors) {
  SelectionPlan plan;
  const int32_t places = decode::SelectionHeads(problem.GroupSize(), problem.head_dim, problem.ValueDim());
  plan.head_blocks = (problem.GroupSize() + places - 1) / places;
  const int64_t parts = int64_t{problem.batch} * problem.num_kv_heads * plan.head_blocks;
  const int64_t wanted = std::max<int64_t>(1, int64_t{num_multiprocessors} * kBlocksPerMultiprocessor / parts);
  const int64_t longest = std::max(1, selection.longest_list);
  const int64_t units = (longest + kStretchTokens - 1) / kStretchTokens;
  const int64_t units_each = (units + wanted - 1) / wanted;
  plan.stretch = static_cast<int32_t>(std::min<int64_t>(units_each * kStretchTokens, 1 << 28));
  plan.stretches = static_cast<int32_t>((longest + plan.stretch - 1) / plan.stretch);
  if (plan.stretches == 1) return plan;
  const int64_t rows = int64_t{problem.batch} * problem.num_qo_heads * plan.stretches;
  plan.part_sums = ArrayBytes(rows * problem.ValueDim() * 4);
  plan.total = plan.part_sums + ArrayBytes(rows * 8);
  return plan;
}

Status Plan(const AttentionProblem& problem, const CudaSelection& selection, SelectionPlan* plan) {
  decode::DecodeDevice device;
  if (Status status = decode::FindDecodeDevice(&device); !status.ok()) return status;
  if (OnTiles(problem)) return PlanTiles(problem, selection, device, plan);
  *plan = PlanStretches(problem, selection, device.num_multiprocessors);
  return {};
}

Status CheckSelectionView(const AttentionProblem& problem, const CudaSelection& selection) {
  const auto invalid = [](const std::string& message) { return Status(StatusCode::kInvalidArgument, message); };
  if (selection.page_size < 1)
    return invalid("selection.page_size " + std::to_string(selection.page_size) + ": it must be at least 1");
  if (selection.weight_rows != 1 && selection.weight_rows != problem.GroupSize()) {
    return invalid("selection.weight_rows " + std::to_string(selection.weight_rows) +
                   ": it must be 1 or num_qo_heads / num_kv_heads");
  }
  if (selection.longest_list < 0 || selection.longest_list > problem.seq_k) {
    return invalid("selection.longest_list " + std::to_string(selection.longest_list) +
                   ": it must lie in 0 .. seq_k (" + std::to_string(problem.seq_k) + ")");
  }
  const int64_t lists = int64_t{problem.batch} * problem.num_kv_heads;
  if (selection.pages_of_list != 0 && selection.pages_of_list * lists != selection.num_pages) {
    return invalid("selection.pages_of_list " + std::to_string(selection.pages_of_list) +
                   ": it must be 0, or num_pages over batch * num_kv_heads");
  }
  if ((selection.alpha == nullptr) != (selection.mean_value == nullptr))
    return invalid("selection.alpha and selection.mean_value: both or none");
  if (Status status = CheckPointer("selection.page_begin", selection.page_begin, 8); !status.ok()) return status;
  if (selection.num_pages == 0) return {};
  return CheckPointer("selection.pages", selection.pages, 4);
}

}  // namespace

Status UploadSelection(const AttentionProblem& problem, const DecodeSelection& selection,
                       CudaSelectionBuffers* buffers) {
  if (buffers == nullptr) return {StatusCode::kInvalidArgument, "UploadSelection: buffers is null."};
  // The kernels trust their lists, so no list gets to a GPU unchecked.
  if (Status status = internal::CheckSelectionOfProblem(problem, selection); !status.ok()) return status;
  struct Part {
    const void* source;
    size_t bytes;
    int64_t offset;
  };
  Part parts[] = {{selection.page_begin.data(), selection.page_begin.size() * 8, 0},
                  {selection.pages.data(), selection.pages.size() * 4, 0},
                  {selection.weights.data(), selection.weights.size() * 4, 0},
                  {selection.alpha.data(), selection.alpha.size() * 4, 0},
                  {selection.mean_value.data(), selection.mean_value.size() * 4, 0}};
  int64_t total = 0;
  for (Part& part : parts) {
    part.offset = total;
    total += ArrayBytes(static_cast<int64_t>(part.bytes));
  }
  // A generation uploads one selection a step: memory that is large enough stays.
  if (buffers->allocation == nullptr || buffers->bytes < static_cast<size_t>(total)) {
    DeviceMemory memory;
    if (Status status = AllocateOnDevice(total, "a decode selection", &memory); !status.ok()) return status;
    buffers->allocation = std::move(memory);
    buffers->bytes = static_cast<size_t>(total);
  }
  char* const base = static_cast<char*>(buffers->allocation.get());
  for (const Part& part : parts) {
    if (part.bytes == 0) continue;
    Status status = CudaStatus(cudaMemcpy(base + part.offset, part.source, part.bytes, cudaMemcpyHostToDevice),
                               "copying a decode selection to the GPU");
    if (!status.ok()) return status;
  }
  CudaSelection view;
  view.page_size = selection.page_size;
  view.weight_rows = selection.weight_rows;
  view.num_pages = static_cast<int64_t>(selection.pages.size());
  view.page_begin = reinterpret_cast<const int64_t*>(base + parts[0].offset);
  view.pages = reinterpret_cast<const int32_t*>(base + parts[1].offset);
  if (!selection.weights.empty()) view.weights = reinterpret_cast<const float*>(base + parts[2].offset);
  if (!selection.alpha.empty()) {
    view.alpha = reinterpret_cast<const float*>(base + parts[3].offset);
    view.mean_value = reinterpret_cast<const float*>(base + parts[4].offset);
  }
  for (int64_t list = 0; list < int64_t{problem.batch} * problem.num_kv_heads; ++list) {
    const int64_t tokens = NumTokens(selection, list, problem.seq_k);
    view.longest_list = std::max(view.longest_list, static_cast<int32_t>(tokens));
  }
  const int64_t lists = int64_t{problem.batch} * problem.num_kv_heads;
  view.pages_of_list = static_cast<int32_t>(view.num_pages / lists);
  for (size_t list = 0; list < static_cast<size_t>(lists); ++list) {
    if (selection.page_begin[list + 1] - selection.page_begin[list] != view.pages_of_list) view.pages_of_list = 0;
  }
  view.dense = IsDense(selection, problem.seq_k);
  buffers->view = view;
  return {};
}

size_t SelectionWorkspaceBytes(const AttentionProblem& problem, const CudaSelection& selection) {
  if (!decode::CheckSelectionShape(problem).ok()) return 0;  // the call itself will name the field
  if (DenseTakes(problem, selection)) return DecodeWorkspaceBytes(problem, {});
  SelectionPlan plan;
  return Plan(problem, selection, &plan).ok() ? static_cast<size_t>(plan.total) : 0;
}

Status decode::AttendSelection(const AttentionProblem& problem, const CudaSelection& selection,
                               const AttentionOutput& output, void* workspace, size_t workspace_bytes, bool chained,
                               void* stream) {
  if (Status status = decode::CheckSelectionStep(problem, output); !status.ok()) return status;
  if (Status status = CheckSelectionView(problem, selection); !status.ok()) return status;
  if (selection.weights != nullptr && output.row_max != nullptr) {
    return UnsupportedStatus(
        "output.row_max is set and selection.weights too: the kernels add the weights' logarithms to the scores, and "
        "know no largest score without them; leave it null, or attend on the CPU");
  }
  if (DenseTakes(problem, selection)) return DecodeDenseCuda(problem, output, workspace, workspace_bytes, stream);
  SelectionPlan plan;
  if (Status status = Plan(problem, selection, &plan); !status.ok()) return status;
  if (plan.total > 0) {
    if (workspace == nullptr || workspace_bytes < static_cast<size_t>(plan.total)) {
      return {StatusCode::kInvalidArgument,
              "workspace: " + std::to_string(plan.total) + " bytes are needed (SelectionWorkspaceBytes)"};
    }
    if (Status status = CheckPointer("workspace", workspace, kArrayAlignment); !status.ok()) return status;
  }
  const int64_t lists = int64_t{problem.batch} * problem.num_kv_heads;
  if (lists * plan.head_blocks * plan.stretches > std::numeric_limits<int32_t>::max()) {
    return {StatusCode::kUnsupported, "batch * num_qo_heads " +
                                          std::to_string(int64_t{problem.batch} * problem.num_qo_heads) +
                                          ": more blocks than a launch has; split the batch"};
  }
  Status status = CheckOnDevice({{"q.data", problem.q.data},
                                 {"k.data", problem.k.data},
                                 {"v.data", problem.v.data},
                                 {"output.o.data", output.o.data},
                                 {"output.lse", output.lse},
                                 {"output.row_max", output.row_max},
                                 {"selection.page_begin", selection.page_begin},
                                 {"selection.pages", selection.num_pages > 0 ? selection.pages : nullptr},
                                 {"selection.weights", selection.weights},
                                 {"selection.alpha", selection.alpha},
                                 {"selection.mean_value", selection.mean_value},
                                 {"workspace", plan.total > 0 ? workspace : nullptr}},
                                stream);
  if (!status.ok()) return status;
  decode::WithSinks<decode::SelectionParams> params{};
  params.sinks = SinksOf(problem);
  params.x = decode::OperandsOf(problem, output);
  params.soft_cap = problem.soft_cap;
  params.lse = output.lse;
  params.row_max = output.row_max;
  params.page_size = selection.page_size;
  params.page_begin = selection.page_begin;
  params.pages = selection.pages;
  params.weights = selection.weights;
  params.weight_stride = selection.weight_rows == 1 ? 0 : selection.num_pages * selection.page_size;
  params.alpha = selection.alpha;
  params.mean = selection.mean_value;
  params.first_seen = problem.window > 0 ? std::max(problem.seq_k - problem.window, 0) : 0;
  params.head_dim = problem.head_dim;
  params.value_dim = problem.ValueDim();
  params.lists = static_cast<int32_t>(lists);
  params.head_blocks = plan.head_blocks;
  params.stretches = plan.stretches;
  params.stretch = plan.stretch;
  params.tiles = plan.tiles;
  params.tiles.x = params.x;
  params.part_columns = plan.part_columns;
  params.chained = chained && OnTiles(problem);
  params.pages_of_list = selection.pages_of_list;
  params.by_page = DivideBy(selection.page_size);
  params.part_o = static_cast<float*>(workspace);
  if (plan.total > 0) params.part_sum = reinterpret_cast<float2*>(static_cast<char*>(workspace) + plan.part_sums);
  auto* const on = static_cast<cudaStream_t>(stream);
  cudaError_t error = cudaSuccess;
  switch (problem.dtype) {
    case DType::kFloat32:
      error = decode::LaunchSelection<float>(params, on);
      break;
    case DType::kBFloat16:
      error = decode::LaunchSelection<__nv_bfloat16>(params, on);
      break;
    case DType::kFloat16:
      error = decode::LaunchSelection<__half>(params, on);
      break;
  }
  return CudaStatus(error, std::string(OnTiles(problem) ? "SelectionTileKernel" : "SelectionKernel") + " (" +
                               Describe(problem) + ")");
}

Status AttendSelectionCuda(const AttentionProblem& problem, const CudaSelection& selection,
                           const AttentionOutput& output, void* workspace, size_t workspace_bytes, void* stream) {
  return decode::AttendSelection(problem, selection, output, workspace, workspace_bytes, /*chained=*/false, stream);
}

}  // namespace headscope::kernels
