// SPDX-License-Identifier: Apache-2.0
// The default attention of a model beside its definition in float64: soft caps, windows, sinks, and values of another
// size than keys, for prompts, for chunks after others and for single steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "network/attention.h"

namespace headscope::model {
namespace {

struct Case {
  const char* name;
  int32_t head_dim, v_head_dim;
  double soft_cap;
  int32_t window;
  bool sinks;
  int64_t rows, tokens;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.name;
}

class DenseAttentionTest : public ::testing::TestWithParam<Case> {};

TEST_P(DenseAttentionTest, IsItsDefinition) {
  const Case& c = GetParam();
  AttentionLayer facts{.num_qo_heads = 4,
                       .num_kv_heads = 2,
                       .head_dim = c.head_dim,
                       .v_head_dim = c.v_head_dim,
                       .scale = 0.3,
                       .soft_cap = c.soft_cap,
                       .window = c.window};
  if (c.sinks) facts.sinks = {0.5f, -1.0f, 2.0f, 0.0f};
  std::mt19937 random(11);
  std::normal_distribution<float> normal(0, 2);
  const auto dim = static_cast<size_t>(c.head_dim), v_dim = static_cast<size_t>(c.v_head_dim);
  const auto rows = static_cast<size_t>(c.rows), tokens = static_cast<size_t>(c.tokens);
  std::vector<float> q(4 * rows * dim), k(2 * tokens * dim), v(2 * tokens * v_dim), o(4 * rows * v_dim), lse(4 * rows);
  for (std::vector<float>* tensor : {&q, &k, &v}) {
    for (float& value : *tensor) value = normal(random);
  }
  AttentionCall call;
  call.facts = &facts;
  call.num_rows = c.rows;
  call.num_tokens = c.tokens;
  call.q = {q.data(), c.rows * c.head_dim, c.head_dim};
  call.k = {k.data(), c.tokens * c.head_dim, c.head_dim};
  call.v = {v.data(), c.tokens * c.v_head_dim, c.v_head_dim};
  call.o = o.data();
  call.lse = lse.data();
  DenseAttention().Attend(call);
  for (size_t head = 0; head < 4; ++head) {
    for (size_t row = 0; row < rows; ++row) {
      const size_t position = tokens - rows + row;
      const auto window = static_cast<size_t>(c.window);
      const size_t first = window > 0 && position + 1 > window ? position + 1 - window : 0;
      double sum = c.sinks ? std::exp(static_cast<double>(facts.sinks[head])) : 0;
      std::vector<double> wanted(v_dim);
      for (size_t token = first; token <= position; ++token) {
        double score = 0;
        for (size_t d = 0; d < dim; ++d) {
          score += static_cast<double>(q[(head * rows + row) * dim + d]) *
                   static_cast<double>(k[(head / 2 * tokens + token) * dim + d]);
        }
        score *= facts.scale;
        if (c.soft_cap > 0) score = c.soft_cap * std::tanh(score / c.soft_cap);
        sum += std::exp(score);
        for (size_t d = 0; d < v_dim; ++d)
          wanted[d] += std::exp(score) * static_cast<double>(v[(head / 2 * tokens + token) * v_dim + d]);
      }
      ASSERT_NEAR(lse[head * rows + row], std::log(sum), 1e-5 * std::max(1.0, std::abs(std::log(sum))))
          << head << ":" << row;
      for (size_t d = 0; d < v_dim; ++d)
        ASSERT_NEAR(o[(head * rows + row) * v_dim + d], wanted[d] / sum, 2e-5) << head << ":" << row << ":" << d;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, DenseAttentionTest,
                         ::testing::Values(Case{"plain", 16, 16, 0, 0, false, 50, 50},
                                           Case{"capped", 16, 16, 3, 0, false, 50, 50},
                                           Case{"capped_chunk", 16, 16, 3, 0, false, 20, 50},
                                           Case{"capped_window", 16, 16, 3, 7, false, 20, 50},
                                           Case{"capped_step", 16, 16, 3, 7, false, 1, 50},
                                           Case{"capped_sinks", 16, 8, 3, 0, true, 20, 50},
                                           Case{"narrow_values", 24, 16, 0, 0, false, 20, 50},
                                           Case{"wide_values", 16, 24, 0, 0, false, 20, 50},
                                           Case{"narrow_window", 24, 16, 0, 7, false, 20, 50},
                                           Case{"narrow_step", 24, 16, 0, 0, true, 1, 50},
                                           // More scores than one block of rows has.
                                           Case{"capped_blocks", 8, 8, 3, 0, false, 1500, 4000}),
                         [](const auto& layer) { return layer.param.name; });

// Rows that attend to chosen tokens alone: the output is over those, the log-sum-exp over every key up to the row, and
// left alone where nobody reads it.
TEST(DenseAttentionOfChosenTokens, IsItsDefinition) {
  constexpr size_t kHeads = 3, kDim = 12, kValueDim = 10, kRows = 20, kTokens = 50, kChosen = 8;
  const AttentionLayer facts{.num_qo_heads = kHeads,
                             .num_kv_heads = kHeads,
                             .head_dim = kDim,
                             .v_head_dim = kValueDim,
                             .scale = 0.3,
                             .selected = kChosen};
  std::mt19937 random(11);
  std::normal_distribution<float> normal(0, 2);
  std::vector<float> q(kHeads * kRows * kDim), k(kHeads * kTokens * kDim), v(kHeads * kTokens * kValueDim);
  for (std::vector<float>* tensor : {&q, &k, &v}) {
    for (float& value : *tensor) value = normal(random);
  }
  std::vector<int32_t> chosen;
  std::vector<std::set<size_t>> sets;
  for (size_t row = 0; row < kRows; ++row) {
    std::vector<int32_t> seen(kTokens - kRows + row + 1);
    std::iota(seen.begin(), seen.end(), 0);
    std::ranges::shuffle(seen, random);
    seen.resize(row % 3 == 0 ? kChosen - 2 : kChosen);
    std::ranges::sort(seen);
    sets.emplace_back(seen.begin(), seen.end());
    seen.resize(kChosen, -1);
    chosen.insert(chosen.end(), seen.begin(), seen.end());
  }
  AttentionCall call;
  call.facts = &facts;
  call.num_rows = kRows;
  call.num_tokens = kTokens;
  call.q = {q.data(), kRows * kDim, kDim};
  call.k = {k.data(), kTokens * kDim, kDim};
  call.v = {v.data(), kTokens * kValueDim, kValueDim};
  call.selected = chosen.data();
  call.num_selected = kChosen;
  constexpr float kUntouched = 12345;
  const auto attend = [&](bool wants_lse, std::vector<float>* lse) {
    std::vector<float> o(kHeads * kRows * kValueDim);
    lse->assign(kHeads * kRows, kUntouched);
    call.o = o.data();
    call.lse = lse->data();
    call.wants_lse = wants_lse;
    DenseAttention().Attend(call);
    return o;
  };
  std::vector<float> lse, left;
  const std::vector<float> o = attend(true, &lse);
  EXPECT_EQ(attend(false, &left), o);
  EXPECT_EQ(left, std::vector<float>(kHeads * kRows, kUntouched)) << "a second attention was made for nobody";
  for (size_t head = 0; head < kHeads; ++head) {
    for (size_t row = 0; row < kRows; ++row) {
      double all = 0, sum = 0;
      std::vector<double> wanted(kValueDim);
      for (size_t token = 0; token <= kTokens - kRows + row; ++token) {
        double score = 0;
        for (size_t d = 0; d < kDim; ++d) {
          score += static_cast<double>(q[(head * kRows + row) * kDim + d]) *
                   static_cast<double>(k[(head * kTokens + token) * kDim + d]);
        }
        const double weight = std::exp(score * facts.scale);
        all += weight;
        if (!sets[row].contains(token)) continue;
        sum += weight;
        for (size_t d = 0; d < kValueDim; ++d)
          wanted[d] += weight * static_cast<double>(v[(head * kTokens + token) * kValueDim + d]);
      }
      ASSERT_NEAR(lse[head * kRows + row], std::log(all), 1e-5 * std::max(1.0, std::abs(std::log(all))));
      for (size_t d = 0; d < kValueDim; ++d)
        ASSERT_NEAR(o[(head * kRows + row) * kValueDim + d], wanted[d] / sum, 2e-5) << head << ":" << row << ":" << d;
    }
  }
}

}  // namespace
}  // namespace headscope::model
