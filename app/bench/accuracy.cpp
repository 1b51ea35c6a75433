// SPDX-License-Identifier: Apache-2.0
#include "bench/accuracy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/errors.h"
#include "base/stop.h"
#include "bench/placed_problem.h"
#include "kernels/parallel.h"

namespace headscope::app::bench {
namespace {

constexpr int64_t kMostRows = 32;

}  // namespace

RowErrors ErrorsOfRows(const std::vector<double>& differences, const std::vector<double>& norms) {
  RowErrors errors{0, 0};
  double difference = 0, norm = 0;
  for (size_t i = 0; i < differences.size(); ++i) {
    difference += differences[i];
    norm += norms[i];
    errors.worst = std::max(errors.worst, std::sqrt(differences[i] / norms[i]));
  }
  errors.all = std::sqrt(difference / norm);
  return errors;
}

ExactRows::ExactRows(BenchDevice& device, const PlacedProblem& placed, int32_t num_threads, const std::stop_token& stop,
                     const kernels::SparseIndex* kept) {
  const kernels::AttentionProblem& problem = placed.problem;
  const int64_t head_dim = problem.head_dim;
  v_head_dim_ = problem.ValueDim();
  const auto read = [&](const void* data, int64_t elements) {
    return ReadElements(device, data, problem.dtype, 0, elements);
  };
  const std::vector<float> q = read(problem.q.data, problem.seq_q * head_dim),
                           k = read(problem.k.data, problem.seq_k * head_dim),
                           v = read(problem.v.data, problem.seq_k * v_head_dim_);
  const int64_t count = std::min<int64_t>(kMostRows, problem.seq_q);
  for (int64_t i = 1; i <= count; ++i) rows_.push_back(i * problem.seq_q / count - 1);
  exact_.resize(static_cast<size_t>(count * v_head_dim_));
  const double scale = double{problem.EffectiveScale()};
  const bool all = kernels::ParallelFor(count, num_threads, stop, [&](int64_t i, int32_t) {
    const int64_t position = problem.first_position + rows_[static_cast<size_t>(i)];
    const int64_t first = placed.window > 0 ? std::max<int64_t>(0, position - placed.window + 1) : 0;
    const float* const query = q.data() + rows_[static_cast<size_t>(i)] * head_dim;
    std::vector<int64_t> keys;
    if (kept == nullptr) {
      for (int64_t j = first; j <= position; ++j) keys.push_back(j);
    } else {
      std::vector<kernels::ColumnRange> ranges;
      kernels::AppendKeptRanges(kept->View(), 0, 0, static_cast<int32_t>(rows_[static_cast<size_t>(i)]), &ranges);
      for (const kernels::ColumnRange& range : ranges) {
        for (int64_t j = range.begin; j < range.end; ++j) keys.push_back(j);
      }
    }
    std::vector<double> scores;
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    if (problem.sinks != nullptr) largest = double{problem.sinks[0]};
    for (const int64_t j : keys) {
      double dot = 0;
      const float* const key = k.data() + j * head_dim;
      for (int64_t d = 0; d < head_dim; ++d) dot += double{query[d]} * double{key[d]};
      double score = dot * scale;
      if (problem.soft_cap > 0) score = double{problem.soft_cap} * std::tanh(score / double{problem.soft_cap});
      scores.push_back(score);
      largest = std::max(largest, score);
    }
    // A sink takes its share and has no value.
    if (problem.sinks != nullptr) sum = std::exp(double{problem.sinks[0]} - largest);
    double* const out = exact_.data() + i * v_head_dim_;
    for (size_t n = 0; n < keys.size(); ++n) {
      const double weight = std::exp(scores[n] - largest);
      sum += weight;
      const float* const value = v.data() + keys[n] * v_head_dim_;
      for (int64_t d = 0; d < v_head_dim_; ++d) out[d] += weight * double{value[d]};
    }
    for (int64_t d = 0; d < v_head_dim_; ++d) out[d] /= sum;
  });
  StopUnless(all);
}

RowErrors ExactRows::ErrorsOf(const std::vector<float>& output) const {
  std::vector<double> differences(rows_.size()), norms(rows_.size());
  for (size_t i = 0; i < rows_.size(); ++i) {
    for (int64_t d = 0; d < v_head_dim_; ++d) {
      const double exact = exact_[i * static_cast<size_t>(v_head_dim_) + static_cast<size_t>(d)];
      differences[i] += std::pow(double{output[static_cast<size_t>(rows_[i] * v_head_dim_ + d)]} - exact, 2);
      norms[i] += exact * exact;
    }
  }
  return ErrorsOfRows(differences, norms);
}

}  // namespace headscope::app::bench
