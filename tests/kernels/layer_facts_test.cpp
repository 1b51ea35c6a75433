// SPDX-License-Identifier: Apache-2.0
// What layers of a model may differ in: values of another size than keys, learned sinks, and a window that the problem
// has by itself. The CPU executors against the float64 reference on every instruction set, and the reference against
// the definition written down here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "cpu_attend_run.h"

namespace headscope::kernels {
namespace {

using test::EverythingIndex;
using test::GuardedOutput;
using test::MakeProblem;
using test::OwnedProblem;
using test::RandomIndex;
using ::testing::HasSubstr;

struct Case {
  int32_t head_dim, v_head_dim;
  bool sinks;
  int32_t window;
};
constexpr Case kCases[] = {{192, 128, false, 0}, {64, 64, true, 0},     {64, 64, false, 40}, {24, 56, true, 7},
                           {128, 72, true, 90},  {64, 256, false, 200}, {40, 8, true, 1}};

struct Facts {
  OwnedProblem owned;
  std::vector<float> sinks;

  Facts(std::mt19937& random, const test::ProblemShape& shape, const Case& given)
      : owned(MakeProblem(random, shape, /*row_padding=*/3)), sinks(test::RandomFloats(random, shape.num_qo_heads)) {
    AttentionProblem& p = owned.problem;
    p.v_head_dim = given.v_head_dim;
    p.window = given.window;
    const int64_t row = given.v_head_dim + 5;
    p.v.row_stride = row;
    p.v.head_stride = row * shape.seq_k;
    p.v.batch_stride = p.v.head_stride * shape.num_kv_heads;
    owned.v = test::Store(test::RandomFloats(random, shape.batch * p.v.batch_stride), shape.dtype);
    owned.Rebind();
    for (size_t head = 0; head < sinks.size(); ++head) sinks[head] *= head % 2 == 0 ? 1.0f : 12.0f;
    if (given.sinks) p.sinks = sinks.data();
  }
};

// One row by the definition, over the columns that are listed.
std::vector<double> ByDefinition(const Facts& facts, int64_t b, int64_t head, int64_t row,
                                 const std::vector<int32_t>& columns, double* lse, double* largest) {
  const AttentionProblem& p = facts.owned.problem;
  const int64_t kv_head = head / p.GroupSize();
  std::vector<double> o(static_cast<size_t>(p.ValueDim()), 0.0);
  *largest = -std::numeric_limits<double>::infinity();
  double sum = p.sinks != nullptr ? std::exp(static_cast<double>(p.sinks[head])) : 0;
  for (const int32_t column : columns) {
    if (p.window > 0 && p.first_position + row - column >= p.window) continue;
    double dot = 0;
    for (int32_t d = 0; d < p.head_dim; ++d)
      dot += static_cast<double>(facts.owned.Q(b, head, row)[d]) *
             static_cast<double>(facts.owned.K(b, kv_head, column)[d]);
    const double score = dot / std::sqrt(static_cast<double>(p.head_dim)), weight = std::exp(score);
    *largest = std::max(*largest, score);
    sum += weight;
    for (size_t d = 0; d < o.size(); ++d) o[d] += weight * static_cast<double>(facts.owned.V(b, kv_head, column)[d]);
  }
  for (double& value : o) value = sum == 0 ? 0 : value / sum;
  *lse = sum == 0 ? -std::numeric_limits<double>::infinity() : std::log(sum);
  return o;
}

GuardedOutput OutputOf(const AttentionProblem& problem) {
  AttentionProblem shape = problem;
  shape.head_dim = problem.ValueDim();
  return GuardedOutput(shape, 5);
}

class LayerFacts : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { test::UseOnlyTarget(GetParam()); }
  void TearDown() override { test::UseAllTargets(); }
};

TEST_P(LayerFacts, PrefillEqualsTheReference) {
  std::mt19937 random = test::SeededRandom();
  const DType dtypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
  const ElementRule rules[] = {{}, {MaskKind::kCausalWindow, 60, 5}};
  int32_t turn = 0;
  for (const Case& given : kCases) {
    for (const ElementRule& rule : rules) {
      for (const int32_t tile_rows : {64, 128}) {
        const Facts facts(random,
                          {.batch = 1 + turn % 2,
                           .num_qo_heads = 4,
                           .num_kv_heads = 2,
                           .head_dim = given.head_dim,
                           .seq_q = 150,
                           .seq_k = 260,
                           .first_position = 110,
                           .dtype = dtypes[turn % 3]},
                          given);
        SCOPED_TRACE("turn " + std::to_string(turn));
        const AttentionProblem& problem = facts.owned.problem;
        for (const SparseIndex& index :
             {RandomIndex(random, problem, tile_rows, rule), EverythingIndex(problem, tile_rows, rule)}) {
          GuardedOutput actual = OutputOf(problem), expected = OutputOf(problem);
          ASSERT_TRUE(AttendReference(problem, index.View(), expected.view).ok());
          const Status status = AttendCpu(problem, index.View(), actual.view, {});
          ASSERT_TRUE(status.ok()) << status.message();
          test::ExpectSame(actual, expected, problem.ValueDim());
          actual.ExpectGuardsUnharmed(problem.ValueDim());
        }
        ++turn;
      }
    }
  }
}

DecodeSelection EveryOther(std::mt19937& random, const AttentionProblem& p) {
  DecodeSelection selection;
  selection.batch = p.batch;
  selection.num_qo_heads = p.num_qo_heads;
  selection.num_kv_heads = p.num_kv_heads;
  selection.page_begin.push_back(0);
  std::bernoulli_distribution kept(0.5);
  for (int32_t list = 0; list < p.batch * p.num_kv_heads; ++list) {
    for (int32_t token = 0; token < p.seq_k; ++token) {
      if (kept(random)) selection.pages.push_back(token);
    }
    selection.page_begin.push_back(static_cast<int64_t>(selection.pages.size()));
  }
  return selection;
}

TEST_P(LayerFacts, DecodeEqualsTheReference) {
  std::mt19937 random = test::SeededRandom();
  const DType dtypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
  int32_t turn = 0;
  for (const Case& given : kCases) {
    for (const int32_t length : {1, 70, 1300}) {
      const Facts facts(random,
                        {.batch = 2,
                         .num_qo_heads = 6,
                         .num_kv_heads = 2,
                         .head_dim = given.head_dim,
                         .seq_q = 1,
                         .seq_k = length,
                         .first_position = length - 1,
                         .dtype = dtypes[turn++ % 3]},
                        given);
      const AttentionProblem& problem = facts.owned.problem;
      const DecodeSelection selection = EveryOther(random, problem);
      GuardedOutput actual = OutputOf(problem), expected = OutputOf(problem);
      ASSERT_TRUE(DecodeReference(problem, selection, expected.view).ok());
      const Status status = DecodeCpu(problem, selection, actual.view, {});
      ASSERT_TRUE(status.ok()) << status.message();
      test::ExpectSame(actual, expected, problem.ValueDim());
      actual.ExpectGuardsUnharmed(problem.ValueDim());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, LayerFacts, ::testing::ValuesIn(test::MachineTargets()), test::TargetName);

TEST(Reference, IsTheDefinition) {
  std::mt19937 random = test::SeededRandom();
  for (const Case& given : kCases) {
    const Facts facts(random,
                      {.num_qo_heads = 2, .head_dim = given.head_dim, .seq_q = 40, .seq_k = 100, .first_position = 60},
                      given);
    const AttentionProblem& problem = facts.owned.problem;
    GuardedOutput found = OutputOf(problem);
    ASSERT_TRUE(AttendReference(problem, EverythingIndex(problem, 64).View(), found.view).ok());
    for (int64_t head = 0; head < 2; ++head) {
      for (int64_t row = 0; row < 40; ++row) {
        std::vector<int32_t> columns;
        for (int32_t column = 0; column <= 60 + row; ++column) columns.push_back(column);
        double lse = 0, largest = 0;
        const std::vector<double> o = ByDefinition(facts, 0, head, row, columns, &lse, &largest);
        ASSERT_NEAR(found.Lse(head * 40 + row), lse, 1e-5 * std::max(1.0, std::abs(lse)));
        ASSERT_NEAR(found.Largest(head * 40 + row), largest, 1e-5 * std::max(1.0, std::abs(largest)));
        for (size_t d = 0; d < o.size(); ++d) ASSERT_NEAR(found.Row(head * 40 + row)[d], o[d], 1e-5);
      }
    }
  }
}

TEST(LayerFactsRefusals, NameTheField) {
  std::mt19937 random = test::SeededRandom();
  Facts facts(random, {.num_qo_heads = 2, .head_dim = 64, .seq_q = 10, .seq_k = 10}, {64, 64, true, 4});
  AttentionProblem& problem = facts.owned.problem;
  const auto message = [&](ElementRule rule = {}) {
    GuardedOutput output = OutputOf(problem);
    return AttendCpu(problem, EverythingIndex(problem, 64, rule).View(), output.view, {}).message();
  };
  EXPECT_EQ(message(), "");
  EXPECT_THAT(message({MaskKind::kNone, 0, 0}), HasSubstr("window is 4"));
  problem.window = -1;
  EXPECT_THAT(message(), HasSubstr("window is -1"));
  problem.window = 0;
  facts.sinks[1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(message(), HasSubstr("sinks[1] is nan"));
  problem.sinks = nullptr;
  problem.v_head_dim = 60;
  EXPECT_THAT(message(), HasSubstr("v_head_dim is 60"));
}

}  // namespace
}  // namespace headscope::kernels
