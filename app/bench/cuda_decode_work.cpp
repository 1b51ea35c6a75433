// SPDX-License-Identifier: Apache-2.0
#include "bench/cuda_decode_work.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "base/check_status.h"
#include "base/errors.h"
#include "bench/host_decode_step.h"
#include "bench/host_tensors.h"
#include "kernels/contiguous.h"
#include "kernels/cuda_decode_step.h"
#include "kernels/cuda_prompt_votes.h"
#include "kernels/sparq_setup.h"
#include "kernels/step_elements.h"

namespace headscope::app::bench {
namespace {

using kernels::AttentionProblem;
using kernels::CudaDecodeStep;

// Device memory of the calls of one problem; shared by its variants.
struct DecodeState {
  std::shared_ptr<void> workspace;
  size_t workspace_bytes = 0;
  std::shared_ptr<void> mean_value, transposed_memory;
  kernels::TransposedKeys transposed;
};

void AddWorkspace(BenchDevice& device, size_t bytes, DecodeState* state) {
  const std::vector<char> zeros(std::max<size_t>(bytes, 16));
  state->workspace = device.Allocate(static_cast<int64_t>(zeros.size()));
  state->workspace_bytes = zeros.size();
  device.Upload(zeros.data(), static_cast<int64_t>(zeros.size()), state->workspace.get());
}

int64_t KeyElements(const AttentionProblem& problem) {
  return int64_t{problem.batch} * problem.num_kv_heads * problem.seq_k * problem.head_dim;
}

// The component-major copy of K and the mean of V, as a serving engine would hold them before the step.
void AddSparqState(BenchDevice& device, const PlacedProblem& placed, int32_t num_threads, DecodeState* state) {
  const AttentionProblem& problem = placed.problem;
  const int64_t num_lists = int64_t{problem.batch} * problem.num_kv_heads;
  const int64_t head_dim = problem.head_dim;
  std::vector<uint16_t> host(static_cast<size_t>(KeyElements(problem)));
  const auto bytes = static_cast<int64_t>(host.size() * sizeof(uint16_t));

  const int64_t stride = kernels::ComponentStride(problem.seq_k);
  device.Download(problem.k.data, bytes, host.data());
  const std::vector<uint16_t> transposed =
      kernels::ComponentMajorKeys(host.data(), num_lists, problem.seq_k, head_dim, num_threads);
  const auto transposed_bytes = static_cast<int64_t>(transposed.size() * sizeof(uint16_t));
  state->transposed_memory = device.Allocate(transposed_bytes);
  device.Upload(transposed.data(), transposed_bytes, state->transposed_memory.get());
  state->transposed = {.data = state->transposed_memory.get(),
                       .batch_stride = problem.num_kv_heads * head_dim * stride,
                       .head_stride = head_dim * stride,
                       .component_stride = stride};

  // One row per KV head, whose values do not change what is timed.
  const std::vector<float> zeros(static_cast<size_t>(num_lists * head_dim));
  const auto mean_bytes = static_cast<int64_t>(zeros.size() * sizeof(float));
  state->mean_value = device.Allocate(mean_bytes);
  device.Upload(zeros.data(), mean_bytes, state->mean_value.get());
}

DecodeWork DenseWork(BenchDevice& device, const PlacedProblem& placed) {
  const auto state = std::make_shared<DecodeState>();
  const auto whole = std::make_shared<kernels::CudaSelectionBuffers>();
  CheckStatus(kernels::UploadSelection(placed.problem, kernels::WholeCache(placed.problem), whole.get()));
  AddWorkspace(device, CudaDecodeStep().WorkspaceBytes(placed.problem, whole->view), state.get());
  DecodeWork work;
  work.attend = [&placed, state, whole] {
    CheckStatus(CudaDecodeStep().Run(placed.problem, {.selection = &whole->view}, placed.output, nullptr,
                                     state->workspace.get(), state->workspace_bytes, nullptr));
  };
  work.bytes_moved = StepBytes(placed.problem, kernels::ElementsOfTokens(placed.problem, placed.problem.seq_k));
  return work;
}

std::vector<DecodeWork> SparqWork(BenchDevice& device, const PlacedProblem& placed, const CudaDecodeStep& how,
                                  int32_t num_threads) {
  const AttentionProblem& problem = placed.problem;
  const kernels::EstimatedTopTokens& options = how.top_tokens();
  const auto state = std::make_shared<DecodeState>();
  AddWorkspace(device, how.WorkspaceBytes(problem), state.get());
  AddSparqState(device, placed, num_threads, state.get());
  const auto step = [&placed, state, how](bool two_copies) {
    CheckStatus(how.Run(placed.problem,
                        {.transposed = two_copies ? state->transposed : kernels::TransposedKeys{},
                         .mean_value = static_cast<const float*>(state->mean_value.get())},
                        placed.output, nullptr, state->workspace.get(), state->workspace_bytes, nullptr));
  };
  const auto moved = [&](bool two_copies) {
    return StepBytes(problem, how.YieldsToDense(problem, !two_copies)
                                  ? kernels::ElementsOfTokens(problem, problem.seq_k)
                                  : kernels::ElementsOf(options, problem, two_copies).moved);
  };
  const auto yields = [&](bool two_copies) {
    return std::string(how.YieldsToDense(problem, !two_copies) ? ", yields to dense" : "");
  };
  DecodeWork two_copies;
  two_copies.variant = "two copies of K" + yields(true);
  two_copies.attend = [step] { step(true); };
  two_copies.bytes_moved = moved(true);
  DecodeWork one_copy;
  one_copy.variant = "one copy of K" + yields(false);
  one_copy.attend = [step] { step(false); };
  one_copy.bytes_moved = moved(false);
  DecodeWork append;
  append.variant = "append a token";
  append.upkeep = true;
  append.attend = [&placed, state] {
    CheckStatus(kernels::AppendTokenCuda(placed.problem, state->transposed,
                                         static_cast<float*>(state->mean_value.get()), nullptr));
  };
  append.bytes_moved = AppendBytes(problem);
  return {two_copies, one_copy, append};
}

// The bounds of pages lie there before the step, as a generation has them from the steps before.
std::vector<DecodeWork> QuestWork(BenchDevice& device, const PlacedProblem& placed, const CudaDecodeStep& how) {
  const AttentionProblem& problem = placed.problem;
  const kernels::PagesByBounds options = how.pages();
  const auto state = std::make_shared<DecodeState>();
  AddWorkspace(device, how.WorkspaceBytes(problem), state.get());
  const int64_t lists = int64_t{problem.batch} * problem.num_kv_heads, size = kernels::SizeOf(problem.dtype);
  const int64_t of_list = int64_t{kernels::NumQuestPages(problem, options)} * 2 * problem.head_dim;
  const std::shared_ptr<void> memory = device.Allocate(lists * of_list * size);
  const kernels::CudaPageBounds bounds{.data = memory.get(), .list_stride = of_list};
  CheckStatus(kernels::UpdatePageBoundsCuda(problem, options.page_size, 0, bounds, nullptr));
  DecodeWork step;
  step.attend = [&placed, state, memory, bounds, how] {
    CheckStatus(how.Run(placed.problem, {.bounds = bounds}, placed.output, nullptr, state->workspace.get(),
                        state->workspace_bytes, nullptr));
  };
  step.bytes_moved = StepBytes(problem, kernels::ElementsOf(options, problem).moved);
  DecodeWork append;
  append.variant = "append a token";
  append.upkeep = true;
  append.attend = [&placed, memory, bounds, options] {
    CheckStatus(
        kernels::UpdatePageBoundsCuda(placed.problem, options.page_size, placed.problem.seq_k - 1, bounds, nullptr));
  };
  // The newest page's keys, and its bounds written.
  const int64_t of_page = (problem.seq_k - 1) % options.page_size + 1;
  append.bytes_moved = lists * (of_page + 2) * problem.head_dim * size;
  return {step, append};
}

// A method that chooses on the CPU: what it reads lies there beforehand, and its lists' way to the GPU is part of what
// choosing takes.
struct HostChoice {
  HostTensors host;
  std::unique_ptr<HostDecodeStep> step;
  kernels::CudaSelectionBuffers uploaded;
  std::shared_ptr<void> workspace;
  size_t workspace_bytes = 0;
};

DecodeWork SelectOnCpu(BenchDevice& device, const PlacedProblem& placed, const kernels::DecodeMethod& method,
                       const kernels::ParameterValues& values, const kernels::RunOptions& options) {
  const AttentionProblem& problem = placed.problem;
  const auto state = std::make_shared<HostChoice>();
  state->host.Download(device, problem, /*with_values=*/true);
  state->step = std::make_unique<HostDecodeStep>(method, values, placed, state->host.problem, options);
  DecodeWork work;
  work.variant = "selects on the CPU";
  if (const std::string more = state->step->Variant(); !more.empty()) work.variant += ", " + more;
  if (state->step->NeedsPreparing()) work.prepare = [state] { state->step->Prepare(); };
  work.select = [&device, &placed, state] {
    // The clock runs from the device's start: what it was given before this is no part of it.
    if (cudaStreamSynchronize(nullptr) != cudaSuccess) throw FailedError("waiting for the GPU failed");
    CheckStatus(kernels::UploadSelection(placed.problem, state->step->Select(), &state->uploaded));
    const size_t bytes = CudaDecodeStep().WorkspaceBytes(placed.problem, state->uploaded.view);
    if (bytes <= state->workspace_bytes) return;
    const std::vector<char> zeros(bytes);
    state->workspace = device.Allocate(static_cast<int64_t>(bytes));
    device.Upload(zeros.data(), static_cast<int64_t>(bytes), state->workspace.get());
    state->workspace_bytes = bytes;
  };
  work.attend = [&placed, state] {
    CheckStatus(CudaDecodeStep().Run(placed.problem, {.selection = &state->uploaded.view}, placed.output, nullptr,
                                     state->workspace.get(), state->workspace_bytes, nullptr));
  };
  work.select();
  work.bytes_moved = StepBytes(problem, state->step->selection().elements_moved);
  return work;
}

// What of a prompt stays is chosen once, before the steps: where the GPU has that choice, a row of its own. Empty: the
// choice is of another kind, or the kernels do not take the layer (a window, a soft cap, fp32).
std::optional<DecodeWork> PromptChoice(BenchDevice& device, const PlacedProblem& placed,
                                       const kernels::DecodeMethod& method, const kernels::ParameterValues& values) {
  AttentionProblem prompt = placed.problem;
  prompt.seq_k -= 1;
  const std::optional<kernels::PromptVotes> votes = kernels::PromptVotesOf(method, values, prompt.seq_k);
  if (!votes || placed.window > 0 || prompt.dtype == kernels::DType::kFloat32) return {};
  prompt.seq_q = std::min(votes->window, prompt.seq_k);
  prompt.first_position = prompt.seq_k - prompt.seq_q;
  const int64_t lists = int64_t{prompt.batch} * prompt.num_kv_heads, size = kernels::SizeOf(prompt.dtype);
  std::vector<char> queries(
      static_cast<size_t>(int64_t{prompt.batch} * prompt.num_qo_heads * prompt.seq_q * prompt.head_dim * size));
  placed.prompt_queries(prompt.seq_q, queries.data());
  const auto bytes = static_cast<int64_t>(queries.size());
  const std::shared_ptr<void> q = device.Allocate(bytes);
  device.Upload(queries.data(), bytes, q.get());
  prompt.q = kernels::ContiguousTensor<const void>(q.get(), prompt.num_qo_heads, prompt.seq_q, prompt.head_dim);

  const auto state = std::make_shared<DecodeState>();
  AddWorkspace(device, kernels::PromptVotesWorkspaceBytes(prompt, *votes), state.get());
  const std::shared_ptr<void> tokens = device.Allocate(lists * votes->kept * int64_t{sizeof(int32_t)});
  const auto choose = [prompt, votes = *votes, q, state, tokens] {
    return kernels::KeepByPromptVotesCuda(prompt, votes, nullptr, static_cast<int32_t*>(tokens.get()),
                                          state->workspace.get(), state->workspace_bytes, nullptr);
  };
  const kernels::Status status = choose();
  if (status.code() == kernels::StatusCode::kUnsupported) return {};
  CheckStatus(status);
  DecodeWork work;
  work.variant = "choose from the prompt";
  work.upkeep = true;
  work.attend = [choose] { CheckStatus(choose()); };
  work.bytes_moved = lists * prompt.seq_k * prompt.head_dim * size;  // every key, once
  return work;
}

}  // namespace

std::vector<DecodeWork> CudaDecodeWork(BenchDevice& device, const PlacedProblem& placed,
                                       const kernels::DecodeMethod& method, const kernels::ParameterValues& values,
                                       const kernels::RunOptions& options) {
  if (method.spec().baseline) return {DenseWork(device, placed)};
  const CudaDecodeStep how(method, values, placed.problem, CudaDecodeStep::IfSlower::kYield);
  switch (how.way()) {
    case CudaDecodeStep::Way::kTopTokens:
      return SparqWork(device, placed, how, options.num_threads);
    case CudaDecodeStep::Way::kPages:
      return QuestWork(device, placed, how);
    case CudaDecodeStep::Way::kSelection:
      break;
  }
  std::vector<DecodeWork> work = {SelectOnCpu(device, placed, method, values, options)};
  if (std::optional<DecodeWork> choice = PromptChoice(device, placed, method, values)) work.push_back(*choice);
  return work;
}

}  // namespace headscope::app::bench
