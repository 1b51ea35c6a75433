// SPDX-License-Identifier: Apache-2.0
// Decode selections of every form, tokens and pages, weights and mean values: the float64 reference and the CPU's
// executor against the formula (decode_oracle.h); and what a selection says of itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "cpu_test_support.h"
#include "decode_oracle.h"
#include "kernels/cpu_executor.h"
#include "random_selection.h"

namespace headscope::kernels {
namespace {

using test::DecodeByFormula;
using test::DecodeOracle;
using test::MakeProblem;
using test::OwnedProblem;
using test::RandomSelection;
using test::SelectionForm;
using test::Weights;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Executor = Status (*)(const AttentionProblem&, const DecodeSelection&, const AttentionOutput&);

// Relative L2 error of the whole output, and every lse and largest score within as much.
void ExpectFormula(const AttentionProblem& p, const DecodeSelection& selection, const DecodeOracle& oracle,
                   double tolerance, Executor execute) {
  std::vector<float> o(oracle.o.size(), test::kSentinel), lse(oracle.lse.size(), test::kSentinel), row_max(lse);
  const AttentionOutput output{
      {o.data(), int64_t{p.num_qo_heads} * p.head_dim, p.head_dim, p.head_dim}, lse.data(), row_max.data()};
  const Status status = execute(p, selection, output);
  ASSERT_TRUE(status.ok()) << status.message();
  double error = 0, norm = 0;
  for (size_t i = 0; i < o.size(); ++i) {
    const double difference = static_cast<double>(o[i]) - oracle.o[i];
    ASSERT_FALSE(std::isnan(difference));
    error += difference * difference;
    norm += oracle.o[i] * oracle.o[i];
  }
  EXPECT_LE(std::sqrt(error), tolerance * std::sqrt(norm));
  const auto expect_near = [tolerance](const std::vector<float>& actual, const std::vector<double>& expected) {
    for (size_t i = 0; i < actual.size(); ++i) {
      if (std::isinf(expected[i])) {
        EXPECT_EQ(static_cast<double>(actual[i]), expected[i]);
      } else {
        EXPECT_NEAR(static_cast<double>(actual[i]), expected[i], 2 * tolerance);
      }
    }
  };
  expect_near(lse, oracle.lse);
  expect_near(row_max, oracle.row_max);
}

class SelectionForms : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { test::UseOnlyTarget(GetParam()); }
  void TearDown() override { test::UseAllTargets(); }
};

TEST_P(SelectionForms, AreTheFormula) {
  std::mt19937 random = test::SeededRandom();
  const DType dtypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
  const Weights weights[] = {Weights::kNone, Weights::kShared, Weights::kPerHead};
  int turn = 0;
  for (const int32_t page_size : {1, 7, 16, 64, 600}) {
    for (const int32_t group : {1, 2, 4, 7, 35}) {
      for (const double share : {0.1, 0.7, 1.0}) {
        const int32_t length = std::uniform_int_distribution<int32_t>(1, group == 35 ? 200 : 1300)(random);
        const OwnedProblem owned = MakeProblem(random,
                                               {.batch = 1 + turn % 2,
                                                .num_qo_heads = 2 * group,
                                                .num_kv_heads = 2,
                                                .head_dim = turn % 4 == 0 ? 40 : 64,
                                                .seq_q = 1,
                                                .seq_k = length,
                                                .first_position = length - 1,
                                                .dtype = dtypes[turn % 3],
                                                .soft_cap = turn % 5 == 3 ? 3.0f : 0.0f},
                                               /*row_padding=*/turn % 4 * 3);
        const SelectionForm form{.page_size = page_size,
                                 .share = share,
                                 .weights = weights[turn / 2 % 3],
                                 .mean_value = turn % 2 == 1,
                                 .empty_list = turn % 7 == 2,
                                 .components = turn % 3 == 1};
        SCOPED_TRACE(NameOf(form) + ", group " + std::to_string(group) + ", length " + std::to_string(length));
        const DecodeSelection selection = RandomSelection(owned.problem, form, &random);
        const DecodeOracle oracle = DecodeByFormula(owned.problem, selection);
        ExpectFormula(owned.problem, selection, oracle, 1e-6, DecodeReference);
        ExpectFormula(owned.problem, selection, oracle, 1e-5,
                      [](const AttentionProblem& p, const DecodeSelection& s, const AttentionOutput& output) {
                        return DecodeCpu(p, s, output, {});
                      });
        ++turn;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, SelectionForms, ::testing::ValuesIn(test::MachineTargets()), test::TargetName);

struct Step {
  Step() {
    owned = MakeProblem(random, {.batch = 1,
                                 .num_qo_heads = 4,
                                 .num_kv_heads = 2,
                                 .head_dim = 64,
                                 .seq_q = 1,
                                 .seq_k = 1000,
                                 .first_position = 999});
  }
  std::vector<float> Decode(const DecodeSelection& selection) const {
    std::vector<float> o(4 * 64);
    const Status status = DecodeCpu(owned.problem, selection, {{o.data(), 256, 64, 64}, nullptr}, {});
    EXPECT_TRUE(status.ok()) << status.message();
    return o;
  }
  std::mt19937 random = test::SeededRandom();
  OwnedProblem owned;
};

// To the last bit: pages are read as the tokens that they hold are, and a weight of 1 is none.
TEST(Selections, OfPagesAndOfTheirTokensAreTheSame) {
  Step step;
  const DecodeSelection pages =
      RandomSelection(step.owned.problem, {.page_size = 16, .share = 0.6, .mean_value = true}, &step.random);
  DecodeSelection tokens = pages;
  tokens.page_size = 1;
  tokens.pages.clear();
  tokens.page_begin = {0};
  for (int64_t list = 0; list < 2; ++list) {
    for (const int32_t token : TokensOfList(pages, list, 1000)) tokens.pages.push_back(token);
    tokens.page_begin.push_back(static_cast<int64_t>(tokens.pages.size()));
    EXPECT_EQ(NumTokens(pages, list, 1000), NumTokens(tokens, list, 1000));
  }
  EXPECT_EQ(step.Decode(pages), step.Decode(tokens));
  DecodeSelection weighted = tokens;
  weighted.weights.assign(tokens.pages.size(), 1.0f);
  EXPECT_EQ(step.Decode(weighted), step.Decode(tokens));
}

// A token that was drawn twice, with its share halved, counts as one that was not sampled at all.
TEST(Selections, AWeightOfTwoIsTheTokenTwice) {
  Step step;
  DecodeSelection selection = RandomSelection(step.owned.problem, {.share = 0.0}, &step.random);
  selection.pages = {3, 9, 3};
  selection.page_begin = {0, 2, 3};
  selection.weights = {2, 1, 5};
  std::vector<float> o = step.Decode(selection);
  double scores[2], most = 0;
  for (int i = 0; i < 2; ++i) {
    scores[i] = 0;
    for (int d = 0; d < 64; ++d)
      scores[i] += static_cast<double>(step.owned.Q(0, 0, 0)[d]) *
                   static_cast<double>(step.owned.K(0, 0, i == 0 ? 3 : 9)[d]) / 8;
    most = i == 0 ? scores[0] : std::max(most, scores[i]);
  }
  const double a = std::exp(scores[0] - most), b = std::exp(scores[1] - most);
  for (int d = 0; d < 64; ++d) {
    const double expected =
        (2 * a * static_cast<double>(step.owned.V(0, 0, 3)[d]) + b * static_cast<double>(step.owned.V(0, 0, 9)[d])) /
        (2 * a + b);
    EXPECT_NEAR(static_cast<double>(o[static_cast<size_t>(d)]), expected, 1e-5);
    // One token alone has all of the mass, whatever its weight.
    EXPECT_FLOAT_EQ(o[static_cast<size_t>(128 + d)], step.owned.V(0, 1, 3)[d]);
  }
}

TEST(Selections, KnowDenseAndWhatAHeadKeeps) {
  Step step;
  DecodeSelection all = RandomSelection(step.owned.problem, {.page_size = 300, .share = 1.0}, &step.random);
  EXPECT_EQ(NumTokens(all, 1000), 2000);
  EXPECT_TRUE(IsDense(all, 1000));
  DecodeSelection some = all;
  some.pages.pop_back();
  --some.page_begin.back();
  EXPECT_EQ(NumTokens(some, 1000), 1900);
  EXPECT_FALSE(IsDense(some, 1000));
  all.weights.assign(8 * 300, 1.0f);
  EXPECT_FALSE(IsDense(all, 1000)) << "weighted";

  DecodeSelection selection;
  selection.num_qo_heads = 4;
  selection.num_kv_heads = 2;
  selection.page_size = 2;
  selection.page_begin = {0, 1, 3};
  selection.pages = {4, 0, 3};  // of 7 tokens: the last page has one
  selection.weight_rows = 2;
  selection.weights = {1, 2, 3, 4, 5, 0, 6, 7, 0, 8, 9, 0};
  selection.pages[0] = 1;
  EXPECT_THAT(TokensOfList(selection, 1, 7), ElementsAre(0, 1, 6));
  const DecodeSelection head = SelectionOfHead(selection, 3);
  EXPECT_THAT(head.weights, ElementsAre(0, 8, 9, 0));
  EXPECT_THAT(KeptTokens(head, 7), ElementsAre(1, 6));
}

TEST(Selections, LoseWhatLiesBeforeAWindow) {
  DecodeSelection whole;
  whole.num_qo_heads = whole.num_kv_heads = 1;
  whole.page_size = 4;
  whole.page_begin = {0, 3};
  whole.pages = {0, 2, 4};  // of 18 tokens: the last page has two
  whole.weights = {0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 0, 0};
  whole.elements_moved = 1000;
  DecodeSelection pages = whole;
  DropTokensBefore(8, 18, 64, &pages);
  EXPECT_EQ(pages.page_size, 4);
  EXPECT_THAT(pages.pages, ElementsAre(0, 2));
  EXPECT_THAT(pages.weights, ElementsAre(8, 9, 10, 11, 16, 17, 0, 0));
  EXPECT_EQ(pages.elements_moved, 1000 - 2 * 4 * 64);
  DecodeSelection tokens = whole;
  DropTokensBefore(10, 18, 64, &tokens);
  EXPECT_EQ(tokens.page_size, 1);
  EXPECT_THAT(tokens.pages, ElementsAre(0, 1, 6, 7));
  EXPECT_THAT(tokens.weights, ElementsAre(10, 11, 16, 17));
  EXPECT_EQ(tokens.elements_moved, 1000 - 2 * 6 * 64);
}

TEST(Selections, ThatAreBrokenAreRefused) {
  Step step;
  const DecodeSelection valid =
      RandomSelection(step.owned.problem, {.page_size = 16, .share = 1.0, .weights = Weights::kPerHead}, &step.random);
  const auto refused = [&](auto breaks, const std::string& words) {
    DecodeSelection broken = valid;
    breaks(broken);
    std::vector<float> o(4 * 64, test::kSentinel);
    const AttentionOutput output{{o.data(), 256, 64, 64}, nullptr};
    for (const Status& status :
         {DecodeCpu(step.owned.problem, broken, output, {}), DecodeReference(step.owned.problem, broken, output)}) {
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << words;
      EXPECT_THAT(status.message(), HasSubstr(words));
    }
    EXPECT_THAT(o, ::testing::Each(test::kSentinel));
  };
  refused([](DecodeSelection& s) { s.page_size = 0; }, "page_size is 0");
  refused([](DecodeSelection& s) { s.pages.back() = 63; }, "page 63 of list 1");
  refused([](DecodeSelection& s) { s.pages[1] = 0; }, "page 0 of list 0");
  refused([](DecodeSelection& s) { s.weights.pop_back(); }, "weights holds");
  refused([](DecodeSelection& s) { s.weights[5] = -1; }, "a weight is -1");
  refused([](DecodeSelection& s) { s.weights[5] = NAN; }, "a weight is");
  refused([](DecodeSelection& s) { s.weight_rows = 3; }, "weight_rows is 3");
  const auto with_components = [](DecodeSelection& s, std::vector<int32_t> components) {
    s.components_end = 10;
    s.component_begin = {0, 1, static_cast<int64_t>(components.size())};
    s.components = std::move(components);
  };
  refused([&](DecodeSelection& s) { with_components(s, {3, 5, 5}); }, "components of list 1");
  refused([&](DecodeSelection& s) { with_components(s, {3, 64}); }, "components of list 1");
  refused([&](DecodeSelection& s) { with_components(s, {3}); }, "components of list 1");
  refused([](DecodeSelection& s) { s.components = {1}; }, "components_end is 0");
  refused([](DecodeSelection& s) { s.components_end = 1001; }, "components_end is 1001");
  refused([](DecodeSelection& s) { s.components_end = 5; }, "component_begin must hold");
}

}  // namespace
}  // namespace headscope::kernels
