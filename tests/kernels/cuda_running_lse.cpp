// SPDX-License-Identifier: Apache-2.0
#include "cuda_running_lse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cuda_statistics_support.h"
#include "float_codes.h"
#include "kernels/contiguous.h"

namespace headscope::kernels::testing {
namespace {

constexpr int32_t kHeadDim = 64;

// [tokens, kHeadDim] whose first component is `values`, and the others 0.
std::vector<uint16_t> FirstComponents(const std::vector<float>& values) {
  std::vector<uint16_t> codes(values.size() * kHeadDim, 0);
  for (size_t token = 0; token < values.size(); ++token) codes[token * kHeadDim] = test::ToBFloat16(values[token]);
  return codes;
}

}  // namespace

OneComponentProblem::OneComponentProblem(const std::vector<float>& scores, float soft_cap)
    : q_(FirstComponents(std::vector<float>(scores.size(), 1.0f))), k_(FirstComponents(scores)) {
  for (const float score : scores) {
    scores_.push_back(static_cast<double>(test::FromBFloat16(test::ToBFloat16(score))));
  }
  problem_.num_qo_heads = problem_.num_kv_heads = 1;
  problem_.head_dim = kHeadDim;
  problem_.seq_q = problem_.seq_k = static_cast<int32_t>(scores.size());
  problem_.dtype = DType::kBFloat16;
  problem_.scale = 1.0f;
  problem_.soft_cap = soft_cap;
  SetContiguousTensors(q_.get(), k_.get(), nullptr, &problem_);
}

void ExpectRunningLse(const std::vector<float>& lse, const std::vector<double>& scores, const char* what) {
  ASSERT_EQ(lse.size(), scores.size()) << what;
  double largest = -kInfinity, sum = 0, largest_magnitude = 0;
  WorstError worst;
  for (size_t row = 0; row < lse.size(); ++row) {
    const double score = scores[row];
    if (score > largest) {
      sum = sum * std::exp(largest - score) + 1;
      largest = score;
    } else if (score != -kInfinity) {
      sum += std::exp(score - largest);
    }
    if (std::isfinite(score)) largest_magnitude = std::max(largest_magnitude, std::abs(score));
    const auto measured = static_cast<double>(lse[row]);
    if (std::isnan(sum)) {
      ASSERT_TRUE(std::isnan(measured)) << what << ", row " << row;
    } else if (sum == 0) {
      ASSERT_EQ(measured, -kInfinity) << what << ", row " << row;
    } else {
      worst.Add(measured, largest + std::log(sum), 5e-6 + 2e-6 * largest_magnitude, 0);
    }
  }
  worst.Check(what);
}

}  // namespace headscope::kernels::testing
