// SPDX-License-Identifier: Apache-2.0
// Decode methods that let go of tokens, over generations. DecodeDriver refuses a selection that names an evicted token
// and shows NaN in its place, so that every step here is also a test of that.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <numeric>

#include "generation.h"
#include "support/stopped.h"

namespace headscope::kernels {
namespace {

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

RandomProblem Data(std::mt19937* random, int32_t num_qo_heads = 4, int32_t num_kv_heads = 2) {
  return RandomProblem(SquareShape(kLength, num_qo_heads, num_kv_heads), random);
}

struct EvictionSetting {
  const char* method;
  const char* parameters;
  int32_t budget;    // of the prompt, or of the cache
  bool whole_cache;  // new tokens are among the budget
};

std::vector<EvictionSetting> Settings() {
  return {{"h2o", "k=40", 40, true},
          {"tova", "k=40", 40, true},
          {"snap-kv", "budget=40,window=16", 40, false},
          {"pyramid-kv", "budget=40,window=16,num_layers=4", 40, false},
          {"chunk-kv", "budget=40,window=16", 40, false},
          {"knorm", "budget=40", 40, false},
          {"key-diff", "budget=40", 40, false},
          {"lag-kv", "budget=50,lag=16", 50, false},
          {"expected-attention", "budget=40", 40, false},
          {"cur-dkv", "budget=40", 40, false}};
}

TEST(CacheEviction, EveryMethodThatEvictsIsHere) {
  std::vector<std::string> expected, named;
  for (const DecodeMethod* method : DecodeMethods()) {
    if (method->spec().family == "cache eviction") expected.push_back(method->spec().name);
  }
  for (const EvictionSetting& setting : Settings()) named.emplace_back(setting.method);
  EXPECT_EQ(named, expected);
}

TEST(CacheEviction, KeepsTheBudgetAndEveryNewToken) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data = Data(&random);
  for (const EvictionSetting& setting : Settings()) {
    SCOPED_TRACE(setting.method);
    Generation generation(setting.method, setting.parameters);
    std::vector<std::vector<int32_t>> before(2);
    int32_t position = kPrompt;
    for (const DecodeSelection& selection : generation.All(data)) {
      for (size_t list = 0; list < 2; ++list) {
        const std::vector<int32_t> tokens = Tokens(selection, static_cast<int64_t>(list));
        const int32_t grown = position - kPrompt + 1;
        // A cache has one token more while a step attends, which goes behind the step.
        if (setting.whole_cache) {
          EXPECT_LE(static_cast<int32_t>(tokens.size()), setting.budget + 1);
          EXPECT_GE(static_cast<int32_t>(tokens.size()), setting.budget);
        } else if (std::string(setting.method) == "chunk-kv") {
          // The window of 16 and two chunks of 10, one of which may be the last, of 4.
          EXPECT_LE(static_cast<int32_t>(tokens.size()), 36 + grown);
          EXPECT_GE(static_cast<int32_t>(tokens.size()), 30 + grown);
        } else if (std::string(setting.method) != "pyramid-kv") {
          EXPECT_EQ(static_cast<int32_t>(tokens.size()), setting.budget + grown);
        }
        EXPECT_EQ(tokens.back(), position);
        std::vector<int32_t> possible = before[list];  // what was evicted never returns
        possible.push_back(position);
        if (position > kPrompt) {
          EXPECT_TRUE(std::includes(possible.begin(), possible.end(), tokens.begin(), tokens.end()));
        }
        before[list] = tokens;
      }
      EXPECT_GT(selection.elements_moved, 0);
      ++position;
    }
    EXPECT_GE(generation.NumEvicted(0), kPrompt - setting.budget - (setting.whole_cache ? 0 : 60));
  }
}

TEST(CacheEviction, ABudgetOfEverythingIsDense) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data = Data(&random);
  for (const EvictionSetting& setting : Settings()) {
    const bool running = setting.whole_cache;
    Generation generation(setting.method, running ? "k=1000" : "budget=1000");
    int32_t position = kPrompt;
    for (const DecodeSelection& selection : generation.All(data)) {
      EXPECT_TRUE(IsDense(selection, ++position)) << setting.method;
      EXPECT_EQ(generation.NumEvicted(0), 0);
    }
  }
}

TEST(CacheEviction, BeginsAgainAfterAnotherGeneration) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data = Data(&random), other = Data(&random);
  for (const EvictionSetting& setting : Settings()) {
    Generation generation(setting.method, setting.parameters), fresh(setting.method, setting.parameters);
    generation.All(other);
    const Steps again = generation.All(data), expected = fresh.All(data);
    for (size_t step = 0; step < expected.size(); ++step)
      EXPECT_EQ(again[step].pages, expected[step].pages) << setting.method;
  }
}

TEST(CacheEviction, SaysWhichQueriesOfThePromptAreMissing) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data = Data(&random);
  const std::vector<std::string> by_queries = {"h2o",        "tova",     "snap-kv",
                                               "pyramid-kv", "chunk-kv", "expected-attention"};
  for (const EvictionSetting& setting : Settings()) {
    Generation generation(setting.method, setting.parameters);
    const bool needs = std::find(by_queries.begin(), by_queries.end(), setting.method) != by_queries.end();
    const Status status = generation.Begin(data, kPrompt, 0);
    EXPECT_EQ(status.ok(), !needs) << setting.method;
    if (needs) {
      EXPECT_EQ(status.code(), StatusCode::kUnsupported);
      EXPECT_THAT(status.message(), HasSubstr(setting.method));
      EXPECT_THAT(status.message(), HasSubstr("queries"));
    }
  }
  Generation generation("snap-kv", "window=64");
  EXPECT_THAT(generation.Begin(data, kPrompt, 63).message(), HasSubstr("last 64 queries, and 63 are at hand"));
  EXPECT_TRUE(generation.Begin(data, kPrompt, 64).ok());
}

TEST(CacheEviction, APromptMayBeEmptyOrOneToken) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data = Data(&random);
  for (const EvictionSetting& setting : Settings()) {
    for (const int32_t prompt : {0, 1}) {
      Generation generation(setting.method, setting.parameters);
      ASSERT_TRUE(generation.Begin(data, prompt, prompt).ok()) << setting.method;
      for (int32_t position = prompt; position < 30; ++position)
        EXPECT_TRUE(IsDense(generation.Step(data, position), position + 1)) << setting.method;
    }
  }
}

TEST(PromptEviction, CountsARatioAsFloorOfWhatStays) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data = Data(&random);
  for (const auto& [ratio, kept] : {std::pair{"0", 200}, {"0.5", 100}, {"0.333", 133}, {"0.9", 20}, {"1", 1}}) {
    Generation generation("knorm", std::string("compression_ratio=") + ratio);
    EXPECT_EQ(Tokens(generation.All(data).front(), 0).size(), static_cast<size_t>(kept) + 1) << ratio;
  }
}

// One KV head's scores stand out: under AdaKV it keeps more, the others their floor, and together as many.
TEST(PromptEviction, AdaKvSpendsTheLayersBudgetWhereScoresAreBest) {
  std::mt19937 random(FreshSeed());
  RandomProblem data = Data(&random);
  for (int32_t token = 0; token < kLength; ++token) {
    for (int32_t d = 0; d < 16; ++d) data.k.Set(0, 1, token, d, 0.01f * data.k.Get(0, 1, token, d));
  }
  const auto count = [&](const std::string& allocation) {
    const Steps steps = Generation("knorm", "budget=50,ada_floor=0.2,allocation=" + allocation).All(data);
    return std::pair{Tokens(steps.front(), 0).size() - 1, Tokens(steps.front(), 1).size() - 1};
  };
  EXPECT_EQ(count("uniform"), (std::pair{size_t{50}, size_t{50}}));
  EXPECT_EQ(count("ada"), (std::pair{size_t{10}, size_t{90}}));
}

TEST(PromptEviction, RefusesABudgetBelowWhatIsKeptInAnyCase) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data = Data(&random);
  struct Refusal {
    const char *method, *parameters, *words;
  };
  for (const Refusal& refusal :
       {Refusal{"snap-kv", "budget=40,window=64",
                "budget is 40 of the prompt's 200 tokens, and window alone keeps 64; raise budget or lower window"},
        {"pyramid-kv", "budget=40,window=41,allocation=ada", "window alone keeps 41"},
        {"chunk-kv", "compression_ratio=0.9,window=64",
         "compression_ratio leaves 20 of the prompt's 200 tokens, and window alone keeps 64; lower compression_ratio"},
        {"lag-kv", "budget=20,lag=16,allocation=ada", "n_sink and lag alone keep 24; raise budget or lower n_sink"}}) {
    Generation generation(refusal.method, refusal.parameters);
    const Status status = generation.Begin(data, kPrompt, kPrompt);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(refusal.words));
  }
}

// What the heads keep in any case stays with all of them, however unlike their scores are.
TEST(PromptEviction, AdaKvStarvesNoHeadOfItsWindow) {
  std::mt19937 random(FreshSeed());
  RandomProblem data = Data(&random);
  for (int32_t row = kPrompt - 16; row < kPrompt; ++row) {
    for (int32_t head = 0; head < 2; ++head) data.q.Set(0, head, row, 3, 9.0f);  // KV head 0: a few tokens have it all
  }
  for (const int32_t token : {20, 21, 22}) data.k.Set(0, 0, token, 3, 9.0f);
  for (const char* allocation : {"ada", "kvpress"}) {
    const std::string parameters = std::string("window=16,budget=16,ada_floor=0,allocation=") + allocation;
    const Steps steps = Generation("snap-kv", parameters).All(data);
    for (int64_t list = 0; list < 2; ++list) {
      std::vector<int32_t> window(17);
      std::iota(window.begin(), window.end(), kPrompt - 16);
      EXPECT_EQ(Tokens(steps.front(), list), window) << allocation;
    }
  }
}

TEST(Knorm, KeepsTheSmallestKeys) {
  std::mt19937 random(FreshSeed());
  RandomProblem data = Data(&random, 1, 1);
  for (const int32_t token : {17, 100, 150}) {
    for (int32_t d = 0; d < 16; ++d) data.k.Set(0, 0, token, d, 0.01f);
  }
  EXPECT_THAT(Tokens(Generation("knorm", "budget=3").All(data).front(), 0), ElementsAre(17, 100, 150, kPrompt));
}

TEST(KeyDiff, KeepsKeysThatPointElsewhere) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(kLength), &random, 0.05f);
  for (int32_t token = 0; token < kLength; ++token)
    data.k.Set(0, 0, token, 2, token == 40 || token == 130 ? -1.0f : 1.0f);
  EXPECT_THAT(Tokens(Generation("key-diff", "budget=2").All(data).front(), 0), ElementsAre(40, 130, kPrompt));
}

TEST(LagKv, KeepsSinksTheNewestPartitionAndWhatStandsOut) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(kLength), &random, 0.5f);
  // In every judged partition of 20 one token whose components differ wildly.
  for (int32_t token = 4 + 7; token < 160; token += 20) {
    for (int32_t d = 0; d < 16; ++d) {
      data.k.Set(0, 0, token, d, d % 2 == 0 ? 30.0f : -30.0f);
      data.v.Set(0, 0, token, d, d % 2 == 0 ? 30.0f : -30.0f);
    }
  }
  // Sinks 0-3; partitions 4-23 .. 184-199 is cut: nine whole ones end at 184, so that 164-199 are never judged.
  const std::vector<int32_t> tokens = Tokens(Generation("lag-kv", "lag=20,budget=48").All(data).front(), 0);
  std::vector<int32_t> expected = {0, 1, 2, 3};
  for (int32_t token = 11; token < 160; token += 20) expected.push_back(token);
  for (int32_t token = 164; token <= kPrompt; ++token) expected.push_back(token);
  EXPECT_EQ(tokens, expected);
}

TEST(CurDkv, KeepsSinksAndWhatIsLargeBesideItsNeighbours) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(kLength), &random, 1.0f);
  const auto fill = [&](int32_t token, float key, float value) {
    for (int32_t d = 0; d < 16; ++d) {
      data.k.Set(0, 0, token, d, key);
      data.v.Set(0, 0, token, d, value);
    }
  };
  for (int32_t token = 0; token < kLength; ++token) fill(token, 1.0f, 1.0f);
  fill(40, 3.0f, 3.0f);                                                       // alone in its window
  fill(100, 2.0f, 2.0f);                                                      // so is this
  fill(70, 9.0f, 0.1f);                                                       // a large key whose value is small
  for (int32_t token = 128; token < 144; ++token) fill(token, 20.0f, 20.0f);  // all large together
  const auto kept = [&](const std::string& parameters) {
    return Tokens(Generation("cur-dkv", "n_sink=2," + parameters).All(data).front(), 0);
  };
  EXPECT_THAT(kept("budget=4"), ElementsAre(0, 1, 40, 100, kPrompt));
  EXPECT_THAT(kept("budget=3,leverage=keys"), ElementsAre(0, 1, 70, kPrompt));
  EXPECT_THAT(kept("budget=3,leverage=values"), ElementsAre(0, 1, 40, kPrompt));
  // Without windows what is large anywhere comes first.
  EXPECT_THAT(kept("budget=4,window=0"), ElementsAre(0, 1, 128, 129, kPrompt));
}

TEST(SnapKv, KeepsWhatTheLastQueriesLookAtWithItsNeighbours) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(kLength), &random, 0.1f);
  for (int32_t row = kPrompt - 16; row < kPrompt; ++row) data.q.Set(0, 0, row, 5, 20.0f);
  data.k.Set(0, 0, 60, 5, 4.0f);
  data.k.Set(0, 0, 120, 5, 4.0f);
  std::vector<int32_t> expected;
  for (const int32_t token : {60, 120}) {
    for (int32_t near = token - 2; near <= token + 2; ++near) expected.push_back(near);
  }
  for (int32_t token = kPrompt - 16; token <= kPrompt; ++token) expected.push_back(token);
  for (const char* pooling : {"mean", "max"}) {
    const std::string parameters = std::string("window=16,kernel=5,budget=26,pooling=") + pooling;
    EXPECT_EQ(Tokens(Generation("snap-kv", parameters).All(data).front(), 0), expected) << pooling;
  }
}

TEST(ChunkKv, KeepsWholeChunks) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(kLength), &random, 0.1f);
  for (int32_t row = kPrompt - 16; row < kPrompt; ++row) data.q.Set(0, 0, row, 5, 20.0f);
  data.k.Set(0, 0, 63, 5, 4.0f);
  std::vector<int32_t> expected;
  for (int32_t token = 60; token < 70; ++token) expected.push_back(token);
  for (int32_t token = kPrompt - 16; token <= kPrompt; ++token) expected.push_back(token);
  EXPECT_EQ(Tokens(Generation("chunk-kv", "window=16,budget=26").All(data).front(), 0), expected);
}

// The mean query looks along one component: keys that point there stay, and no others; spread along another counts as
// well.
TEST(ExpectedAttention, KeepsWhatTheQueriesDistributionFavours) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(kLength), &random, 0.05f);
  for (int32_t row = 0; row < kLength; ++row) {
    data.q.Set(0, 0, row, 14, 3.0f);
    data.q.Set(0, 0, row, 15, row % 2 == 0 ? 6.0f : -6.0f);
  }
  data.k.Set(0, 0, 77, 14, 9.0f);
  data.k.Set(0, 0, 99, 14, -9.0f);
  data.k.Set(0, 0, 150, 15, 5.0f);
  EXPECT_THAT(Tokens(Generation("expected-attention", "budget=6,value_norm=0").All(data).front(), 0),
              ElementsAre(0, 1, 2, 3, 77, 150, kPrompt));
  const Steps by_mean = Generation("expected-attention", "budget=5,value_norm=0,covariance=0").All(data);
  EXPECT_THAT(Tokens(by_mean.front(), 0), ElementsAre(0, 1, 2, 3, 77, kPrompt));
}

TEST(ExpectedAttention, SaysWhatIsMissingOrNotPlainRope) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(kLength), &random);
  testing::PromptFacts facts(data, kPrompt);
  const auto message = [&](auto change) {
    DecodePrompt prompt;
    prompt.cache = data.View();
    prompt.cache.seq_q = prompt.cache.seq_k = kPrompt;
    facts.Put(&prompt);
    change(prompt);
    const DecodeMethod& method = *FindDecodeMethod("expected-attention");
    DecodeDriver driver(method, testing::Values(method.spec(), ""));
    const Status status = driver.Begin(prompt, {});
    return std::string(status.ok() ? "fine" : status.message());
  };
  EXPECT_EQ(message([](DecodePrompt&) {}), "fine");
  EXPECT_THAT(message([](DecodePrompt& p) { p.q_pre_rope.data = nullptr; }), HasSubstr("before RoPE"));
  EXPECT_THAT(message([](DecodePrompt& p) { p.rope.theta = 0; }), HasSubstr("theta is not known"));
  EXPECT_THAT(message([](DecodePrompt& p) { p.rope.theta = 5000; }), HasSubstr("RoPE is scaled"));
  EXPECT_THAT(message([](DecodePrompt& p) { p.rope.num_dims = 16; }), HasSubstr("even number of them must fit"));
}

// 268 million products for a head's covariance, and as many for its keys.
TEST(ExpectedAttention, StopsWithinAHead) {
  std::mt19937 random(FreshSeed());
  constexpr int32_t kTokens = 16384;
  const RandomProblem data(SquareShape(kTokens, 4, 1, 128), &random);
  testing::PromptFacts facts(data, kTokens);
  DecodePrompt prompt;
  prompt.cache = data.View();
  facts.Put(&prompt);
  const DecodeMethod& method = *FindDecodeMethod("expected-attention");
  constexpr double kEnough = 0.1;      // seconds
  for (const int after : {50, 250}) {  // among the queries, among the keys
    const double seconds = SecondsToStop(
        [&](const std::stop_token& stop) {
          DecodeDriver driver(method, testing::Values(method.spec(), ""));
          EXPECT_EQ(driver.Begin(prompt, {.stop = stop}).code(), StatusCode::kCancelled);
        },
        std::chrono::milliseconds(after), kEnough);
    EXPECT_LT(seconds, kEnough) << after;
  }
}

TEST(CriticalKv, TakesHalfByTheScoreAndHalfByWhatItAddsToTheOutput) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(kLength), &random, 1.0f);
  for (int32_t token = 0; token < kPrompt; ++token) {  // knorm: small keys score best
    for (int32_t d = 0; d < 16; ++d)
      data.k.Set(0, 0, token, d, d == 0 ? 1.0f + 0.01f * static_cast<float>(token) : 0.0f);
    for (int32_t d = 0; d < 16; ++d) data.v.Set(0, 0, token, d, 0.0f);
  }
  // A score that is minus a norm weighs large values down: the last of the small norms wins the second half.
  for (int32_t token = 0; token < kPrompt; ++token) data.v.Set(0, 0, token, 0, token < 100 ? 3.0f : 0.0f);
  const std::vector<int32_t> tokens = Tokens(Generation("knorm", "budget=8,critical=1").All(data).front(), 0);
  EXPECT_THAT(tokens, ElementsAre(0, 1, 2, 3, 100, 101, 102, 103, kPrompt));
  DecodePrompt prompt;
  prompt.cache = data.View();
  prompt.cache.seq_q = prompt.cache.seq_k = kPrompt;
  const DecodeMethod& method = *FindDecodeMethod("knorm");
  DecodeDriver driver(method, testing::Values(method.spec(), "critical=1"));
  EXPECT_THAT(driver.Begin(prompt, {}).message(), HasSubstr("norms of their values"));
}

// What CriticalKV adds to a score is a share of the attention, which expected-attention's are, however small: among
// keys that are expected to have next to nothing the values decide.
TEST(CriticalKv, AddsToExpectedSharesWhatItAddsToAnyScore) {
  std::mt19937 random(7);  // of other keys one may be expected to have more than what is added
  RandomProblem data(SquareShape(kLength), &random, 0.05f);
  for (int32_t row = 0; row < kLength; ++row) data.q.Set(0, 0, row, 14, 3.0f);
  data.k.Set(0, 0, 77, 14, 30.0f);
  for (int32_t token = 100; token < 103; ++token) {
    data.k.Set(0, 0, token, 14, -4.0f);
    data.v.Set(0, 0, token, 0, 3.0f);
  }
  const std::vector<int32_t> tokens =
      Tokens(Generation("expected-attention", "budget=8,value_norm=0,critical=1").All(data).front(), 0);
  EXPECT_THAT(tokens, ::testing::Contains(77));
  // These three have the smallest shares.
  EXPECT_GE(std::ranges::count_if(tokens, [](int32_t token) { return token >= 100 && token < 103; }), 2);
}

// Any score: the better half of a chunk does not stay alone, whatever its own scores are.
TEST(PromptEviction, KeepsWholeChunksByAnyScore) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(kLength), &random, 1.0f);
  const auto fill = [&](int32_t token, float key) {
    for (int32_t d = 0; d < 16; ++d) data.k.Set(0, 0, token, d, d == 0 ? key : 0.0f);
  };
  for (int32_t token = 0; token < kLength; ++token) fill(token, 5.0f);
  for (int32_t token = 60; token < 65; ++token) fill(token, 3.0f);  // a chunk of 3 on average
  fill(41, 0.5f);                                                   // the smallest key, alone: 4.1
  EXPECT_THAT(Tokens(Generation("knorm", "budget=5,chunk=5").All(data).front(), 0),
              ElementsAre(60, 61, 62, 63, 64, kPrompt));
  EXPECT_THAT(Tokens(Generation("knorm", "budget=10,chunk=5").All(data).front(), 0),
              ElementsAre(40, 41, 42, 43, 44, 60, 61, 62, 63, 64, kPrompt));
  EXPECT_THAT(Tokens(Generation("knorm", "budget=1").All(data).front(), 0), ElementsAre(41, kPrompt));
}

TEST(PyramidKv, BudgetsFallAroundTheCommonOne) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(kLength), &random);
  std::vector<size_t> kept;
  for (const int32_t layer : {0, 1, 2, 3, 4}) {
    const Steps steps = Generation("pyramid-kv", "budget=80,window=4,num_layers=5").All(data, layer);
    kept.push_back(Tokens(steps.front(), 0).size() - 1);
  }
  // Behind the window of 4: 76 / 20 = 3 at least, as much above 76 as below, in steps of 146 / 4 = 36.
  EXPECT_THAT(kept, ElementsAre(153, 117, 81, 45, 9));
  Generation of_model("pyramid-kv", "budget=80,window=4");
  of_model.num_layers = 5;
  EXPECT_EQ(Tokens(of_model.All(data, 1).front(), 0).size(), 118u) << "as many layers as the model has";
  EXPECT_EQ(Tokens(Generation("pyramid-kv", "budget=80,window=4").All(data, 1).front(), 0).size(), 81u)
      << "nobody knows how many there are";
  const Steps uniform = Generation("pyramid-kv", "budget=120,window=4,num_layers=5").All(data, 4);
  EXPECT_EQ(Tokens(uniform.front(), 0).size(), 121u) << "the prompt does not hold twice the common budget";
}

TEST(Tova, AllHeadsKeepTheSame) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data = Data(&random);
  for (const DecodeSelection& selection : Generation("tova", "k=30").All(data))
    EXPECT_EQ(Tokens(selection, 0), Tokens(selection, 1));
}

TEST(H2o, KeepsTheNewestAndTheMostAttended) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(kLength), &random, 0.1f);
  for (int32_t row = 0; row < kLength; ++row) data.q.Set(0, 0, row, 5, 20.0f);
  for (const int32_t token : {20, 50, 90}) data.k.Set(0, 0, token, 5, 2.0f);
  int32_t position = kPrompt;
  for (const DecodeSelection& selection : Generation("h2o", "k=6,local_share=0.5").All(data)) {
    EXPECT_THAT(Tokens(selection, 0), ElementsAre(20, 50, 90, position - 3, position - 2, position - 1, position))
        << "the cache of 6 and the step's own token";
    ++position;
  }
}

// As a slider asks for them: what a prompt's tokens got does not depend on the setting, and is the most of the work.
TEST(H2o, AnotherSettingOnOnePromptDoesNotSumItAgain) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(1500, 2, 1), &random);
  const DecodeMethod& method = *FindDecodeMethod("h2o");
  bool is_tried_again = true;
  const auto begin = [&](const RandomProblem& of, const char* parameters, std::clock_t* took) {
    DecodePrompt prompt;
    prompt.is_tried_again = is_tried_again;
    prompt.cache = of.View();
    prompt.cache.seq_k = prompt.cache.seq_q = 1499;
    DecodeDriver driver(method, testing::Values(method.spec(), parameters));
    const std::clock_t from = std::clock();
    EXPECT_TRUE(driver.Begin(prompt, {.num_threads = 1}).ok());
    *took = std::clock() - from;
    const DecodeStep step = testing::StepAt(of, 1499);
    EXPECT_TRUE(driver.Append(step, {}).ok());
    DecodeSelection selection;
    EXPECT_TRUE(driver.Step(step, {}, &selection).ok());
    return selection.pages;
  };
  std::clock_t first = 0, next = 0, elsewhere = 0, changed = 0;
  begin(data, "k=64", &first);
  const std::vector<int32_t> kept = begin(data, "k=100", &next);
  EXPECT_LT(3 * next, first);
  RandomProblem other = data;
  EXPECT_EQ(begin(other, "k=100", &elsewhere), kept) << "the same numbers";
  EXPECT_LT(3 * elsewhere, first);
  // The others' share of every query behind it, and so the tokens that are kept.
  for (int32_t token = 700; token < 720; ++token) other.k.Set(0, 0, token, 3, 60.0f);
  EXPECT_NE(begin(other, "k=100", &changed), kept);
  EXPECT_LT(next, changed);
  // Where the beginning is measured it takes what it takes.
  is_tried_again = false;
  std::clock_t measured = 0;
  EXPECT_EQ(begin(data, "k=100", &measured), kept);
  EXPECT_LT(2 * next, measured);
}

// The queries of one KV head look at a few tokens, those of the other at all alike: AdaKV gives the first more of the
// layer's budget, and both caches stay as large as they were then.
TEST(H2o, AdaKvSpreadsTheLayersCache) {
  std::mt19937 random(FreshSeed());
  RandomProblem data = Data(&random);
  for (int32_t row = 0; row < kLength; ++row) {
    for (int32_t head = 0; head < 4; ++head) {
      for (int32_t d = 0; d < 16; ++d) data.q.Set(0, head, row, d, head < 2 && d == 5 ? 4.0f : 0.0f);
    }
  }
  for (int32_t token = 0; token < kLength; ++token) data.k.Set(0, 0, token, 5, token % 4 == 1 ? 8.0f : 0.0f);
  for (const char* const allocation : {"ada", "kvpress"}) {
    const std::string parameters = std::string("k=24,local_share=0.25,ada_floor=0,allocation=") + allocation;
    std::vector<size_t> sizes[2];
    for (const DecodeSelection& selection : Generation("h2o", parameters).All(data)) {
      for (int64_t list = 0; list < 2; ++list) sizes[list].push_back(Tokens(selection, list).size());
    }
    // Both keep the newest 6; of 36 places more the second head's early tokens, which few rows share, have some.
    EXPECT_GT(sizes[0].front(), sizes[1].front() + 10) << allocation;
    EXPECT_EQ(sizes[0].front() + sizes[1].front(), 2 * 24 + 2) << allocation << ": with the step's own token";
    for (const std::vector<size_t>& of_head : sizes) {
      EXPECT_EQ(of_head, std::vector<size_t>(of_head.size(), of_head.front())) << allocation;
    }
  }
}

// Of tokens that the last query looks at alike, those whose values count behind the output projection stay.
TEST(CriticalKv, SaysWhatARunningCacheKeepsOfThePrompt) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(kLength), &random, 0.0f);
  const auto large = [](int32_t token) { return token >= 100 && token < 104; };
  for (int32_t token = 0; token < kLength; ++token) {
    for (int32_t d = 0; d < 16; ++d) data.v.Set(0, 0, token, d, large(token) ? 5.0f : 0.0f);
  }
  const auto kept = [&](const std::string& method, const std::string& parameters) {
    return Tokens(Generation(method, parameters).All(data).front(), 0);
  };
  EXPECT_THAT(kept("tova", "k=8"), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, kPrompt));
  EXPECT_THAT(kept("tova", "k=8,critical=1"), ElementsAre(0, 1, 2, 3, 100, 101, 102, 103, kPrompt));
  // The sums of H2O fall from token to token; the newest two are of the first half.
  EXPECT_THAT(kept("h2o", "k=8"), ElementsAre(0, 1, 2, 3, 4, 5, kPrompt - 2, kPrompt - 1, kPrompt));
  EXPECT_THAT(kept("h2o", "k=8,critical=1"), ElementsAre(0, 1, 100, 101, 102, 103, kPrompt - 2, kPrompt - 1, kPrompt));
  for (const char* const name : {"h2o", "tova"}) {
    DecodePrompt prompt;
    prompt.cache = data.View();
    prompt.cache.seq_q = prompt.cache.seq_k = kPrompt;
    const DecodeMethod& method = *FindDecodeMethod(name);
    DecodeDriver driver(method, testing::Values(method.spec(), "critical=1"));
    EXPECT_THAT(driver.Begin(prompt, {}).message(), HasSubstr(std::string(name) + " with critical")) << name;
    EXPECT_TRUE(method.Inputs(testing::Values(method.spec(), "critical=1")).value_norms) << name;
    EXPECT_FALSE(method.Inputs(testing::Values(method.spec(), "")).value_norms) << name;
  }
}

}  // namespace
}  // namespace headscope::kernels
