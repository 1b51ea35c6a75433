// SPDX-License-Identifier: Apache-2.0
#include "bench/placed_problem.h"

#include <cmath>
#include <iterator>

#include "base/check_status.h"
#include "base/errors.h"
#include "data/trace_reader.h"
#include "kernels/contiguous.h"

namespace headscope::app::bench {
namespace {

using kernels::DType;
using kernels::SeededProblem;
using kernels::SeededTensor;

int64_t BytesOf(const SeededProblem& shape, SeededTensor tensor, DType dtype) {
  return kernels::ElementCount(shape, tensor) * kernels::SizeOf(dtype);
}

void Fill(Device& device, const SeededProblem& shape, SeededTensor tensor, DType dtype,
          const kernels::RunOptions& options, const TraceHeads* trace, void* memory) {
  const auto fill = [&](void* out) {
    if (trace != nullptr) return trace->Fill(shape, tensor, dtype, out);
    CheckStatus(kernels::FillSeeded(shape, tensor, dtype, options, out));
  };
  if (device.is_host()) return fill(memory);
  const int64_t bytes = BytesOf(shape, tensor, dtype);
  const std::unique_ptr<char[]> host(new char[static_cast<size_t>(bytes)]);
  fill(host.get());
  device.Upload(host.get(), bytes, memory);
}

data::Encoding EncodingOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return data::Encoding::kFloat32;
    case DType::kBFloat16:
      return data::Encoding::kBFloat16;
    case DType::kFloat16:
      return data::Encoding::kFloat16;
  }
  throw FailedError("an output of an unknown element type cannot be read; please report this");
}

}  // namespace

std::unique_ptr<const PlacedProblem> Place(Device& device, const SeededProblem& shape, DType dtype,
                                           const kernels::RunOptions& options, const TraceHeads* trace) {
  auto placed = std::make_unique<PlacedProblem>();
  // All of the memory first: filling it takes seconds to minutes, and a problem that is too large is refused before.
  constexpr SeededTensor kInputs[] = {SeededTensor::kQuery, SeededTensor::kKey, SeededTensor::kValue};
  for (const SeededTensor tensor : kInputs) {
    placed->memory.push_back(device.Allocate(BytesOf(shape, tensor, dtype)));
  }
  placed->output_dtype = device.OutputType(dtype);
  const int64_t num_rows = int64_t{shape.batch} * shape.num_qo_heads * shape.seq_q;
  placed->memory.push_back(device.Allocate(num_rows * shape.head_dim * kernels::SizeOf(placed->output_dtype)));
  placed->memory.push_back(device.Allocate(num_rows * int64_t{sizeof(float)}));
  for (size_t i = 0; i < std::size(kInputs); ++i) {
    Fill(device, shape, kInputs[i], dtype, options, trace, placed->memory[i].get());
  }

  kernels::AttentionProblem& problem = placed->problem;
  problem.batch = shape.batch;
  problem.num_qo_heads = shape.num_qo_heads;
  problem.num_kv_heads = shape.num_kv_heads;
  problem.head_dim = shape.head_dim;
  problem.seq_q = shape.seq_q;
  problem.seq_k = shape.seq_k;
  problem.first_position = shape.seq_k - shape.seq_q;
  problem.dtype = dtype;
  if (trace != nullptr) problem.scale = trace->scale();
  const auto data = [&](size_t i) -> void* { return placed->memory[i].get(); };
  kernels::SetContiguousTensors(data(0), data(1), data(2), &problem);
  placed->output.o = kernels::ContiguousTensor<void>(data(3), problem.num_qo_heads, problem.seq_q, problem.head_dim);
  placed->output.lse = static_cast<float*>(data(4));
  return placed;
}

std::vector<float> ReadElements(Device& device, const void* data, DType dtype, int64_t first, int64_t count) {
  const int64_t size = kernels::SizeOf(dtype);
  std::vector<char> stored(static_cast<size_t>(count * size));
  device.Download(static_cast<const char*>(data) + first * size, static_cast<int64_t>(stored.size()), stored.data());
  std::vector<float> values(static_cast<size_t>(count));
  data::DecodeToFloat(stored.data(), EncodingOf(dtype), count, values.data());
  return values;
}

std::vector<float> ReadFirstHead(Device& device, const PlacedProblem& placed) {
  return ReadElements(device, placed.output.o.data, placed.output_dtype, 0,
                      int64_t{placed.problem.seq_q} * placed.problem.head_dim);
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
