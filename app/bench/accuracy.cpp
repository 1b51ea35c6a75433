// SPDX-License-Identifier: Apache-2.0
#include "bench/accuracy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/errors.h"
#include "bench/placed_problem.h"
#include "kernels/parallel.h"

namespace headscope::app::bench {
namespace {

constexpr int64_t kMostRows = 32;

}  // namespace

ExactRows::ExactRows(Device& device, const PlacedProblem& placed, int32_t num_threads, const std::stop_token& stop) {
  const kernels::AttentionProblem& problem = placed.problem;
  head_dim_ = problem.head_dim;
  const auto read = [&](const void* data, int64_t rows) {
    return ReadElements(device, data, problem.dtype, 0, rows * head_dim_);
  };
  const std::vector<float> q = read(problem.q.data, problem.seq_q);
  const std::vector<float> k = read(problem.k.data, problem.seq_k), v = read(problem.v.data, problem.seq_k);
  const int64_t count = std::min<int64_t>(kMostRows, problem.seq_q);
  for (int64_t i = 1; i <= count; ++i) rows_.push_back(i * problem.seq_q / count - 1);
  exact_.resize(static_cast<size_t>(count * head_dim_));
  const double scale =
      problem.scale != 0 ? double{problem.scale} : 1.0 / std::sqrt(static_cast<double>(problem.head_dim));
  const bool all = kernels::ParallelFor(count, num_threads, stop, [&](int64_t i, int32_t) {
    const int64_t keys = problem.first_position + rows_[static_cast<size_t>(i)] + 1;
    const float* const query = q.data() + rows_[static_cast<size_t>(i)] * head_dim_;
    std::vector<double> scores(static_cast<size_t>(keys));
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t j = 0; j < keys; ++j) {
      double dot = 0;
      const float* const key = k.data() + j * head_dim_;
      for (int64_t d = 0; d < head_dim_; ++d) dot += double{query[d]} * double{key[d]};
      scores[static_cast<size_t>(j)] = dot * scale;
      largest = std::max(largest, dot * scale);
    }
    double* const out = exact_.data() + i * head_dim_;
    for (int64_t j = 0; j < keys; ++j) {
      const double weight = std::exp(scores[static_cast<size_t>(j)] - largest);
      sum += weight;
      const float* const value = v.data() + j * head_dim_;
      for (int64_t d = 0; d < head_dim_; ++d) out[d] += weight * double{value[d]};
    }
    for (int64_t d = 0; d < head_dim_; ++d) out[d] /= sum;
  });
  if (!all) throw CancelledError("interrupted");
}

RowErrors ExactRows::ErrorsOf(const std::vector<float>& output) const {
  RowErrors errors{0, 0};
  double difference = 0, norm = 0;
  for (size_t i = 0; i < rows_.size(); ++i) {
    double of_row = 0, norm_of_row = 0;
    for (int64_t d = 0; d < head_dim_; ++d) {
      const double exact = exact_[i * static_cast<size_t>(head_dim_) + static_cast<size_t>(d)];
      of_row += std::pow(double{output[static_cast<size_t>(rows_[i] * head_dim_ + d)]} - exact, 2);
      norm_of_row += exact * exact;
    }
    difference += of_row;
    norm += norm_of_row;
    errors.worst = std::max(errors.worst, std::sqrt(of_row / norm_of_row));
  }
  errors.all = std::sqrt(difference / norm);
  return errors;
}

}  // namespace headscope::app::bench
