// SPDX-License-Identifier: Apache-2.0
// What Twilight promises, over every method whose candidates it may go on from.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "exact_probabilities.h"
#include "generation.h"
#include "kept_sets.h"
#include "kernels/cuda_decode.h"
#include "kernels/decode_driver.h"

namespace headscope::kernels {
namespace {

using testing::DecodeShape;
using ::testing::ElementsAre;
using testing::FreshSeed;
using ::testing::HasSubstr;
using testing::Probabilities;
using testing::RandomProblem;
using testing::SelectTokens;
using testing::TokensOf;

TEST(Twilight, KeepsTheFewestTokensOfItsShare) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(DecodeShape(400), &random);
  const std::vector<double> p = Probabilities(data, 0);
  for (const double share : {0.5, 0.8, 0.95}) {
    const std::string parameters = "bits=exact,candidates=400,p=" + std::to_string(share);
    const std::vector<int32_t> tokens = TokensOf(SelectTokens("twilight", parameters, data.View()), 0);
    double mass = 0, least = 1;
    for (const int32_t token : tokens) {
      mass += p[static_cast<size_t>(token)];
      if (token < 384) least = std::min(least, p[static_cast<size_t>(token)]);
    }
    EXPECT_GE(mass, share - 1e-6);
    const double larger =
        std::accumulate(p.begin(), p.end(), 0.0, [&](double sum, double x) { return x > least ? sum + x : sum; });
    EXPECT_LT(larger, share + 1e-6) << "one less would not do";
    for (int32_t token = 384; token < 400; ++token)
      EXPECT_THAT(tokens, ::testing::Contains(token)) << "the newest page is there in any case";
  }
  const size_t exact = SelectTokens("twilight", "bits=exact", data.View()).pages.size();
  const size_t rounded = SelectTokens("twilight", "bits=4", data.View()).pages.size();
  EXPECT_NEAR(static_cast<double>(rounded), static_cast<double>(exact), 0.5 * static_cast<double>(exact));
  EXPECT_EQ(SelectTokens("twilight", "p=1,candidates=400", data.View()).pages.size(), 400u);
}

// Twilight over one of the selectors that it knows, and that selector with the same budget.
struct OverSelector {
  const DecodeMethod& selector;
  ParameterValues own;
  std::string twilight;
};

std::vector<OverSelector> EverySelector(int32_t candidates) {
  std::vector<OverSelector> all;
  for (const ParameterSpec& parameter : FindDecodeMethod("twilight")->spec().parameters) {
    if (parameter.name != "selector") continue;
    for (const std::string& name : parameter.choices) {
      const DecodeMethod& selector = *FindDecodeMethod(name);
      if (selector.spec().needs_history) continue;
      ParameterValues own = selector.ForTokensAlone(ParameterValues(selector.spec()));
      for (const ParameterSpec& budget : selector.spec().parameters) {
        if (budget.role == ParameterRole::kBudget) own.Set(selector.spec(), budget.name, candidates);
      }
      all.push_back({selector, own, "selector=" + name + ",candidates=" + std::to_string(candidates)});
    }
  }
  return all;
}

// Tokens or pages alone, whatever came before: nothing that going on from them would lose.
TEST(Twilight, GoesOnFromEveryMethodThatGivesCandidates) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(DecodeShape(200), &random);
  std::vector<std::string> names;
  for (const DecodeMethod* method : DecodeMethods()) {
    const MethodSpec& spec = method->spec();
    if (!spec.gives_candidates) continue;
    SCOPED_TRACE(spec.name);
    names.push_back(spec.name);
    EXPECT_FALSE(spec.reads_output);
    EXPECT_NE(spec.family, "cache eviction");
    DecodeSelection selection;
    if (spec.needs_history) continue;  // GoesOnFromSelectorsWithAHistory
    ASSERT_TRUE(method->Select(data.View(), method->ForTokensAlone(ParameterValues(spec)), {}, &selection).ok());
    EXPECT_TRUE(selection.weights.empty() && selection.mean_value.empty() && selection.components_end == 0);
  }
  EXPECT_GE(names.size(), 9U);
  const std::vector<ParameterSpec>& parameters = FindDecodeMethod("twilight")->spec().parameters;
  EXPECT_EQ(std::ranges::find(parameters, "selector", &ParameterSpec::name)->choices, names);
}

// What such a selector names at each step of a generation, pruned by that step's attention; twilight's steps then have
// an order, too.
TEST(Twilight, GoesOnFromSelectorsWithAHistory) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(testing::SquareShape(testing::kLength, 1, 1), &random);
  const RandomProblem one_step(DecodeShape(64), &random);
  struct Over {
    std::string selector, own, twilight;
  };
  for (const Over& over : {Over{"l-serve", "budget=64,logical_size=8,logical_pages=2",
                                "candidates=64,l_serve_logical_size=8,l_serve_logical_pages=2"},
                           // 4 + 40 tokens in any case, and of 64 what two units of 10 hold.
                           Over{"infllm", "n_init=4,n_local=40,block_size=10,top_k=2",
                                "candidates=64,infllm_n_init=4,infllm_n_local=40,infllm_block_size=10"}}) {
    SCOPED_TRACE(over.selector);
    const std::string asked = "selector=" + over.selector + ",bits=exact," + over.twilight;
    const testing::Steps candidates = testing::Generation(over.selector, over.own).All(data);
    const testing::Steps all = testing::Generation("twilight", asked + ",p=1").All(data);
    const testing::Steps some = testing::Generation("twilight", asked + ",p=0.5").All(data);
    for (size_t step = 0; step < candidates.size(); ++step) {
      const auto tokens_of = [&](const testing::Steps& of) {
        return TokensOfList(of[step], 0, testing::kPrompt + static_cast<int32_t>(step) + 1);
      };
      const std::vector<int32_t> may = tokens_of(candidates), kept = tokens_of(some);
      EXPECT_EQ(tokens_of(all), may);
      EXPECT_TRUE(std::ranges::includes(may, kept));
      EXPECT_LT(kept.size(), may.size());
      EXPECT_LE(candidates[step].elements_to_choose, some[step].elements_to_choose);
    }
    const DecodeMethod& twilight = *FindDecodeMethod("twilight");
    const ParameterValues values = testing::Values(twilight.spec(), asked);
    EXPECT_TRUE(twilight.NeedsHistory(values));
    EXPECT_FALSE(DecodeDriver(twilight, values).AnyOrder());
    EXPECT_EQ(twilight.PromptRows(values),
              FindDecodeMethod(over.selector)
                  ->PromptRows(testing::Values(FindDecodeMethod(over.selector)->spec(), over.own)));
    DecodeSelection selection;
    EXPECT_EQ(twilight.Select(one_step.View(), values, {}, &selection).code(), StatusCode::kUnsupported);
  }
  EXPECT_FALSE(FindDecodeMethod("twilight")->NeedsHistory(ParameterValues(FindDecodeMethod("twilight")->spec())));
  testing::Generation by_ratio("twilight", "selector=infllm,compression_ratio=0.5");
  EXPECT_THAT(by_ratio.Begin(data, testing::kPrompt, testing::kPrompt).message(),
              ::testing::HasSubstr("compression_ratio is not a budget of infllm"));
}

TEST(Twilight, KeepsTheShareOfAnySelectorsCandidates) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(DecodeShape(400, 4, 2), &random);
  const int64_t head_dim = data.shape.head_dim;
  ASSERT_GT(EverySelector(64).size(), 5u);
  for (const auto& [selector, own, twilight] : EverySelector(64)) {
    SCOPED_TRACE(twilight);
    DecodeSelection candidates;
    ASSERT_TRUE(selector.Select(data.View(), own, {}, &candidates).ok());
    EXPECT_TRUE(candidates.weights.empty() && candidates.mean_value.empty() && candidates.components.empty());
    EXPECT_EQ(candidates.elements_to_choose > 0, !selector.spec().IsStatic()) << "what the choice costs";
    EXPECT_LT(candidates.elements_to_choose, candidates.elements_moved);
    const int32_t newest = 399 / candidates.page_size * candidates.page_size;
    for (const double share : {0.3, 0.8, 1.0}) {
      const DecodeSelection kept =
          SelectTokens("twilight", twilight + ",bits=exact,p=" + std::to_string(share), data.View());
      int64_t looked_at = 0;
      for (int32_t list = 0; list < 2; ++list) {
        std::vector<double> p = Probabilities(data, 2 * list), other = Probabilities(data, 2 * list + 1);
        std::vector<bool> may(400);
        for (const int32_t token : TokensOfList(candidates, list, 400)) may[static_cast<size_t>(token)] = true;
        for (int32_t token = newest; token < 400; ++token) may[static_cast<size_t>(token)] = true;
        for (std::vector<double>* of_head : {&p, &other}) {
          double sum = 0;
          for (size_t token = 0; token < 400; ++token) sum += may[token] ? (*of_head)[token] : 0;
          for (double& x : *of_head) x /= 2 * sum;
        }
        double mass = 0, least = 1;
        for (const int32_t token : TokensOfList(kept, list, 400)) {
          const double own_mass = p[static_cast<size_t>(token)] + other[static_cast<size_t>(token)];
          EXPECT_TRUE(may[static_cast<size_t>(token)]) << token << " is no candidate";
          mass += own_mass;
          if (token < newest) least = std::min(least, own_mass);
        }
        EXPECT_GE(mass, share - 1e-5);
        double larger = 0;
        for (size_t token = 0; token < 400; ++token) {
          looked_at += may[token] ? 1 : 0;
          if (may[token] && p[token] + other[token] > least * (1 + 1e-4)) larger += p[token] + other[token];
        }
        EXPECT_LT(larger, share + 1e-5) << "one less would not do";
      }
      if (share == 1.0) {
        EXPECT_EQ(NumTokens(kept, 400), looked_at);
      }
      EXPECT_EQ(kept.elements_to_choose, candidates.elements_to_choose + looked_at / 2 * head_dim) << "whole keys";
      EXPECT_EQ(kept.elements_moved, kept.elements_to_choose + (NumTokens(kept, 400) / 2 + 1) * 2 * head_dim);
    }
  }
}

// Every parameter of a selector, but for its budget and what has no part in which tokens it names, under its name.
TEST(Twilight, HandsItsSelectorsTheirOwnParameters) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(DecodeShape(400, 4, 2), &random);
  const MethodSpec& spec = FindDecodeMethod("twilight")->spec();
  std::set<std::string> seen;
  for (const ParameterSpec& parameter : spec.parameters) {
    if (parameter.only_with.empty()) continue;
    ASSERT_EQ(parameter.only_with, "selector");
    ParameterValues values(spec);
    ASSERT_EQ(values.Parse(spec, "p=1,candidates=32,bits=exact"), "");
    ASSERT_EQ(values.Set(spec, "selector", parameter.only_at), "");
    EXPECT_TRUE(values.Matters(parameter));
    const std::vector<ParameterSpec>& parameters = spec.parameters;
    std::string prefix = std::ranges::find(parameters, "selector", &ParameterSpec::name)
                             ->choices.at(static_cast<size_t>(parameter.only_at)) +
                         "_";
    std::replace(prefix.begin(), prefix.end(), '-', '_');
    ASSERT_THAT(parameter.name, ::testing::StartsWith(prefix));
    const std::string own_name = parameter.name.substr(prefix.size());
    seen.insert(parameter.name);
    if (FindDecodeMethod("twilight")->NeedsHistory(values)) continue;  // GoesOnFromSelectorsWithAHistory
    const std::vector<OverSelector> all = EverySelector(32);
    const OverSelector& over = all.at(static_cast<size_t>(parameter.only_at));
    // At another value than the default it keeps what the selector alone names so, and the newest page or token.
    const double value =
        parameter.default_value == parameter.minimum ? std::min(parameter.maximum, 5.0) : parameter.minimum;
    ASSERT_EQ(values.Set(spec, parameter.name, value), "") << parameter.name;
    ParameterValues own = over.own;
    ASSERT_EQ(own.Set(over.selector.spec(), own_name, value), "");
    DecodeSelection kept, candidates;
    ASSERT_TRUE(FindDecodeMethod("twilight")->Select(data.View(), values, {}, &kept).ok());
    ASSERT_TRUE(over.selector.Select(data.View(), own, {}, &candidates).ok());
    for (int32_t list = 0; list < 2; ++list) {
      std::vector<int32_t> expected = TokensOfList(candidates, list, 400);
      const int32_t newest = 399 / candidates.page_size * candidates.page_size;
      for (int32_t token = newest; token < 400; ++token) expected.push_back(token);
      std::sort(expected.begin(), expected.end());
      expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
      EXPECT_EQ(TokensOfList(kept, list, 400), expected) << parameter.name << "=" << value;
    }
  }
  EXPECT_THAT(seen, ::testing::IsSupersetOf({"quest_page_size", "quest_group", "quest_keep_newest", "sparq_r",
                                             "sparq_local_share", "sparq_temperature", "sliding_window_n_sink",
                                             "lm_infinite_decode_n_global", "low_rank_r", "low_rank_seed",
                                             "l_serve_interval", "infllm_block_size"}));
  EXPECT_THAT(seen, ::testing::Not(::testing::Contains("sparq_reallocate"))) << "makes nothing of V here";
  ParameterValues other(spec);
  ASSERT_EQ(other.Parse(spec, "selector=dense"), "");
  for (const ParameterSpec& parameter : spec.parameters)
    EXPECT_EQ(other.Matters(parameter), !seen.contains(parameter.name));
}

// What the selector and the rounded keys remember from step to step only spares them work.
TEST(Twilight, StepsChooseAsWithoutMemory) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(DecodeShape(300, 4, 2), &random);
  const DecodeMethod& method = *FindDecodeMethod("twilight");
  for (const auto& [selector, own, twilight] : EverySelector(64)) {
    SCOPED_TRACE(twilight);
    ParameterValues values(method.spec());
    ASSERT_EQ(values.Parse(method.spec(), twilight), "");
    DecodeDriver driver(method, values);
    DecodePrompt prompt;
    prompt.cache = data.View();
    prompt.cache.seq_k = 200;
    prompt.cache.seq_q = 0;
    ASSERT_TRUE(driver.Begin(prompt, {}).ok());
    for (const int32_t end : {201, 260, 300, 230}) {
      AttentionProblem step = data.View();
      step.seq_k = end;
      step.first_position = end - 1;
      DecodeSelection expected, selection;
      ASSERT_TRUE(method.Select(step, values, {}, &expected).ok());
      ASSERT_TRUE(driver.Append({step, 0}, {}).ok());
      ASSERT_TRUE(driver.Step({step, 0}, {}, &selection).ok());
      EXPECT_EQ(selection.pages, expected.pages) << end;
      EXPECT_EQ(selection.page_begin, expected.page_begin);
      EXPECT_EQ(selection.elements_moved, expected.elements_moved);
    }
  }
}

// The weights make up for what was not drawn: the sample of a denominator is right on average, and a promise of almost
// no error draws everything.

}  // namespace
}  // namespace headscope::kernels
