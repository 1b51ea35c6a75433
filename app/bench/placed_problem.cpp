#include "bench/placed_problem.h"

#include <bit>
#include <cmath>

namespace headscope::app::bench {
namespace {

using kernels::DType;
using kernels::SeededProblem;
using kernels::SeededTensor;

std::shared_ptr<void> PlaceTensor(Device& device, const SeededProblem& shape, SeededTensor tensor, DType dtype,
                                  const kernels::RunOptions& options) {
  const int64_t bytes = kernels::ElementCount(shape, tensor) * kernels::SizeOf(dtype);
  std::shared_ptr<void> memory = device.Allocate(bytes);
  if (device.is_host()) {
    Require(kernels::FillSeeded(shape, tensor, dtype, options, memory.get()));
  } else {
    const std::unique_ptr<char[]> host(new char[static_cast<size_t>(bytes)]);
    Require(kernels::FillSeeded(shape, tensor, dtype, options, host.get()));
    device.Upload(host.get(), bytes, memory.get());
  }
  return memory;
}

// Contiguous [batch, heads, rows, head_dim].
template <typename Void>
kernels::StridedTensor<Void> Contiguous(Void* data, int64_t heads, int64_t rows, int64_t head_dim) {
  return {data, heads * rows * head_dim, rows * head_dim, head_dim};
}

float FromFloat16(uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const auto mantissa = static_cast<float>(bits & 0x3ff);
  float magnitude = 0;
  if (exponent == 0x1f) {
    magnitude = mantissa == 0 ? INFINITY : NAN;
  } else {
    magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024.0f + mantissa, exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

}  // namespace

std::unique_ptr<const PlacedProblem> Place(Device& device, const SeededProblem& shape, DType dtype,
                                           const kernels::RunOptions& options) {
  auto placed = std::make_unique<PlacedProblem>();
  for (const SeededTensor tensor : {SeededTensor::kQuery, SeededTensor::kKey, SeededTensor::kValue}) {
    placed->memory.push_back(PlaceTensor(device, shape, tensor, dtype, options));
  }
  placed->output_dtype = device.OutputType(dtype);
  const int64_t num_rows = int64_t{shape.batch} * shape.num_qo_heads * shape.seq_q;
  placed->memory.push_back(device.Allocate(num_rows * shape.head_dim * kernels::SizeOf(placed->output_dtype)));
  placed->memory.push_back(device.Allocate(num_rows * int64_t{sizeof(float)}));

  kernels::AttentionProblem& problem = placed->problem;
  problem.batch = shape.batch;
  problem.num_qo_heads = shape.num_qo_heads;
  problem.num_kv_heads = shape.num_kv_heads;
  problem.head_dim = shape.head_dim;
  problem.seq_q = shape.seq_q;
  problem.seq_k = shape.seq_k;
  problem.first_position = shape.seq_k - shape.seq_q;
  problem.dtype = dtype;
  const auto data = [&](size_t i) -> void* { return placed->memory[i].get(); };
  problem.q = Contiguous<const void>(data(0), shape.num_qo_heads, shape.seq_q, shape.head_dim);
  problem.k = Contiguous<const void>(data(1), shape.num_kv_heads, shape.seq_k, shape.head_dim);
  problem.v = Contiguous<const void>(data(2), shape.num_kv_heads, shape.seq_k, shape.head_dim);
  placed->output.o = Contiguous<void>(data(3), shape.num_qo_heads, shape.seq_q, shape.head_dim);
  placed->output.lse = static_cast<float*>(data(4));
  return placed;
}

std::vector<float> ReadFirstHead(Device& device, const PlacedProblem& placed) {
  const auto count = static_cast<size_t>(int64_t{placed.problem.seq_q} * placed.problem.head_dim);
  std::vector<float> values(count);
  if (placed.output_dtype == DType::kFloat32) {
    device.Download(placed.output.o.data, static_cast<int64_t>(count * sizeof(float)), values.data());
    return values;
  }
  std::vector<uint16_t> stored(count);
  device.Download(placed.output.o.data, static_cast<int64_t>(count * sizeof(uint16_t)), stored.data());
  for (size_t i = 0; i < count; ++i) {
    values[i] = placed.output_dtype == DType::kBFloat16 ? std::bit_cast<float>(static_cast<uint32_t>(stored[i]) << 16)
                                                        : FromFloat16(stored[i]);
  }
  return values;
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
