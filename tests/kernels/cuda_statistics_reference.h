// SPDX-License-Identifier: Apache-2.0
// Attention probabilities in float64 on the host, pair by pair, and a random problem to compute them of: what the GPU's
// statistics are tested against. Shares no code with the kernels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/attention_problem.h"

namespace headscope::kernels::testing {

struct StatisticsCase {
  DType dtype = DType::kBFloat16;
  int32_t head_dim = 64;
  int32_t batch = 1, num_qo_heads = 1, num_kv_heads = 1;
  int32_t seq_q = 0, seq_k = 0, first_position = 0;
  int32_t window = 0;
  float soft_cap = 0;
  float deviation = 1.6f;  // of the components of Q and K; scores have its square
};

// The case's problem over contiguous Q and K; V is null, which no statistic reads.
AttentionProblem ProblemOf(const StatisticsCase& shape, const void* q, const void* k);

// What every statistic is tested on.
inline constexpr StatisticsCase kStatisticsCases[] = {
    {DType::kBFloat16, 64, 1, 1, 1, 1, 1, 0, 0, 0.0f},
    {DType::kBFloat16, 128, 1, 2, 2, 63, 63, 0, 0, 0.0f},
    {DType::kFloat16, 64, 1, 2, 1, 65, 65, 0, 0, 0.0f},
    {DType::kBFloat16, 128, 2, 4, 2, 1000, 1000, 0, 0, 0.0f},
    {DType::kFloat16, 96, 1, 7, 1, 127, 777, 650, 0, 0.0f},
    {DType::kBFloat16, 256, 1, 2, 1, 300, 1300, 1000, 0, 0.0f},
    {DType::kFloat16, 80, 1, 8, 2, 129, 500, 200, 0, 30.0f},
    {DType::kBFloat16, 64, 1, 1, 1, 700, 700, 0, 100, 0.0f},
    // Positions beyond the keys, so that the last rows see nothing through their window.
    {DType::kBFloat16, 64, 1, 2, 1, 200, 300, 250, 60, 0.0f},
    {DType::kBFloat16, 128, 1, 1, 1, 2500, 2500, 0, 0, 0.0f},
    {DType::kBFloat16, 64, 1, 1, 1, 70, 46341, 46271, 0, 0.0f},
    {DType::kFloat16, 128, 1, 1, 1, 33, 131072, 131000, 0, 0.0f},
    // Scores beyond 80, which fp32 knows to 5e-7 of that.
    {DType::kBFloat16, 128, 1, 2, 1, 300, 1300, 1000, 0, 0.0f, 4.1f}};

// Owns the tensors of a case. Keys that no row attends to are NaN: whoever reads them for a result is found out.
class StatisticsProblem {
 public:
  StatisticsProblem(const StatisticsCase& shape, uint32_t seed);

  const AttentionProblem& problem() const { return problem_; }
  const StatisticsCase& shape() const { return shape_; }
  int64_t NumRows() const { return int64_t{shape_.batch} * shape_.num_qo_heads * shape_.seq_q; }
  bool Attends(int64_t row, int64_t column) const {
    const int64_t position = shape_.first_position + row;
    return column <= position && column < shape_.seq_k && (shape_.window == 0 || position - column < shape_.window);
  }

  // Natural-log LSE [batch * num_qo_heads, seq_q], and the same rounded to fp32: the LSE that probabilities are of.
  const std::vector<double>& lse() const { return lse_; }
  const std::vector<float>& rounded_lse() const { return rounded_lse_; }
  double largest_score() const { return largest_score_; }
  // exp(score - rounded lse) of one row [seq_k]; 0 for pairs that are not attended.
  const double* Probabilities(int64_t sequence_head, int64_t row) const {
    return p_.data() + (sequence_head * shape_.seq_q + row) * shape_.seq_k;
  }

 private:
  StatisticsCase shape_;
  std::vector<uint16_t> q_, k_;
  AttentionProblem problem_;
  std::vector<double> lse_, p_;
  std::vector<float> rounded_lse_;
  double largest_score_ = 0;
};

std::string NameOf(const StatisticsCase& shape);

}  // namespace headscope::kernels::testing
