// SPDX-License-Identifier: Apache-2.0
#include "bench/placed_problem.h"

#include <cmath>
#include <iterator>
#include <utility>

#include "base/check_status.h"
#include "base/errors.h"
#include "data/trace_reader.h"
#include "kernels/contiguous.h"
#include "kernels/index_window.h"

namespace headscope::app::bench {
namespace {

using kernels::DType;
using kernels::SeededProblem;
using kernels::SeededTensor;

// What fills a problem's tensors: a seed, or a trace from one of its tokens on.
struct Source {
  SeededProblem shape;
  DType dtype;
  const kernels::RunOptions& options;
  const TraceHeads* trace;
  int32_t first_token = 0;

  int64_t Bytes(SeededTensor tensor) const {
    int64_t elements = kernels::ElementCount(shape, tensor);
    if (trace != nullptr && tensor == SeededTensor::kValue)
      elements = elements / shape.head_dim * trace->facts().v_head_dim;
    return elements * kernels::SizeOf(dtype);
  }
  void Fill(SeededTensor tensor, void* host) const {
    if (trace != nullptr) return trace->Fill(shape, tensor, dtype, first_token, host);
    CheckStatus(kernels::FillSeeded(shape, tensor, dtype, options, host));
  }
};

void Fill(BenchDevice& device, const Source& source, SeededTensor tensor, void* memory) {
  if (device.is_host()) return source.Fill(tensor, memory);
  const int64_t bytes = source.Bytes(tensor);
  const std::unique_ptr<char[]> host(new char[static_cast<size_t>(bytes)]);
  source.Fill(tensor, host.get());
  device.Upload(host.get(), bytes, memory);
}

}  // namespace

std::unique_ptr<const PlacedProblem> Place(BenchDevice& device, const SeededProblem& of, DType dtype,
                                           const kernels::RunOptions& options, const TraceHeads* trace) {
  auto placed = std::make_unique<PlacedProblem>();
  Source source{.shape = of, .dtype = dtype, .options = options, .trace = trace};
  const bool is_step = of.seq_q < of.seq_k || of.seq_k == 1;
  if (trace != nullptr) placed->window = trace->facts().window;
  if (placed->window >= of.seq_k) placed->window = 0;
  if (is_step && placed->window > 0) {
    source.first_token = of.seq_k - placed->window;
    source.shape.seq_k = placed->window;
  }
  const SeededProblem& shape = source.shape;

  kernels::AttentionProblem& problem = placed->problem;
  problem.batch = shape.batch;
  problem.num_qo_heads = shape.num_qo_heads;
  problem.num_kv_heads = shape.num_kv_heads;
  problem.head_dim = shape.head_dim;
  problem.seq_q = shape.seq_q;
  problem.seq_k = shape.seq_k;
  problem.first_position = shape.seq_k - shape.seq_q;
  problem.dtype = dtype;
  if (trace != nullptr) {
    const data::LayerFacts& facts = trace->facts();
    problem.layer = trace->layer();
    problem.v_head_dim = facts.v_head_dim;
    problem.scale = facts.softmax_scale;
    problem.soft_cap = facts.soft_cap;
    if (!facts.sinks.empty()) problem.sinks = facts.sinks.data();
  }

  // All of the memory first: filling it takes seconds to minutes, and a problem that is too large is refused before.
  constexpr SeededTensor kInputs[] = {SeededTensor::kQuery, SeededTensor::kKey, SeededTensor::kValue};
  for (const SeededTensor tensor : kInputs) placed->memory.push_back(device.Allocate(source.Bytes(tensor)));
  placed->output_dtype = device.OutputType(dtype);
  const int64_t num_rows = int64_t{shape.batch} * shape.num_qo_heads * shape.seq_q;
  placed->memory.push_back(device.Allocate(num_rows * problem.ValueDim() * kernels::SizeOf(placed->output_dtype)));
  placed->memory.push_back(device.Allocate(num_rows * int64_t{sizeof(float)}));
  for (size_t i = 0; i < std::size(kInputs); ++i) Fill(device, source, kInputs[i], placed->memory[i].get());

  const auto data = [&](size_t i) -> void* { return placed->memory[i].get(); };
  kernels::SetContiguousTensors(data(0), data(1), data(2), &problem);
  placed->output.o = kernels::ContiguousTensor<void>(data(3), problem.num_qo_heads, problem.seq_q, problem.ValueDim());
  placed->output.lse = static_cast<float*>(data(4));
  if (is_step) {
    placed->prompt_queries = [shape, dtype, options, trace, first = source.first_token](int32_t rows, void* out) {
      Source prompt{.shape = shape, .dtype = dtype, .options = options, .trace = trace, .first_token = first};
      prompt.shape.seq_q = rows;
      --prompt.shape.seq_k;
      prompt.Fill(SeededTensor::kQuery, out);
    };
  }
  return placed;
}

kernels::SparseIndex InsideWindow(const PlacedProblem& placed, kernels::SparseIndex index) {
  return placed.window > 0 ? kernels::CutToWindow(index.View(), placed.window) : std::move(index);
}

std::vector<float> ReadElements(BenchDevice& device, const void* data, DType dtype, int64_t first, int64_t count) {
  const int64_t size = kernels::SizeOf(dtype);
  std::vector<char> stored(static_cast<size_t>(count * size));
  device.Download(static_cast<const char*>(data) + first * size, static_cast<int64_t>(stored.size()), stored.data());
  std::vector<float> values(static_cast<size_t>(count));
  data::DecodeToFloat(stored.data(), ElementTypeOf(dtype), count, values.data());
  return values;
}

std::vector<float> ReadFirstHead(BenchDevice& device, const PlacedProblem& placed) {
  return ReadElements(device, placed.output.o.data, placed.output_dtype, 0,
                      int64_t{placed.problem.seq_q} * placed.problem.ValueDim());
}

std::function<void()> BenchDevice::AttendTokens(const kernels::TokenAttention&) {
  throw UsageError({.field = "methods",
                    .value = "latent/..",
                    .problem = "attention over chosen tokens runs on a GPU",
                    .remedy = "give --device cuda"});
}

PrefillWork BenchDevice::AttendFp8(const PlacedProblem&, kernels::SparseIndex) {
  throw UsageError({.field = "methods",
                    .value = "fp8/..",
                    .problem = "attention in FP8 runs on a GPU",
                    .remedy = "give --device cuda"});
}

double RelativeDistance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    norm += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(difference / norm);
}

}  // namespace headscope::app::bench
