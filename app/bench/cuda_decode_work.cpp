#include "bench/cuda_decode_work.h"

#include <algorithm>

#include "kernels/cuda_decode.h"
#include "kernels/sparq_setup.h"
#include "support/errors.h"

namespace headscope::app::bench {
namespace {

using kernels::AttentionProblem;

// Device memory of the calls of one problem; shared by its variants.
struct DecodeState {
  std::shared_ptr<void> workspace;
  size_t workspace_bytes = 0;
  std::shared_ptr<void> mean_value, transposed_memory;
  kernels::TransposedKeys transposed;
};

void AddWorkspace(Device& device, size_t bytes, DecodeState* state) {
  const std::vector<char> zeros(std::max<size_t>(bytes, 16));
  state->workspace = device.Allocate(static_cast<int64_t>(zeros.size()));
  state->workspace_bytes = zeros.size();
  device.Upload(zeros.data(), static_cast<int64_t>(zeros.size()), state->workspace.get());
}

int64_t KeyElements(const AttentionProblem& problem) {
  return int64_t{problem.batch} * problem.num_kv_heads * problem.seq_k * problem.head_dim;
}

// The component-major copy of K and the mean of V, as a serving engine would hold them before the step.
void AddSparqState(Device& device, const PlacedProblem& placed, int32_t num_threads, DecodeState* state) {
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

DecodeWork DenseWork(Device& device, const PlacedProblem& placed) {
  const auto state = std::make_shared<DecodeState>();
  AddWorkspace(device, kernels::DecodeWorkspaceBytes(placed.problem, {}), state.get());
  DecodeWork work;
  work.attend = [&placed, state] {
    Require(kernels::DecodeDenseCuda(placed.problem, placed.output, state->workspace.get(), state->workspace_bytes,
                                     nullptr));
  };
  work.bytes_moved = DecodeBytes(placed.problem, placed.problem.seq_k, 0);
  return work;
}

std::vector<DecodeWork> SparqWork(Device& device, const PlacedProblem& placed, const kernels::SparqCudaOptions& options,
                                  int32_t num_threads) {
  const AttentionProblem& problem = placed.problem;
  const auto state = std::make_shared<DecodeState>();
  AddWorkspace(device, kernels::DecodeWorkspaceBytes(problem, options), state.get());
  AddSparqState(device, placed, num_threads, state.get());
  const auto step = [&placed, state, options](bool two_copies) {
    Require(kernels::DecodeSparqCuda(placed.problem, options,
                                     two_copies ? state->transposed : kernels::TransposedKeys{},
                                     static_cast<const float*>(state->mean_value.get()), placed.output, nullptr,
                                     state->workspace.get(), state->workspace_bytes, nullptr));
  };
  const int64_t chosen = std::min(options.num_tokens, problem.seq_k);
  DecodeWork two_copies;
  two_copies.variant = "two copies of K";
  two_copies.attend = [step] { step(true); };
  two_copies.bytes_moved = DecodeBytes(problem, chosen, options.rank);
  DecodeWork one_copy;
  one_copy.variant = "one copy of K";
  one_copy.attend = [step] { step(false); };
  one_copy.bytes_moved = DecodeBytes(problem, chosen, problem.head_dim);
  DecodeWork append;
  append.variant = "append a token";
  append.upkeep = true;
  append.attend = [&placed, state] {
    Require(kernels::AppendTokenCuda(placed.problem, state->transposed, static_cast<float*>(state->mean_value.get()),
                                     nullptr));
  };
  append.bytes_moved = AppendBytes(problem);
  return {two_copies, one_copy, append};
}

}  // namespace

std::vector<DecodeWork> CudaDecodeWork(Device& device, const PlacedProblem& placed, const kernels::DecodeMethod& method,
                                       const kernels::ParameterValues& values, const kernels::RunOptions& options) {
  const std::string& name = method.spec().name;
  if (method.spec().baseline) return {DenseWork(device, placed)};
  if (name != "sparq") {
    throw UsageError("--methods decode/" + name + ": decode kernels for GPUs are dense and sparq; use --device cpu");
  }
  return SparqWork(device, placed, kernels::SparqOptions(values, placed.problem), options.num_threads);
}

}  // namespace headscope::app::bench
