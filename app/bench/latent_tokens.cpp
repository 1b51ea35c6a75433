// SPDX-License-Identifier: Apache-2.0
#include "bench/latent_tokens.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check_status.h"
#include "base/stop.h"
#include "bench/placed_problem.h"
#include "kernels/parallel.h"
#include "kernels/token_lists.h"

namespace headscope::app::bench {
namespace {

using kernels::kLatentKeyDim;
using kernels::kLatentValueDim;
using kernels::SeededTensor;

constexpr kernels::DType kType = kernels::DType::kBFloat16;

// Attention of head 0 of some queries in float64, and how far the output is from it.
RowErrors ErrorsOf(BenchDevice& device, const kernels::TokenAttention& attention, const std::vector<int32_t>& lists,
                   const kernels::RunOptions& options) {
  constexpr int64_t kMostRows = 32;
  const int64_t count = std::min<int64_t>(kMostRows, attention.num_queries);
  const std::vector<float> keys =
      ReadElements(device, attention.kv, kType, 0, int64_t{attention.num_keys} * kLatentKeyDim);
  std::vector<double> differences(static_cast<size_t>(count)), norms(static_cast<size_t>(count));
  std::vector<std::vector<float>> queries, outputs;
  const auto query_of = [&](int64_t i) { return (i + 1) * attention.num_queries / count - 1; };
  for (int64_t i = 0; i < count; ++i) {
    queries.push_back(ReadElements(device, attention.q, kType, query_of(i) * attention.q_query_stride, kLatentKeyDim));
    outputs.push_back(
        ReadElements(device, attention.o, kType, query_of(i) * attention.o_query_stride, kLatentValueDim));
  }
  const bool all = kernels::ParallelFor(count, options.num_threads, options.stop, [&](int64_t i, int32_t) {
    const int32_t* const list = lists.data() + query_of(i) * attention.list_length;
    std::vector<double> scores, exact(kLatentValueDim, 0.0);
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int32_t n = 0; n < attention.list_length && list[n] >= 0; ++n) {
      const float* const key = keys.data() + int64_t{list[n]} * kLatentKeyDim;
      double dot = 0;
      for (int32_t d = 0; d < kLatentKeyDim; ++d) {
        dot += double{queries[static_cast<size_t>(i)][static_cast<size_t>(d)]} * double{key[d]};
      }
      scores.push_back(dot * double{attention.scale});
      largest = std::max(largest, scores.back());
    }
    for (size_t n = 0; n < scores.size(); ++n) {
      const float* const value = keys.data() + int64_t{list[n]} * kLatentKeyDim;
      const double weight = std::exp(scores[n] - largest);
      sum += weight;
      for (size_t d = 0; d < exact.size(); ++d) exact[d] += weight * double{value[d]};
    }
    for (size_t d = 0; d < exact.size(); ++d) {
      const double wanted = exact[d] / sum;
      differences[static_cast<size_t>(i)] += std::pow(double{outputs[static_cast<size_t>(i)][d]} - wanted, 2);
      norms[static_cast<size_t>(i)] += wanted * wanted;
    }
  });
  StopUnless(all);
  return ErrorsOfRows(differences, norms);
}

}  // namespace

kernels::SeededProblem LatentShape(const kernels::SeededProblem& shape) {
  kernels::SeededProblem latent = shape;
  latent.num_kv_heads = 1;
  latent.head_dim = kLatentKeyDim;
  latent.seq_q = std::min(shape.seq_k, kMostLatentQueries);
  return latent;
}

LatentWork MakeLatentWork(BenchDevice& device, const kernels::SeededProblem& shape, int32_t length,
                          const kernels::RunOptions& options) {
  const int64_t rows = int64_t{shape.seq_q} * shape.num_qo_heads;
  LatentWork work;
  const auto allocate = [&](int64_t bytes) {
    work.memory.push_back(device.Allocate(bytes));
    return work.memory.back().get();
  };
  kernels::TokenAttention attention;
  attention.num_queries = shape.seq_q;
  attention.num_keys = shape.seq_k;
  attention.num_qo_heads = shape.num_qo_heads;
  attention.list_length = length;
  attention.scale = 1.0f / std::sqrt(static_cast<float>(kLatentKeyDim));
  // The recipe lays heads outside queries, and that is how they stay.
  attention.q_query_stride = kLatentKeyDim;
  attention.q_head_stride = int64_t{shape.seq_q} * kLatentKeyDim;
  attention.kv_stride = kLatentKeyDim;
  attention.tokens_stride = length;
  attention.o_query_stride = int64_t{shape.num_qo_heads} * kLatentValueDim;
  attention.o_head_stride = kLatentValueDim;
  const std::vector<int32_t> lists = kernels::MakeTokenLists(
      {.num_queries = shape.seq_q, .first_position = shape.seq_k - shape.seq_q, .length = length, .seed = shape.seed});
  void* const q = allocate(rows * kLatentKeyDim * 2);
  void* const kv = allocate(int64_t{shape.seq_k} * kLatentKeyDim * 2);
  attention.o = allocate(rows * kLatentValueDim * 2);
  attention.lse = static_cast<float*>(allocate(rows * 4));
  void* const tokens = allocate(static_cast<int64_t>(lists.size()) * 4);
  for (const auto& [tensor, memory] : {std::pair{SeededTensor::kQuery, q}, std::pair{SeededTensor::kKey, kv}}) {
    const auto bytes = static_cast<size_t>(kernels::ElementCount(shape, tensor)) * 2;
    const std::unique_ptr<char[]> host(new char[bytes]);
    CheckStatus(kernels::FillSeeded(shape, tensor, kType, options, host.get()));
    device.Upload(host.get(), static_cast<int64_t>(bytes), memory);
  }
  device.Upload(lists.data(), static_cast<int64_t>(lists.size()) * 4, tokens);
  attention.q = q;
  attention.kv = kv;
  attention.tokens = static_cast<const int32_t*>(tokens);

  const int64_t first = shape.seq_k - shape.seq_q;
  for (int64_t position = first; position < shape.seq_k; ++position) {
    work.dense_pairs += (position + 1) * shape.num_qo_heads;
    work.kept_pairs += std::min<int64_t>(position + 1, length) * shape.num_qo_heads;
  }
  work.attend = device.AttendTokens(attention);
  work.attend();
  work.errors = ErrorsOf(device, attention, lists, options);
  return work;
}

}  // namespace headscope::app::bench
