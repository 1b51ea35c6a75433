// SPDX-License-Identifier: Apache-2.0
// Layers that a method leaves dense by its source: no budget is made up for them, and whoever reads a run or a mask is
// told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "analysis/compare.h"
#include "analysis/search.h"
#include "kernels/method_names.h"
#include "synthetic_heads.h"

namespace headscope::analysis {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

kernels::ParameterValues ValuesWith(const kernels::MethodSpec& spec, const std::string& parameters) {
  kernels::ParameterValues values(spec);
  EXPECT_EQ(values.Parse(spec, parameters), "");
  return values;
}

AskedMethod AskedWith(const std::string& name, const std::string& parameters) {
  const kernels::MethodSpec& spec = *kernels::FindMethod(name).spec();
  return {name, ValuesWith(spec, parameters)};
}

CompareOptions QuickRuns() {
  CompareOptions options;
  options.repeats = 1;
  options.num_threads = 2;
  return options;
}

// The heads are of layer 3.
TEST(DenseLayersOfASearch, AStepsBudgetStaysAsItWasGiven) {
  const testing::RandomLayer layer = testing::MakeRandomLayer({.num_tokens = 304, .sharpness = 3}, 1, 2, 5);
  const kernels::DecodeMethod& quest = *kernels::FindDecodeMethod("quest");
  DecodeSearchOptions options;
  options.head = layer.heads.front()->id;
  DecodeBudgetSearcher searcher({{layer.measured}}, options);
  std::vector<BudgetSearchResult> dense, sparse;
  const BudgetTarget target{.mass = 0.5, .statistic = MassStatistic::kMean};
  ASSERT_TRUE(searcher.Search(quest, ValuesWith(quest.spec(), "budget=64,dense_layers=4"), target, &dense).ok());
  ASSERT_TRUE(searcher.Search(quest, ValuesWith(quest.spec(), "budget=64,dense_layers=3"), target, &sparse).ok());
  EXPECT_EQ(dense.front().values.Integer("budget"), 64);
  EXPECT_EQ(dense.front().kept_fraction, 1);
  EXPECT_TRUE(dense.front().reached);
  EXPECT_LT(sparse.front().kept_fraction, 1);
  EXPECT_NE(sparse.front().values.Integer("budget"), 64);
  std::vector<TradeOffPoint> points;
  ASSERT_TRUE(searcher.TradeOff(quest, ValuesWith(quest.spec(), "dense_layers=4"), 5, &points).ok());
  EXPECT_EQ(points.size(), 1U) << "all of them would be the same";
}

TEST(DenseLayersOfASearch, APromptsBudgetStaysAsItWasGiven) {
  const HeadTensorsPtr head = testing::RandomHead({.num_tokens = 1300, .sharpness = 4}, 12);
  const kernels::PrefillMethod& method = *kernels::FindPrefillMethod("s2-attention");
  const std::string budget = analysis::Budgets(method.spec()).front()->name;
  const std::string all = "dense_layers=" + std::to_string(head->id.layer + 1), none = "dense_layers=0";
  const auto found = [&](const std::string& parameters) {
    BudgetSearchResult by_mass, by_heads;
    const kernels::ParameterValues values = ValuesWith(method.spec(), parameters);
    const HeadTensorsPtr heads[] = {head};
    EXPECT_TRUE(SearchBudget(*HeadMass::Compute(head, 2, {}), method, values, {0.5}, {}, &by_mass).ok());
    EXPECT_TRUE(SearchBudget(heads, method, values, {0.5}, {}, &by_heads).ok());
    EXPECT_EQ(by_mass.values, by_heads.values);
    EXPECT_EQ(by_mass.kept_fraction, by_heads.kept_fraction);
    return by_mass;
  };
  const kernels::ParameterValues given(method.spec());
  EXPECT_EQ(found(all).values.Real(budget), given.Real(budget));
  EXPECT_EQ(found(all).kept_fraction, 1);
  EXPECT_LT(found(none).kept_fraction, 1);
}

TEST(DenseLayersOfARun, AreNamedInItsNoteAndInItsMask) {
  const testing::RandomLayer layer = testing::MakeRandomLayer({.num_tokens = 200}, 1, 2, 9);
  for (const AskedMethod& method :
       {AskedWith("quest", "budget=32,dense_layers=4"), AskedWith("s2-attention", "vertical_stride=4,dense_layers=4"),
        AskedWith("magic-pig", "bits=4,tables=4,n_local=8,dense_every=3")}) {
    LayerComparison comparison(layer.measured, QuickRuns());
    std::vector<MethodResult> results;
    const kernels::Status status = comparison.Run({method}, {layer.heads.front()->id}, &results);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_THAT(results.front().note, HasSubstr(method.name + " leaves layer 3 dense; with dense_")) << method.name;
    EXPECT_EQ(results.front().kept_fraction, 1) << method.name;
  }
  LayerComparison comparison(layer.measured, QuickRuns());
  std::vector<MethodResult> results;
  ASSERT_TRUE(comparison.Run({AskedWith("quest", "budget=32")}, {layer.heads.front()->id}, &results).ok());
  EXPECT_THAT(results.front().note, Not(HasSubstr("leaves layer")));
  const kernels::DecodeMethod& quest = *kernels::FindDecodeMethod("quest");
  for (const auto& [parameters, expected] : {std::pair{"dense_layers=4", "dense_layers"}, {"dense_layers=3", ""}}) {
    DecodePreview preview;
    ASSERT_TRUE(PreviewDecode(*layer.measured, layer.heads.front()->id, quest, ValuesWith(quest.spec(), parameters), 8,
                              1, {}, &preview)
                    .ok());
    EXPECT_EQ(preview.summary.dense_by, expected);
  }
}

}  // namespace
}  // namespace headscope::analysis
