// SPDX-License-Identifier: Apache-2.0
#include "cuda_statistics_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "float_codes.h"
#include "kernels/contiguous.h"
#include "problem_shape.h"

namespace headscope::kernels::testing {

AttentionProblem ProblemOf(const StatisticsCase& shape, const void* q, const void* k) {
  AttentionProblem problem = test::ProblemOf({.batch = shape.batch,
                                              .num_qo_heads = shape.num_qo_heads,
                                              .num_kv_heads = shape.num_kv_heads,
                                              .head_dim = shape.head_dim,
                                              .seq_q = shape.seq_q,
                                              .seq_k = shape.seq_k,
                                              .first_position = shape.first_position,
                                              .dtype = shape.dtype,
                                              .soft_cap = shape.soft_cap});
  SetContiguousTensors(q, k, nullptr, &problem);
  return problem;
}

StatisticsProblem::StatisticsProblem(const StatisticsCase& shape, uint32_t seed) : shape_(shape) {
  const int64_t head_dim = shape.head_dim;
  const int64_t q_rows = NumRows();
  const int64_t k_rows = int64_t{shape.batch} * shape.num_kv_heads * shape.seq_k;
  std::mt19937 random(seed);
  // Unless the case says otherwise, scores get a standard deviation of about 2.5: rows neither even nor ruled by one
  // key.
  std::normal_distribution<float> normal(0.0f, shape.deviation);
  const auto fill = [&](std::vector<uint16_t>* values, int64_t count) {
    values->resize(static_cast<size_t>(count));
    for (uint16_t& value : *values) value = test::ToCode(normal(random), shape.dtype);
  };
  fill(&q_, q_rows * head_dim);
  fill(&k_, k_rows * head_dim);
  for (int64_t row = 0; row < k_rows; ++row) {
    const int64_t column = row % shape.seq_k;
    const int64_t last = int64_t{shape.first_position} + shape.seq_q - 1;
    const bool read = column <= last && (shape.window == 0 || shape.first_position - column < shape.window);
    if (!read) std::fill_n(k_.begin() + row * head_dim, head_dim, uint16_t{0x7fff});  // NaN in both formats
  }

  problem_ = ProblemOf(shape, q_.data(), k_.data());

  const double scale = 1 / std::sqrt(static_cast<double>(head_dim));
  p_.assign(static_cast<size_t>(q_rows * shape.seq_k), 0.0);
  std::vector<double> keys;
  for (int64_t slot = 0; slot < q_rows; ++slot) {
    const int64_t row = slot % shape.seq_q;
    const int64_t head = slot / shape.seq_q % shape.num_qo_heads;
    const int64_t sequence = slot / shape.seq_q / shape.num_qo_heads;
    const int64_t kv = sequence * shape.num_kv_heads + head / (shape.num_qo_heads / shape.num_kv_heads);
    if (row == 0) {
      keys.resize(static_cast<size_t>(shape.seq_k * head_dim));
      for (size_t i = 0; i < keys.size(); ++i) {
        keys[i] = test::FromCode(k_[static_cast<size_t>(kv * shape.seq_k * head_dim) + i], shape.dtype);
      }
    }
    std::vector<double> query(static_cast<size_t>(head_dim));
    for (size_t i = 0; i < query.size(); ++i) {
      query[i] = test::FromCode(q_[static_cast<size_t>(slot * head_dim) + i], shape.dtype);
    }
    double* const p = p_.data() + slot * shape.seq_k;
    double largest = -std::numeric_limits<double>::infinity();
    for (int64_t column = 0; column < shape.seq_k; ++column) {
      if (!Attends(row, column)) continue;
      double score = 0;
      for (int64_t i = 0; i < head_dim; ++i) {
        score += query[static_cast<size_t>(i)] * keys[static_cast<size_t>(column * head_dim + i)];
      }
      score *= scale;
      if (shape.soft_cap > 0) {
        const auto cap = static_cast<double>(shape.soft_cap);
        score = cap * std::tanh(score / cap);
      }
      p[column] = score;
      largest = std::max(largest, score);
      largest_score_ = std::max(largest_score_, std::abs(score));
    }
    double sum = 0;
    for (int64_t column = 0; column < shape.seq_k; ++column) {
      if (Attends(row, column)) sum += std::exp(p[column] - largest);
    }
    lse_.push_back(sum > 0 ? largest + std::log(sum) : -std::numeric_limits<double>::infinity());
    rounded_lse_.push_back(static_cast<float>(lse_.back()));
    for (int64_t column = 0; column < shape.seq_k; ++column) {
      if (Attends(row, column)) p[column] = std::exp(p[column] - static_cast<double>(rounded_lse_.back()));
    }
  }
}

std::string NameOf(const StatisticsCase& shape) {
  std::string name = shape.dtype == DType::kBFloat16 ? "bf16" : "fp16";
  name += "_d" + std::to_string(shape.head_dim) + "_" + std::to_string(shape.batch) + "x" +
          std::to_string(shape.num_qo_heads) + "x" + std::to_string(shape.num_kv_heads) + "_" +
          std::to_string(shape.seq_q) + "x" + std::to_string(shape.seq_k) + "_at" +
          std::to_string(shape.first_position);
  if (shape.window > 0) name += "_window" + std::to_string(shape.window);
  if (shape.soft_cap > 0) name += "_cap";
  if (shape.deviation > 2) name += "_large";
  return name;
}

}  // namespace headscope::kernels::testing
