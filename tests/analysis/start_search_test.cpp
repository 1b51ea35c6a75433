// SPDX-License-Identifier: Apache-2.0
// MInference's search from a start to a limit of work, and what no limit is met by.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "analysis/search.h"
#include "kernels/decode_method.h"
#include "synthetic_heads.h"

namespace headscope::analysis {
namespace {

using kernels::ParameterValues;

// MInference's own configurations hold a head's few columns and move its many slashes.
TEST(StartSearch, AStartMovesItsLargerBudgetAndHoldsTheOtherUntilTheyMeet) {
  const HeadTensorsPtr head = testing::PlantedHead(testing::Plant::kDiffuse, 1000, 31);
  const kernels::PrefillMethod& method = *kernels::FindPrefillMethod("vertical-slash");
  ParameterValues start(method.spec());
  ASSERT_EQ(start.Parse(method.spec(), "n_vertical=6,n_slash=100,forced_columns=0,forced_slashes=0"), "");
  EXPECT_EQ(SearchedGrid(method.spec(), 1000, &start).at(1).step, 3) << "a thirtieth of the start";
  ASSERT_EQ(start.Set(method.spec(), "n_slash", 2048), "");
  EXPECT_EQ(SearchedGrid(method.spec(), 100000, &start).at(1).step, 50) << "of Table 6's starts, the paper's";
  ASSERT_EQ(start.Set(method.spec(), "n_slash", 100), "");
  BudgetSearcher searcher({{head}}, {});
  const auto find = [&](double most) {
    std::vector<BudgetSearchResult> found;
    EXPECT_TRUE(searcher.Search(method, start, {.kind = BudgetTarget::Kind::kWork, .most = most}, &found).ok());
    return found.at(0);
  };
  std::set<double> slashes;
  bool met = false;
  for (const double most : {1.3, 1.1, 1.0, 0.9, 0.7, 0.5, 0.4, 0.3}) {
    const BudgetSearchResult found = find(most);
    const double columns = found.values.Real("n_vertical"), lines = found.values.Real("n_slash");
    EXPECT_EQ(columns, std::min(6.0, lines)) << most;
    EXPECT_TRUE(lines == 1 || lines == 1000 || std::fmod(lines - 100, 3) == 0) << lines;
    EXPECT_TRUE(!found.reached || (found.work_share <= most && found.kept_fraction > 0)) << most;
    met |= found.reached && lines < 100;
    slashes.insert(lines);
  }
  EXPECT_TRUE(met);
  EXPECT_GT(slashes.size(), 3U);
  const BudgetSearchResult least = find(1e-3);
  EXPECT_FALSE(least.reached);
  EXPECT_EQ(least.values.Real("n_vertical"), 1) << "nothing is not a setting";
  EXPECT_EQ(least.values.Real("n_slash"), 1);
}

TEST(StartSearch, WhatKeepsNothingMeetsNoLimit) {
  const HeadTensorsPtr head = testing::PlantedHead(testing::Plant::kDiffuse, 300, 32);
  const kernels::PrefillMethod& method = *kernels::FindPrefillMethod("vertical-slash");
  ParameterValues nothing(method.spec());
  ASSERT_EQ(nothing.Parse(method.spec(), "n_vertical=0,n_slash=0,forced_columns=0,forced_slashes=0"), "");
  BudgetSearcher searcher({{head}}, {});
  for (const BudgetTarget::Kind kind : {BudgetTarget::Kind::kKept, BudgetTarget::Kind::kWork}) {
    std::vector<BudgetSearchResult> found;
    ASSERT_TRUE(searcher.Measure(method, nothing, {.kind = kind, .most = 0.5}, &found).ok());
    EXPECT_EQ(found.at(0).kept_fraction, 0);
    EXPECT_FALSE(found.at(0).reached);
  }
  std::vector<BudgetSearchResult> found;
  ASSERT_TRUE(searcher.Search(method, nothing, {.kind = BudgetTarget::Kind::kKept, .most = 1e-6}, &found).ok());
  EXPECT_FALSE(found.at(0).reached);
}

// A share in a budget's place would leave the budget without effect.
TEST(BudgetSearch, AShareInTheBudgetsPlaceIsOff) {
  const HeadTensorsPtr head = testing::RandomHead({.num_tokens = 900, .sharpness = 4}, 12);
  const kernels::PrefillMethod& method = *kernels::FindPrefillMethod("streaming-llm");
  ParameterValues with_share(method.spec());
  ASSERT_EQ(with_share.Parse(method.spec(), "local_share=0.3"), "");
  BudgetSearcher searcher({{head}}, {});
  for (const BudgetTarget& target : {BudgetTarget{.mass = 0.9, .statistic = MassStatistic::kMean},
                                     BudgetTarget{.kind = BudgetTarget::Kind::kKept, .most = 0.5},
                                     BudgetTarget{.kind = BudgetTarget::Kind::kWork, .most = 0.5}}) {
    std::vector<BudgetSearchResult> plain, shared;
    ASSERT_TRUE(searcher.Search(method, ParameterValues(method.spec()), target, &plain).ok());
    ASSERT_TRUE(searcher.Search(method, with_share, target, &shared).ok());
    EXPECT_EQ(shared.front().values.ToString(method.spec()), plain.front().values.ToString(method.spec()));
    EXPECT_EQ(shared.front().values.Real("local_share"), 0);
    EXPECT_EQ(shared.front().kept_fraction, plain.front().kept_fraction);
  }
  std::vector<TradeOffPoint> plain, shared;
  ASSERT_TRUE(searcher.TradeOff(method, ParameterValues(method.spec()), 16, &plain).ok());
  ASSERT_TRUE(searcher.TradeOff(method, with_share, 16, &shared).ok());
  ASSERT_GT(plain.size(), 2U);
  EXPECT_EQ(shared.size(), plain.size());
}

// Of budgets whose larger values may keep less, values spread over the range are tried: none of these that meets the
// target keeps fewer pairs.
TEST(DecodeBudgetSearch, ABudgetThatCannotBeBisectedIsTriedOverItsRange) {
  const HeadTensorsPtr head = testing::RandomHead({.num_tokens = 400, .sharpness = 3}, 22);
  int amounts = 0, num_reached = 0;
  for (const kernels::DecodeMethod* method : kernels::DecodeMethods()) {
    const kernels::MethodSpec& spec = method->spec();
    if (!CheckSearchable(spec).ok() || Budgets(spec).front()->role != kernels::ParameterRole::kAmount) continue;
    SCOPED_TRACE(spec.name);
    ++amounts;
    ParameterValues start(spec);
    for (const kernels::ParameterSpec& parameter : spec.parameters) {
      if (parameter.instead_of.empty()) continue;
      ASSERT_EQ(start.Set(spec, parameter.name, 0.5), "");
    }
    for (const BudgetTarget& target : {BudgetTarget{.mass = 0.8, .statistic = MassStatistic::kMean},
                                       BudgetTarget{.kind = BudgetTarget::Kind::kKept, .most = 0.6}}) {
      DecodeBudgetSearcher searcher({{AloneHead(head)}}, {});
      std::vector<BudgetSearchResult> found, measured;
      const kernels::Status status = searcher.Search(*method, start, target, &found);
      ASSERT_TRUE(status.ok()) << status.message();
      // v-attention keeps more than the limit in any case.
      const bool reached = found.front().reached;
      num_reached += reached ? 1 : 0;
      // Its values are what was measured: the share that the start had in the budget's place is gone.
      ASSERT_TRUE(searcher.Measure(*method, found.front().values, target, &measured).ok());
      EXPECT_EQ(measured.front().kept_fraction, found.front().kept_fraction);
      EXPECT_EQ(measured.front().reached, reached);
      std::vector<TradeOffPoint> points;
      ASSERT_TRUE(searcher.TradeOff(*method, start, 32, &points).ok());
      EXPECT_GT(points.size(), 1U);
      for (size_t i = 1; i < points.size(); ++i) {
        EXPECT_GE(points[i].kept_fraction, points[i - 1].kept_fraction);
        EXPECT_GT(points[i].cra_mean, points[i - 1].cra_mean);
      }
      const bool limit = target.kind == BudgetTarget::Kind::kKept;
      for (const TradeOffPoint& point : points) {
        if (limit ? point.kept_fraction > target.most : point.cra_mean < target.mass) continue;
        EXPECT_TRUE(reached) << point.values.ToString(spec);
        if (limit) {
          EXPECT_LE(point.cra_mean, found.front().mass.mean + 1e-9);
        } else {
          EXPECT_GE(point.kept_fraction, found.front().kept_fraction - 1e-9);
        }
      }
    }
  }
  EXPECT_GE(amounts, 5);
  EXPECT_GE(num_reached, 8);
}

}  // namespace
}  // namespace headscope::analysis
