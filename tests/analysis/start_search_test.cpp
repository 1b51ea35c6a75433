// SPDX-License-Identifier: Apache-2.0
// MInference's search from a start to a limit of work, and what no limit is met by.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "analysis/search.h"
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

}  // namespace
}  // namespace headscope::analysis
