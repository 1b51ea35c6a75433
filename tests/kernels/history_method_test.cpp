// SPDX-License-Identifier: Apache-2.0
// Decode methods that go by the steps before or the layers below, and evict nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <utility>

#include "generation.h"

namespace headscope::kernels {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using testing::FreshSeed;
using testing::Generation;
using ::testing::HasSubstr;
using testing::kLength;
using testing::kPrompt;
using testing::RandomProblem;
using testing::SquareShape;
using testing::Steps;
using testing::Tokens;

struct HistorySetting {
  const char* method;
  const char* all;  // parameters with which everything is attended to
};

constexpr HistorySetting kSettings[] = {{"magic-pig", "n_local=200"},
                                        {"l-serve", "budget=1000"},
                                        {"infllm", "n_local=300"},
                                        {"tidal-decode", ""},  // layer 0
                                        {"think", "ratio=0"}};

TEST(HistoryMethods, AreAllHere) {
  std::vector<std::string> expected, named;
  for (const DecodeMethod* method : DecodeMethods()) {
    if (method->spec().needs_history && method->spec().family != "cache eviction")
      expected.push_back(method->spec().name);
  }
  for (const HistorySetting& setting : kSettings) named.emplace_back(setting.method);
  EXPECT_EQ(named, expected);
}

TEST(HistoryMethods, ABudgetOfEverythingIsDenseAndNothingIsEvicted) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(kLength, 4, 2), &random);
  for (const HistorySetting& setting : kSettings) {
    Generation generation(setting.method, setting.all);
    int32_t position = kPrompt;
    for (const DecodeSelection& selection : generation.All(data)) {
      ++position;
      for (int64_t list = 0; list < 2; ++list)
        EXPECT_EQ(static_cast<int32_t>(TokensOfList(selection, list, position).size()), position) << setting.method;
      EXPECT_TRUE(std::all_of(selection.weights.begin(), selection.weights.end(), [](float w) { return w == 1; }));
      EXPECT_GT(selection.elements_moved, 0);
    }
    EXPECT_EQ(generation.NumEvicted(0), 0);
  }
}

TEST(HistoryMethods, BeginAgainAfterAnotherGeneration) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(kLength, 4, 2), &random), other(SquareShape(kLength, 4, 2), &random);
  for (const auto& [method, parameters] : {std::pair{"magic-pig", "bits=3,tables=8"},
                                           {"l-serve", "budget=60,logical_size=4,logical_pages=2"},
                                           {"infllm", "block_size=8,n_init=4,n_local=40,top_k=3"}}) {
    Generation generation(method, parameters), fresh(method, parameters);
    generation.All(other);
    const Steps again = generation.All(data), expected = fresh.All(data);
    for (size_t step = 0; step < expected.size(); ++step) {
      EXPECT_EQ(again[step].pages, expected[step].pages) << method;
      EXPECT_EQ(again[step].weights, expected[step].weights) << method;
    }
  }
}

// H2O sums the rows of a prompt that ends in another way once: its first ones are NaN when they come again.
TEST(HistoryMethods, RowsThatAreUnchangedAreNotSummedAgain) {
  std::mt19937 random(FreshSeed());
  constexpr int32_t kFirstRow = 30, kContext = 120;
  const RandomProblem whole(SquareShape(kLength, 4, 2), &random), other(SquareShape(kLength, 4, 2), &random);
  RandomProblem again = other, poisoned = other;  // the context of `whole`, and another end
  for (int32_t token = 0; token < kContext; ++token) {
    for (int32_t d = 0; d < whole.shape.head_dim; ++d) {
      for (int32_t head = 0; head < 4; ++head) {
        again.q.Set(0, head, token, d, whole.q.Get(0, head, token, d));
        poisoned.q.Set(0, head, token, d, std::numeric_limits<float>::quiet_NaN());
      }
      for (int32_t head = 0; head < 2; ++head) {
        for (RandomProblem* const to : {&again, &poisoned}) {
          to->k.Set(0, head, token, d, whole.k.Get(0, head, token, d));
          to->v.Set(0, head, token, d, whole.v.Get(0, head, token, d));
        }
      }
    }
  }
  const DecodeMethod& method = *FindDecodeMethod("h2o");
  const ParameterValues values = testing::Values(method.spec(), "k=24");
  const auto begin = [](DecodeDriver* driver, const RandomProblem& data, int32_t end, int32_t first_row,
                        int32_t unchanged) {
    DecodePrompt prompt;
    prompt.cache = data.View();
    prompt.cache.seq_k = end;
    prompt.cache.seq_q = end - first_row;
    prompt.cache.first_position = first_row;
    prompt.cache.q.data = static_cast<const float*>(prompt.cache.q.data) + first_row * prompt.cache.q.row_stride;
    prompt.unchanged = unchanged;
    prompt.returns_to = kContext;
    const Status status = driver->Begin(prompt, {});
    ASSERT_TRUE(status.ok()) << status.message();
  };
  const auto steps = [](DecodeDriver* driver, const RandomProblem& data, int32_t from) {
    Steps made;
    for (int32_t position = from; position < kLength; ++position) {
      const DecodeStep step = testing::StepAt(data, position);
      EXPECT_TRUE(driver->Append(step, {}).ok());
      EXPECT_TRUE(driver->Step(step, {}, &made.emplace_back()).ok());
    }
    return made;
  };
  const auto expect_same = [](const Steps& made, const Steps& expected, const std::string& what) {
    ASSERT_EQ(made.size(), expected.size());
    for (size_t step = 0; step < expected.size(); ++step)
      EXPECT_EQ(made[step].pages, expected[step].pages) << what << ", step " << step;
  };
  DecodeDriver driver(method, values);
  begin(&driver, whole, 150, kFirstRow, 0);
  steps(&driver, whole, 150);
  for (const int32_t end : {160, 121, 190}) {
    DecodeDriver fresh(method, values);
    begin(&fresh, again, end, kFirstRow, 0);
    const Steps expected = steps(&fresh, again, end);
    begin(&driver, poisoned, end, kFirstRow, kContext);
    expect_same(steps(&driver, poisoned, end), expected, "unchanged");
  }
  // Other rows, or fewer that are the same: nothing is taken from before.
  for (const auto& [first_row, unchanged] : {std::pair{kFirstRow + 1, kContext}, {kFirstRow, kContext - 1}, {0, 0}}) {
    DecodeDriver fresh(method, values);
    begin(&fresh, other, 160, first_row, 0);
    begin(&driver, whole, 150, kFirstRow, 0);
    begin(&driver, other, 160, first_row, unchanged);
    expect_same(steps(&driver, other, 160), steps(&fresh, other, 160), "changed");
  }
}

// The weights make up for what was not sampled.
TEST(MagicPig, SamplesWithoutBias) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(kLength), &random, 0.5f);
  double mean = 0;
  size_t most = 0;
  constexpr int kDraws = 300;
  for (int seed = 0; seed < kDraws; ++seed) {
    Generation generation("magic-pig", "bits=4,tables=12,n_sink=4,n_local=8,seed=" + std::to_string(seed));
    ASSERT_TRUE(generation.Begin(data, kPrompt, kPrompt).ok());
    const DecodeSelection selection = generation.Step(data, kPrompt);
    most = std::max(most, selection.pages.size());
    for (const float weight : selection.weights) mean += static_cast<double>(weight) / kDraws;
  }
  EXPECT_NEAR(mean, kPrompt + 1, 0.1 * kPrompt) << "every token is stood for";
  EXPECT_LT(most, static_cast<size_t>(kPrompt));
}

TEST(MagicPig, FindsWhatPointsAlongTheQuery) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(kLength), &random, 0.3f);
  for (int32_t d = 0; d < 16; ++d) {
    data.k.Set(0, 0, 90, d, 5 * data.q.Get(0, 0, kPrompt, d));
  }
  const Steps steps = Generation("magic-pig", "bits=8,tables=40").All(data);
  EXPECT_THAT(Tokens(steps.front(), 0), Contains(90));
  EXPECT_LT(Tokens(steps.front(), 0).size(), 150u);
}

TEST(LServe, ReusesAChoiceAndKeepsTheNewestPage) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(kLength), &random);
  // The query that chooses first asks for two pages, the one that chooses next for two others.
  for (const auto& [row, component] : {std::pair{kPrompt, 3}, {kPrompt + 4, 7}}) {
    for (int32_t d = 0; d < 16; ++d) data.q.Set(0, 0, row, d, d == component ? 8.0f : 0.0f);
  }
  for (const auto& [token, component] : {std::pair{40, 3}, {70, 3}, {120, 7}, {150, 7}})
    data.k.Set(0, 0, token, component, 50.0f);  // no random key has so much
  const Steps steps = Generation("l-serve", "budget=48,logical_size=4,logical_pages=4,interval=6").All(data);
  // Chosen at the first step (token 200) and where the tokens before are a multiple of 6: 204 and 210.
  const auto older = [&](size_t step) {
    std::vector<int32_t> pages = steps[step].pages;
    std::erase_if(pages, [](int32_t page) { return page >= kPrompt / 16; });
    return pages;
  };
  for (const size_t step : {1u, 2u, 3u}) EXPECT_EQ(older(step), older(0));
  for (const size_t step : {5u, 6u, 7u, 8u, 9u}) EXPECT_EQ(older(step), older(4));
  EXPECT_THAT(older(0), ElementsAre(2, 4));
  EXPECT_THAT(older(4), ElementsAre(7, 9));
  for (size_t step = 0; step < steps.size(); ++step)
    EXPECT_EQ(steps[step].pages.back(), (kPrompt + static_cast<int32_t>(step)) / 16);
  EXPECT_GT(steps[4].elements_moved, steps[5].elements_moved);
}

TEST(InfLlm, LooksUpTheUnitWhoseTokensLaterQueriesAskedFor) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(kLength), &random, 0.05f);
  for (int32_t row = 0; row < kLength; ++row) data.q.Set(0, 0, row, 3, 2.0f);
  data.k.Set(0, 0, 70, 3, 4.0f);
  const Steps steps = Generation("infllm", "block_size=10,n_init=5,n_local=50,top_k=1,n_repr=1").All(data);
  std::vector<int32_t> expected = {0, 1, 2, 3, 4};
  for (int32_t token = 65; token < 75; ++token) expected.push_back(token);
  for (int32_t token = 145; token <= kPrompt; ++token) expected.push_back(token);  // 14 units of 10 from token 5 on
  EXPECT_EQ(Tokens(steps.front(), 0), expected);
}

TEST(InfLlm, SaysThatItNeedsAllQueries) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(kLength), &random);
  EXPECT_THAT(Generation("infllm", "").Begin(data, kPrompt, 199).message(),
              HasSubstr("last 200 queries, and 199 are at hand"));
}

// Layer by layer, as a driver that runs them together does.
TEST(TidalDecode, HigherLayersAttendToWhatAChoosingLayerTook) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(kLength, 4, 2), &random);
  const DecodeMethod& method = *FindDecodeMethod("tidal-decode");
  const ParameterValues values = testing::Values(method.spec(), "k=20,first_layer=1,reselect_layer=3");
  DecodeStep step = testing::StepAt(data, kPrompt);
  std::vector<DecodeSelection> made(6);
  std::vector<const DecodeSelection*> lower;
  for (int32_t layer = 0; layer < 6; ++layer) {
    DecodeDriver driver(method, values);
    DecodePrompt prompt;
    prompt.cache = data.View();
    prompt.cache.seq_q = 0;
    prompt.cache.seq_k = kPrompt;
    prompt.layer = layer;
    ASSERT_TRUE(driver.Begin(prompt, {}).ok());
    DecodeStep of_layer = step;
    // The layers that choose see other queries.
    if (layer == 3)
      of_layer.problem.q.data = static_cast<const float*>(step.problem.q.data) + 5 * step.problem.q.row_stride;
    of_layer.lower_layers = lower;
    ASSERT_TRUE(driver.Append(of_layer, {}).ok());
    const Status status = driver.Step(of_layer, {}, &made[static_cast<size_t>(layer)]);
    ASSERT_TRUE(status.ok()) << status.message();
    lower.push_back(&made[static_cast<size_t>(layer)]);
  }
  const DecodeMethod& exact = *FindDecodeMethod("exact-top-k");
  DecodeSelection first;
  ASSERT_TRUE(exact.Select(step.problem, testing::Values(exact.spec(), "k=20"), {}, &first).ok());
  for (const size_t layer : {0u, 1u, 3u}) EXPECT_TRUE(IsDense(made[layer], kPrompt + 1));
  EXPECT_EQ(made[2].pages, first.pages);
  EXPECT_EQ(made[4].pages, made[3].chosen->pages);
  EXPECT_EQ(made[5].pages, made[3].chosen->pages);
  EXPECT_NE(made[4].pages, made[2].pages);
}

TEST(ThinK, KeepsTheComponentsThatTheLastQueriesAskFor) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(kLength, 4, 2), &random);
  const int32_t head_dim = data.shape.head_dim;
  // KV head 1's last queries and keys are large in component 3 and nearly nothing in component 5.
  for (int32_t token = 0; token < kPrompt; ++token) {
    data.k.Set(0, 1, token, 3, 20);
    data.k.Set(0, 1, token, 5, 1e-4f);
    for (const int32_t head : {2, 3}) data.q.Set(0, head, token, 3, 20);
  }
  int32_t position = kPrompt;
  int64_t whole = 0;
  for (const DecodeSelection& selection : Generation("think", "ratio=0.5,window=16,n_local=40").All(data)) {
    ++position;
    EXPECT_EQ(selection.components_end, kPrompt - 40);
    EXPECT_THAT(selection.component_begin, ElementsAre(0, head_dim / 2, head_dim));
    const auto begin = selection.components.begin() + head_dim / 2;
    EXPECT_TRUE(std::find(begin, selection.components.end(), 3) != selection.components.end());
    EXPECT_TRUE(std::find(begin, selection.components.end(), 5) == selection.components.end());
    for (int64_t list = 0; list < 2; ++list)
      EXPECT_EQ(static_cast<int32_t>(TokensOfList(selection, list, position).size()), position) << "no token goes";
    EXPECT_EQ(selection.elements_moved, 2 * (position + 1) * head_dim - (kPrompt - 40) * (head_dim / 2));
    whole += selection.components_end;
  }
  EXPECT_GT(whole, 0);
  EXPECT_EQ(Generation("think", "n_local=200").All(data).front().components_end, 0) << "all keys stay whole";
  Generation short_of_queries("think", "window=16");
  const Status status = short_of_queries.Begin(data, kPrompt, 15);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("the prompt's last 16 queries, and 15 are at hand"));
}

TEST(TidalDecode, SaysWhichLayersChoiceIsMissing) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(kLength), &random);
  const DecodeMethod& method = *FindDecodeMethod("tidal-decode");
  DecodeDriver driver(method, testing::Values(method.spec(), ""));
  DecodePrompt prompt;
  prompt.cache = data.View();
  prompt.cache.seq_q = 0;
  prompt.cache.seq_k = kPrompt;
  prompt.layer = 7;
  ASSERT_TRUE(driver.Begin(prompt, {}).ok());
  DecodeStep step{.problem = data.View()};
  step.problem.seq_q = 1;
  step.problem.seq_k = kPrompt + 1;
  step.problem.first_position = kPrompt;
  ASSERT_TRUE(driver.Append(step, {}).ok());
  DecodeSelection selection;
  const auto message = [&] { return driver.Step(step, {}, &selection).message(); };
  const std::string missing =
      "tidal-decode: layer 7 reuses the tokens of layer 2, whose selection is missing: record layer 2 as well, or set "
      "first_layer to an attention layer that is there";
  EXPECT_EQ(message(), missing);
  std::vector<const DecodeSelection*> lower(7, nullptr);
  step.lower_layers = lower;
  EXPECT_EQ(message(), missing);

  // Of other tokens, as a driver says it; then of more KV heads.
  const std::string unlike =
      "tidal-decode: layer 7 reuses the tokens of layer 2, which has another window or another number of KV heads: set "
      "first_layer to a layer that is like layer 7 in both";
  DecodeSelection of_layer = NoChoice();
  lower[2] = &of_layer;
  EXPECT_EQ(message(), unlike);
  const DecodeMethod& exact = *FindDecodeMethod("exact-top-k");
  const RandomProblem more(SquareShape(kLength, 2, 2), &random);
  ASSERT_TRUE(
      exact.Select(testing::StepAt(more, kPrompt).problem, testing::Values(exact.spec(), "k=9"), {}, &of_layer).ok());
  of_layer.chosen = std::make_shared<DecodeSelection>(of_layer);
  EXPECT_EQ(message(), unlike);
  ASSERT_TRUE(exact.Select(step.problem, testing::Values(exact.spec(), "k=9"), {}, &of_layer).ok());
  of_layer.chosen = std::make_shared<DecodeSelection>(of_layer);
  EXPECT_EQ(message(), "");
}

}  // namespace
}  // namespace headscope::kernels
