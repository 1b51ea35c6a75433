// SPDX-License-Identifier: Apache-2.0
#include "bench/cuda_decode_work.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/check_status.h"
#include "base/errors.h"
#include "bench/host_decode_step.h"
#include "bench/host_tensors.h"
#include "kernels/contiguous.h"
#include "kernels/cuda_decode_step.h"
#include "kernels/cuda_prompt_votes.h"
#include "kernels/step_elements.h"

namespace headscope::app::bench {
namespace {

using kernels::AttentionProblem;
using kernels::CudaDecodeStep;
using kernels::CudaSelectionStep;

// Scratch memory of the calls of one problem.
struct DecodeState {
  std::shared_ptr<void> workspace;
  size_t workspace_bytes = 0;
};

void AddWorkspace(BenchDevice& device, size_t bytes, DecodeState* state) {
  const std::vector<char> zeros(std::max<size_t>(bytes, 16));
  state->workspace = device.Allocate(static_cast<int64_t>(zeros.size()));
  state->workspace_bytes = zeros.size();
  device.Upload(zeros.data(), static_cast<int64_t>(zeros.size()), state->workspace.get());
}

DecodeWork DenseWork(BenchDevice& device, const PlacedProblem& placed) {
  const auto state = std::make_shared<DecodeState>();
  const auto whole = std::make_shared<kernels::CudaSelectionBuffers>();
  CheckStatus(kernels::UploadSelection(placed.problem, kernels::WholeCache(placed.problem), whole.get()));
  AddWorkspace(device, CudaSelectionStep(whole->view).WorkspaceBytes(placed.problem), state.get());
  DecodeWork work;
  work.attend = [&placed, state, whole] {
    CheckStatus(
        CudaSelectionStep(whole->view)
            .Run(placed.problem, {}, placed.output, nullptr, state->workspace.get(), state->workspace_bytes, nullptr));
  };
  work.bytes_moved = StepBytes(placed.problem, kernels::ElementsOfTokens(placed.problem, placed.problem.seq_k));
  return work;
}

// A method's step that chooses as it attends. What it keeps beside K and V lies there before it, as a serving engine
// holds it.
struct ChoosingStep {
  ChoosingStep(BenchDevice& device, const AttentionProblem& problem, std::unique_ptr<CudaDecodeStep> made)
      : step(std::move(made)) {
    AddWorkspace(device, step->WorkspaceBytes(problem), &state);
    if (const int64_t bytes = step->KeptBytes(problem, problem.seq_k); bytes > 0) {
      memory = device.Allocate(bytes);
      kept = {memory.get(), problem.seq_k};
      CheckStatus(step->Update(problem, 0, kept, nullptr));
    }
  }

  const std::unique_ptr<CudaDecodeStep> step;
  DecodeState state;
  std::shared_ptr<void> memory;
  kernels::CudaKept kept;
};

DecodeWork WorkOf(const PlacedProblem& placed, const std::shared_ptr<ChoosingStep>& of) {
  const AttentionProblem& problem = placed.problem;
  DecodeWork work;
  work.variant = of->step->Variant();
  int64_t elements = of->step->ElementsMoved(problem);
  if (of->step->YieldsToDense(problem)) {
    work.variant += work.variant.empty() ? "yields to dense" : ", yields to dense";
    elements = kernels::ElementsOfTokens(problem, problem.seq_k);
  }
  work.attend = [&placed, of] {
    CheckStatus(of->step->Run(placed.problem, of->kept, placed.output, nullptr, of->state.workspace.get(),
                              of->state.workspace_bytes, nullptr));
  };
  work.bytes_moved = StepBytes(problem, elements);
  return work;
}

// What the newest token costs besides. It is appended over and over, which leaves a mean of nothing, and takes as long.
DecodeWork UpkeepOf(const PlacedProblem& placed, const std::shared_ptr<ChoosingStep>& of) {
  DecodeWork work;
  work.variant = "append a token";
  work.upkeep = true;
  work.attend = [&placed, of] {
    CheckStatus(of->step->Update(placed.problem, placed.problem.seq_k - 1, of->kept, nullptr));
  };
  work.bytes_moved = of->step->UpdateBytes(placed.problem, placed.problem.seq_k - 1);
  return work;
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
    const size_t bytes = CudaSelectionStep(state->uploaded.view).WorkspaceBytes(placed.problem);
    if (bytes <= state->workspace_bytes) return;
    const std::vector<char> zeros(bytes);
    state->workspace = device.Allocate(static_cast<int64_t>(bytes));
    device.Upload(zeros.data(), static_cast<int64_t>(bytes), state->workspace.get());
    state->workspace_bytes = bytes;
  };
  work.attend = [&placed, state] {
    CheckStatus(
        CudaSelectionStep(state->uploaded.view)
            .Run(placed.problem, {}, placed.output, nullptr, state->workspace.get(), state->workspace_bytes, nullptr));
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
  return ChoiceFromPrompt(placed.problem, [choose] { CheckStatus(choose()); });
}

}  // namespace

std::vector<DecodeWork> CudaDecodeWork(BenchDevice& device, const PlacedProblem& placed,
                                       const kernels::DecodeMethod& method, const kernels::ParameterValues& values,
                                       const kernels::RunOptions& options) {
  if (method.spec().baseline) return {DenseWork(device, placed)};
  std::vector<std::unique_ptr<CudaDecodeStep>> steps;
  if (kernels::PlanCudaDecodeSteps(method, values, placed.problem, kernels::IfSlower::kYield, &steps).ok()) {
    std::vector<DecodeWork> works;
    std::shared_ptr<ChoosingStep> first;
    for (std::unique_ptr<CudaDecodeStep>& step : steps) {
      const auto made = std::make_shared<ChoosingStep>(device, placed.problem, std::move(step));
      works.push_back(WorkOf(placed, made));
      if (first == nullptr) first = made;
    }
    if (first->memory != nullptr) works.push_back(UpkeepOf(placed, first));
    return works;
  }
  std::vector<DecodeWork> work = {SelectOnCpu(device, placed, method, values, options)};
  if (std::optional<DecodeWork> choice = PromptChoice(device, placed, method, values)) work.push_back(*choice);
  return work;
}

}  // namespace headscope::app::bench
