// SPDX-License-Identifier: Apache-2.0
// What each decode method promises.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <set>
#include <stop_token>

#include "exact_probabilities.h"
#include "kept_sets.h"
#include "kernels/cpu_executor.h"
#include "kernels/cuda_decode.h"
#include "kernels/decode_driver.h"
#include "kernels/random_subspace.h"
#include "kernels/step_elements.h"
#include "support/stopped.h"

namespace headscope::kernels {
namespace {

using testing::DecodeShape;
using ::testing::ElementsAre;
using testing::FreshSeed;
using ::testing::HasSubstr;
using testing::Probabilities;
using testing::ProblemShape;
using testing::RandomProblem;
using testing::SelectTokens;
using testing::TokensOf;

std::vector<int32_t> AllTokens(int32_t seq_len) {
  std::vector<int32_t> tokens(static_cast<size_t>(seq_len));
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

// Output rows of the float64 decode, [num_qo_heads, head_dim].
std::vector<float> Decode(const RandomProblem& data, const DecodeSelection& selection) {
  const int32_t head_dim = data.shape.head_dim;
  std::vector<float> o(static_cast<size_t>(data.shape.batch * data.shape.num_qo_heads * head_dim));
  const AttentionOutput output{{o.data(), int64_t{data.shape.num_qo_heads} * head_dim, head_dim, head_dim}, nullptr};
  const Status status = DecodeReference(data.View(), selection, output);
  EXPECT_TRUE(status.ok()) << status.message();
  return o;
}

TEST(DecodeMethods, GiveSortedTokensAtEveryLengthAndGroupSize) {
  std::mt19937 random(FreshSeed());
  for (const DecodeMethod* method : DecodeMethods()) {
    if (method->spec().needs_history) continue;  // cache_eviction_test.cpp
    for (const int32_t length : {1, 63, 64, 65, 127, 1000}) {
      for (const int32_t group : {1, 2, 4, 7, 8}) {
        ProblemShape shape = DecodeShape(length, 2 * group, 2);
        shape.batch = 2;
        const RandomProblem data(shape, &random);
        const DecodeSelection selection = SelectTokens(method->spec().name, "", data.View());
        Decode(data, selection);  // refuses unsorted, doubled or foreign tokens
        ASSERT_EQ(selection.page_begin.size(), 5u);
        for (size_t list = 0; list < 4; ++list) EXPECT_FALSE(TokensOf(selection, list).empty()) << method->spec().name;
      }
    }
  }
}

// What a method keeps beside the cache only spares it work: every step chooses as without it, also where a window lets
// it see the newest tokens alone.
TEST(DecodeMethods, ChooseTheSameWithWhatTheyRemember) {
  std::mt19937 random(FreshSeed());
  int remembering = 0;
  for (const DecodeMethod* method : DecodeMethods()) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      ProblemShape shape = DecodeShape(700, 4, 2);
      shape.dtype = dtype;
      const RandomProblem data(shape, &random);
      ParameterValues values(method->spec());
      ASSERT_EQ(values.Parse(method->spec(), method->spec().name == "sparq" ? "r=8,k=40,reallocate=1" : ""), "");
      if (!method->spec().keeps_state || method->spec().needs_history) continue;
      DecodeDriver driver(*method, values);
      DecodePrompt prompt;
      prompt.cache = data.View();
      prompt.cache.seq_k = 400;
      prompt.cache.seq_q = 0;
      ASSERT_TRUE(driver.Begin(prompt, {}).ok());
      ++remembering;
      for (const int32_t first : {0, 300}) {
        for (const int32_t end : {500, 700, 500}) {
          AttentionProblem step = data.View();
          step.seq_k = end - first;
          step.first_position = step.seq_k - 1;
          step.k.data = static_cast<const char*>(step.k.data) + first * step.k.row_stride * SizeOf(dtype);
          step.v.data = static_cast<const char*>(step.v.data) + first * step.v.row_stride * SizeOf(dtype);
          DecodeSelection expected, selection;
          ASSERT_TRUE(method->Select(step, values, {}, &expected).ok());
          ASSERT_TRUE(driver.Append({step, first}, {}).ok());
          ASSERT_TRUE(driver.Step({step, first}, {}, &selection).ok());
          EXPECT_EQ(selection.pages, expected.pages) << first << " to " << end;
          EXPECT_EQ(selection.page_begin, expected.page_begin);
          EXPECT_THAT(selection.alpha, ::testing::Pointwise(::testing::FloatNear(1e-5f), expected.alpha));
          EXPECT_THAT(selection.mean_value, ::testing::Pointwise(::testing::FloatNear(1e-5f), expected.mean_value));
        }
      }
    }
  }
  EXPECT_GT(remembering, 0);
}

// What stands for a selection where a device chooses and attends in one go is what the method's own selection says.
TEST(DecodeMethods, SayOfAFusedStepWhatTheirSelectionMoves) {
  std::mt19937 random(FreshSeed());
  int fused = 0;
  for (const DecodeMethod* method : DecodeMethods()) {
    const ParameterValues values(method->spec());
    for (const int32_t length : {70, 330, 2000}) {
      const RandomProblem data(DecodeShape(length, 4, 2), &random);
      const std::optional<EstimatedTopTokens> step = EstimatedTopTokensOf(*method, values, data.View());
      const std::optional<PagesByBounds> pages = PagesByBoundsOf(*method, values);
      if (!step && !pages) continue;
      ++fused;
      const StepElements elements = step ? ElementsOf(*step, data.View()) : ElementsOf(*pages, data.View());
      const DecodeSelection selection = SelectTokens(method->spec().name, "", data.View());
      EXPECT_EQ(selection.elements_moved, elements.moved) << method->spec().name << ", " << length;
      EXPECT_EQ(selection.elements_to_choose, elements.to_choose) << method->spec().name << ", " << length;
      if (!step) continue;
      const int64_t of_token = 2 * data.shape.head_dim, means = step->mean_value ? of_token : 0;
      EXPECT_EQ(elements.moved,
                int64_t{length} * step->rank + (NumTokens(selection, length) / 2 + 1) * of_token + means);
      const DecodeSelection of_one = SelectTokens(method->spec().name, "copies=one", data.View());
      EXPECT_EQ(of_one.elements_moved, ElementsOf(*step, data.View(), /*two_copies=*/false).moved);
    }
  }
  EXPECT_GE(fused, 2 * 3);
}

TEST(DecodeMethods, ReadWhatTheirSpecsSay) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(DecodeShape(2500, 2, 2), &random), other(DecodeShape(2500, 2, 2), &random);
  for (const DecodeMethod* method : DecodeMethods()) {
    if (method->spec().needs_history) continue;  // cache_eviction_test.cpp
    SCOPED_TRACE(method->spec().name);
    const ParameterValues values(method->spec());
    DecodeSelection selection, of_other, without_v;
    ASSERT_TRUE(method->Select(data.View(), values, {}, &selection).ok());
    ASSERT_TRUE(method->Select(other.View(), values, {}, &of_other).ok());
    EXPECT_EQ(selection.pages == of_other.pages, method->spec().IsStatic());
    AttentionProblem no_v = data.View();
    no_v.v.data = nullptr;
    bool reads_v = !method->Select(no_v, values, {}, &without_v).ok();
    for (const ParameterSpec& parameter : method->spec().parameters) {
      for (size_t choice = 0; choice < parameter.choices.size(); ++choice) {
        ParameterValues chosen = values;
        chosen.Set(method->spec(), parameter.name, static_cast<double>(choice));
        // Some choices cannot be had of one step, with V or without it.
        reads_v |= method->Select(data.View(), chosen, {}, &selection).ok() &&
                   !method->Select(no_v, chosen, {}, &without_v).ok();
      }
    }
    EXPECT_EQ(reads_v, method->spec().reads_v);
  }
}

TEST(DecodeMethods, RefuseWhatIsNoDecodeStep) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(DecodeShape(64), &random);
  for (const DecodeMethod* method : DecodeMethods()) {
    if (method->spec().needs_history) continue;  // cache_eviction_test.cpp
    DecodeSelection selection;
    selection.pages = {42};
    auto expect_refused = [&](auto change, const std::string& words) {
      AttentionProblem problem = data.View();
      change(problem);
      const Status status = method->Select(problem, ParameterValues(method->spec()), {}, &selection);
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << method->spec().name << ": " << words;
      EXPECT_THAT(status.message(), HasSubstr(words));
      EXPECT_THAT(selection.pages, ElementsAre(42));
    };
    expect_refused([](AttentionProblem& p) { p.first_position = 10; }, "first_position is 10");
    expect_refused([](AttentionProblem& p) { p.seq_q = 2; }, "seq_q is 2");
    expect_refused([](AttentionProblem& p) { p.k.data = nullptr; }, "k.data is null");
    const std::stop_token stopped = StoppedToken();
    EXPECT_EQ(method->Select(data.View(), ParameterValues(method->spec()), {0, stopped}, &selection).code(),
              StatusCode::kCancelled);
  }
}

TEST(DenseDecode, KeepsEveryToken) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(DecodeShape(300, 4, 2), &random);
  const DecodeSelection selection = SelectTokens("dense", "", data.View());
  EXPECT_EQ(TokensOf(selection, 0), AllTokens(300));
  EXPECT_EQ(TokensOf(selection, 1), AllTokens(300));
  EXPECT_TRUE(selection.alpha.empty());
  EXPECT_EQ(selection.elements_moved, 2 * 300 * 16 + 2 * 16);
}

TEST(SlidingWindow, KeepsTheNewestTokensAndSinks) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(DecodeShape(100), &random);
  EXPECT_THAT(TokensOf(SelectTokens("sliding-window", "n_local=3", data.View()), 0), ElementsAre(97, 98, 99));
  EXPECT_THAT(TokensOf(SelectTokens("sliding-window", "n_local=2,n_sink=2", data.View()), 0),
              ElementsAre(0, 1, 98, 99));
  EXPECT_EQ(TokensOf(SelectTokens("sliding-window", "n_local=60,n_sink=50", data.View()), 0), AllTokens(100));
  EXPECT_EQ(TokensOf(SelectTokens("sliding-window", "n_local=100", data.View()), 0), AllTokens(100));
}

TEST(SlidingWindow, IsTheLastRowOfAShape) {
  std::mt19937 random(FreshSeed());
  const RandomProblem prompt(testing::SquareShape(500), &random);
  const RandomProblem step(DecodeShape(500), &random);
  const testing::Mask mask = testing::MaskOf(testing::Select("a-shape", "n_sink=16,n_local=112", prompt.View()));
  std::vector<int32_t> last_row;
  for (int32_t column = 0; column < 500; ++column) {
    if (mask.back()[static_cast<size_t>(column)]) last_row.push_back(column);
  }
  EXPECT_EQ(TokensOf(SelectTokens("sliding-window", "n_sink=16,n_local=112", step.View()), 0), last_row);
}

TEST(SparQ, WithAllComponentsIsExactTopK) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(DecodeShape(400, 1, 1, 32), &random);
  const DecodeSelection selection = SelectTokens("sparq", "r=32,k=50,local_share=0", data.View());
  const std::vector<double> p = Probabilities(data, 0);
  std::vector<double> largest = p;
  std::sort(largest.begin(), largest.end(), std::greater<>());
  double mass = 0;
  const std::vector<int32_t> tokens = TokensOf(selection, 0);
  ASSERT_EQ(tokens.size(), 50u);
  ASSERT_EQ(std::set<int32_t>(tokens.begin(), tokens.end()).size(), 50u);
  for (const int32_t token : tokens) {
    // Of two keys whose fp32 scores round to the same one either may be the last.
    EXPECT_GT(p[static_cast<size_t>(token)], largest[49] * (1 - 1e-5));
    mass += p[static_cast<size_t>(token)];
  }
  EXPECT_NEAR(selection.alpha[0], mass, 1e-5);
}

TEST(SparQ, WithAllTokensIsDenseForAnyR) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(DecodeShape(200, 4, 2), &random);
  const std::vector<float> dense = Decode(data, SelectTokens("dense", "", data.View()));
  for (const char* parameters : {"r=1,k=200", "r=16,k=5000", "r=1000,k=200"}) {
    const std::vector<float> output = Decode(data, SelectTokens("sparq", parameters, data.View()));
    EXPECT_THAT(output, ::testing::Pointwise(::testing::FloatNear(1e-5f), dense)) << parameters;
  }
}

TEST(SparQ, ConstantValuesComeBackUnchanged) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(DecodeShape(300), &random);
  for (int32_t token = 0; token < 300; ++token) {
    for (int32_t d = 0; d < 16; ++d) data.v.Set(0, 0, token, d, 0.5f * static_cast<float>(d) - 3);
  }
  const std::vector<float> output = Decode(data, SelectTokens("sparq", "r=2,k=9", data.View()));
  for (size_t d = 0; d < 16; ++d) EXPECT_NEAR(output[d], 0.5f * static_cast<float>(d) - 3, 1e-5);
}

TEST(SparQ, KeepsKTokensTheNewestAmongThem) {
  std::mt19937 random(FreshSeed());
  for (const int32_t length : {5, 40, 333}) {
    const RandomProblem data(DecodeShape(length, 3, 1), &random);
    const DecodeSelection selection = SelectTokens("sparq", "r=4,k=40,local_share=0.25,reallocate=1", data.View());
    const std::vector<int32_t> tokens = TokensOf(selection, 0);
    EXPECT_EQ(tokens.size(), static_cast<size_t>(std::min(length, 40)));
    const int32_t num_local = std::min(length, 40) / 4;
    for (int32_t token = length - num_local; token < length; ++token) EXPECT_THAT(tokens, ::testing::Contains(token));
    for (const float alpha : selection.alpha) {
      EXPECT_GE(alpha, 0.0f);
      EXPECT_LE(alpha, 1.0f);
    }
  }
}

TEST(SparQ, PutsNewTokensBeforeARemoteCertainty) {
  // A remote token whose approximate probability is 1 must not push out the window.
  std::mt19937 random(FreshSeed());
  RandomProblem data(DecodeShape(200), &random, 0.1f);
  for (int32_t d = 0; d < 16; ++d) {
    data.q.Set(0, 0, 0, d, 10);
    data.k.Set(0, 0, 50, d, 10);
    data.k.Set(0, 0, 60, d, 9);
  }
  EXPECT_THAT(TokensOf(SelectTokens("sparq", "r=8,k=4,local_share=1", data.View()), 0),
              ElementsAre(196, 197, 198, 199));
  EXPECT_THAT(TokensOf(SelectTokens("sparq", "r=8,k=4,local_share=0.75", data.View()), 0),
              ElementsAre(50, 197, 198, 199));
}

TEST(SparQ, DoesNotDependOnTheOrderOfComponents) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(DecodeShape(300, 2, 1), &random);
  RandomProblem reversed = data;
  for (int32_t d = 0; d < 16; ++d) {
    for (int32_t head = 0; head < 2; ++head) reversed.q.Set(0, head, 0, d, data.q.Get(0, head, 0, 15 - d));
    for (int32_t token = 0; token < 300; ++token) reversed.k.Set(0, 0, token, d, data.k.Get(0, 0, token, 15 - d));
  }
  const DecodeSelection expected = SelectTokens("sparq", "r=5,k=30,reallocate=1", data.View());
  const DecodeSelection selection = SelectTokens("sparq", "r=5,k=30,reallocate=1", reversed.View());
  EXPECT_EQ(selection.pages, expected.pages);
  EXPECT_THAT(selection.alpha, ::testing::Pointwise(::testing::FloatNear(1e-5f), expected.alpha));
}

TEST(SparQ, FollowsTokensThatMove) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(DecodeShape(300), &random);
  RandomProblem reversed = data;
  for (int32_t token = 0; token < 300; ++token) {
    for (int32_t d = 0; d < 16; ++d) reversed.k.Set(0, 0, token, d, data.k.Get(0, 0, 299 - token, d));
  }
  std::vector<int32_t> expected = TokensOf(SelectTokens("sparq", "r=5,k=30,local_share=0", data.View()), 0);
  for (int32_t& token : expected) token = 299 - token;
  std::reverse(expected.begin(), expected.end());
  EXPECT_EQ(TokensOf(SelectTokens("sparq", "r=5,k=30,local_share=0", reversed.View()), 0), expected);
}

TEST(SparQ, KeptMassNeverFallsAsKGrows) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(DecodeShape(300), &random);
  float previous = 0;
  for (int k = 1; k <= 300; k += 13) {
    const DecodeSelection selection = SelectTokens("sparq", "r=4,local_share=0,k=" + std::to_string(k), data.View());
    EXPECT_GE(selection.alpha[0], previous);
    previous = selection.alpha[0];
  }
  EXPECT_GT(previous, 0.9f);
}

TEST(SparQ, GroupsShareTokensChosenByAllTheirQueries) {
  // Two query heads that look at different keys: both keys are kept for the group.
  std::mt19937 random(FreshSeed());
  RandomProblem data(DecodeShape(200, 2, 1), &random, 0.05f);
  data.q.Set(0, 0, 0, 3, 8);
  data.q.Set(0, 1, 0, 7, 8);
  data.k.Set(0, 0, 20, 3, 8);
  data.k.Set(0, 0, 90, 7, 8);
  const DecodeSelection selection = SelectTokens("sparq", "r=2,k=2,local_share=0,reallocate=1", data.View());
  EXPECT_THAT(TokensOf(selection, 0), ElementsAre(20, 90));
  EXPECT_EQ(selection.alpha.size(), 2u);
  EXPECT_EQ(selection.mean_value.size(), 16u);
}

TEST(SparQ, EqualQueryHeadsEqualOneHead) {
  std::mt19937 random(FreshSeed());
  const RandomProblem one(DecodeShape(300), &random);
  RandomProblem four(DecodeShape(300, 4, 1), &random);
  for (int32_t d = 0; d < 16; ++d) {
    for (int32_t head = 0; head < 4; ++head) four.q.Set(0, head, 0, d, one.q.Get(0, 0, 0, d));
    for (int32_t token = 0; token < 300; ++token) four.k.Set(0, 0, token, d, one.k.Get(0, 0, token, d));
  }
  const DecodeSelection expected = SelectTokens("sparq", "r=5,k=30", one.View());
  const DecodeSelection selection = SelectTokens("sparq", "r=5,k=30,reallocate=1", four.View());
  EXPECT_EQ(selection.pages, expected.pages);
  for (const float alpha : selection.alpha) EXPECT_NEAR(alpha, expected.alpha[0], 1e-6);
}

TEST(SparQ, WithoutReallocationHasNoMeanAndReadsNoV) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(DecodeShape(300), &random);
  AttentionProblem without_v = data.View();
  without_v.v.data = nullptr;
  const DecodeSelection selection = SelectTokens("sparq", "r=5,k=30,reallocate=0", without_v);
  EXPECT_TRUE(selection.alpha.empty());
  EXPECT_TRUE(selection.mean_value.empty());
  EXPECT_EQ(selection.pages, SelectTokens("sparq", "r=5,k=30", data.View()).pages);
  DecodeSelection unchanged;
  const DecodeMethod* method = FindDecodeMethod("sparq");
  const Status status = method->Select(without_v, ParameterValues(method->spec()), {}, &unchanged);
  EXPECT_THAT(status.message(), HasSubstr("v.data is null"));
}

TEST(SparQ, AnAllZeroQueryIsUniform) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(DecodeShape(100), &random);
  for (int32_t d = 0; d < 16; ++d) data.q.Set(0, 0, 0, d, 0);
  const DecodeSelection selection = SelectTokens("sparq", "r=5,k=20,local_share=0", data.View());
  EXPECT_EQ(TokensOf(selection, 0), AllTokens(20));  // equal scores: the earlier token
  EXPECT_NEAR(selection.alpha[0], 0.2, 1e-6);
}

TEST(SparQ, MovesWhatThePaperCounts) {
  std::mt19937 random(FreshSeed());
  const std::pair<int32_t, double> published[] = {{4096, 6.38}, {16384, 7.52}};
  for (const auto& [length, speed_up] : published) {
    const RandomProblem data(DecodeShape(length, 1, 1, 128), &random);
    const double sparq = static_cast<double>(SelectTokens("sparq", "r=32,k=128", data.View()).elements_moved);
    const double dense = static_cast<double>(SelectTokens("dense", "", data.View()).elements_moved);
    EXPECT_NEAR(dense / sparq, speed_up, 0.005);
  }
}

// The paper's ablations of equation 9 (section 5.4): the choice of tokens by one query head does not depend on the
// temperature, alpha does, and a cold softmax puts all of it on the tokens.
TEST(SparQ, TheTemperatureDividesTheScores) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(DecodeShape(300), &random);
  const auto select = [&](const std::string& temperature) {
    return SelectTokens("sparq", "r=4,k=30,local_share=0,temperature=" + temperature, data.View());
  };
  const DecodeSelection expected = select("eq9");
  for (const char* temperature : {"sqrt_head_dim", "sqrt_r", "one"})
    EXPECT_EQ(select(temperature).pages, expected.pages) << temperature;
  EXPECT_LT(select("sqrt_head_dim").alpha[0], expected.alpha[0]) << "equation 9 is at most sqrt(head_dim)";
  EXPECT_LT(select("sqrt_head_dim").alpha[0], select("sqrt_r").alpha[0]);
  EXPECT_LT(select("sqrt_r").alpha[0], select("one").alpha[0]);
  const DecodeMethod& sparq = *FindDecodeMethod("sparq");
  EXPECT_TRUE(EstimatedTopTokensOf(sparq, testing::Values(sparq.spec(), ""), data.View()));
  EXPECT_FALSE(EstimatedTopTokensOf(sparq, testing::Values(sparq.spec(), "temperature=one"), data.View()))
      << "kernels know equation 9 alone";
  EXPECT_TRUE(EstimatedTopTokensOf(sparq, testing::Values(sparq.spec(), "copies=one"), data.View()));
  EXPECT_TRUE(EstimatedTopTokensOf(sparq, testing::Values(sparq.spec(), "group=scores"), data.View()))
      << "one query head sums nothing";
}

// The released code sums scores over a group, the paper probabilities. A key that one head's softmax gives everything,
// and that the other head likes least of all, comes first by one and last by the other; one query head ranks alike.
TEST(SparQ, SumsProbabilitiesOrScoresOverAGroup) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(DecodeShape(200, 2, 1), &random);
  for (int32_t d = 0; d < 16; ++d) {
    data.q.Set(0, 0, 0, d, d == 0 ? 4.0f : 0.0f);
    data.q.Set(0, 1, 0, d, d == 0 ? -8.0f : 0.0f);
    for (int32_t token = 0; token < 200; ++token)
      data.k.Set(0, 0, token, d, d == 0 ? (token == 7 ? 10.0f : -0.01f * static_cast<float>(token % 50)) : 0.0f);
  }
  const auto tokens = [&](const std::string& parameters) {
    return TokensOf(SelectTokens("sparq", "r=16,k=5,local_share=0," + parameters, data.View()), 0);
  };
  EXPECT_THAT(tokens("group=probabilities"), ::testing::Contains(7));
  EXPECT_THAT(tokens("group=scores"), ::testing::Not(::testing::Contains(7)));
  const DecodeMethod& sparq = *FindDecodeMethod("sparq");
  EXPECT_FALSE(EstimatedTopTokensOf(sparq, testing::Values(sparq.spec(), "group=scores"), data.View()))
      << "kernels sum probabilities alone";
  const RandomProblem one(DecodeShape(300), &random);
  EXPECT_EQ(SelectTokens("sparq", "r=4,k=30,group=scores", one.View()).pages,
            SelectTokens("sparq", "r=4,k=30", one.View()).pages);
}

TEST(SparQ, ScaleReplacesTheSquareRootOfHeadDim) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(DecodeShape(200), &random);
  const DecodeSelection expected = SelectTokens("sparq", "r=5,k=30", data.View());
  data.scale = 0.25f;  // 16^-0.5, given by hand
  EXPECT_EQ(SelectTokens("sparq", "r=5,k=30", data.View()).alpha, expected.alpha);
  data.scale = 2.0f;
  EXPECT_GT(SelectTokens("sparq", "r=5,k=30", data.View()).alpha[0], expected.alpha[0]);
}

// What the methods since the four papers promise, each of its own.
TEST(ExactTopK, KeepsMoreMassThanAnyOther) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(DecodeShape(400), &random);
  const std::vector<double> p = Probabilities(data, 0);
  const auto mass = [&](const std::string& method, const std::string& parameters) {
    double kept = 0;
    for (const int32_t token : TokensOfList(SelectTokens(method, parameters, data.View()), 0, 400))
      kept += p[static_cast<size_t>(token)];
    return kept;
  };
  const double best = mass("exact-top-k", "k=32");
  EXPECT_GE(best, mass("sparq", "k=32,r=4"));
  EXPECT_GE(best, mass("quest", "budget=32"));
  EXPECT_GE(best, mass("lm-infinite-decode", "k=32"));
  EXPECT_NEAR(best, mass("sparq", "k=32,r=16,local_share=0"), 1e-9) << "all components, no window";
}

// Equations 5 and 6 of SparQ's section 3: the scores of the full softmax times the top values, and the mean value for
// what is left. A model's sink keeps its part of a row in both.
TEST(ExactTopK, LeavesTheOthersMassOutOrGivesItToTheMeanValue) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(DecodeShape(300, 4, 2), &random);
  const std::vector<float> sinks = {0.5f, -2.0f, 3.0f, 1.0f};
  for (const bool with_sinks : {false, true}) {
    AttentionProblem problem = data.View();
    if (with_sinks) problem.sinks = sinks.data();
    for (const bool mean_value : {false, true}) {
      DecodeSelection selection;
      const DecodeMethod& method = *FindDecodeMethod("exact-top-k");
      const std::string parameters = std::string("k=20,others=") + (mean_value ? "mean_value" : "dropped");
      ASSERT_TRUE(method.Select(problem, testing::Values(method.spec(), parameters), {}, &selection).ok());
      EXPECT_EQ(selection.pages, SelectTokens("exact-top-k", "k=20", problem).pages);
      EXPECT_EQ(selection.elements_moved, 301 * 16 + 21 * 16 + (mean_value ? 2 * 16 : 0));
      std::vector<float> o(4 * 16);
      ASSERT_TRUE(DecodeReference(problem, selection, {{o.data(), 4 * 16, 16, 16}, nullptr}).ok());
      for (int32_t head = 0; head < 4; ++head) {
        const int32_t kv_head = head / 2;
        std::vector<double> weights(300);
        double sum = with_sinks ? std::exp(static_cast<double>(sinks[static_cast<size_t>(head)])) : 0;
        for (int32_t token = 0; token < 300; ++token) {
          double score = 0;
          for (int32_t d = 0; d < 16; ++d)
            score +=
                static_cast<double>(data.q.Get(0, head, 0, d)) * static_cast<double>(data.k.Get(0, kv_head, token, d));
          sum += weights[static_cast<size_t>(token)] = std::exp(score / 4);
        }
        for (int32_t d = 0; d < 16; ++d) {
          double kept = 0, left = 0, mean = 0;
          for (double& weight : weights) left += weight / sum;
          for (int32_t token = 0; token < 300; ++token)
            mean += static_cast<double>(data.v.Get(0, kv_head, token, d)) / 300;
          for (const int32_t token : TokensOf(selection, static_cast<size_t>(kv_head))) {
            const double weight = weights[static_cast<size_t>(token)] / sum;
            kept += weight * static_cast<double>(data.v.Get(0, kv_head, token, d));
            left -= weight;
          }
          EXPECT_NEAR(static_cast<double>(o[static_cast<size_t>(head * 16 + d)]), kept + (mean_value ? left * mean : 0),
                      1e-5);
        }
      }
    }
  }
  const DecodeSelection sparq = SelectTokens("sparq", "r=16,k=20,local_share=0,reallocate=1", data.View());
  const DecodeSelection exact = SelectTokens("exact-top-k", "k=20,others=mean_value", data.View());
  EXPECT_EQ(exact.pages, sparq.pages);
  EXPECT_THAT(exact.alpha, ::testing::Pointwise(::testing::FloatNear(1e-5f), sparq.alpha));
  EXPECT_EQ(exact.mean_value, sparq.mean_value);
}

// The others' mass would be that of tokens which the model's window hides, too.
TEST(ExactTopK, RefusesTheOthersMassBesideAWindow) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(DecodeShape(300), &random);
  AttentionProblem problem = data.View();
  problem.window = 40;
  const DecodeMethod& method = *FindDecodeMethod("exact-top-k");
  DecodeSelection selection;
  for (const char* others : {"others=dropped", "others=mean_value"}) {
    const Status status = method.Select(problem, testing::Values(method.spec(), others), {}, &selection);
    EXPECT_EQ(status.code(), StatusCode::kUnsupported);
    EXPECT_EQ(status.message().find(method.spec().name), std::string::npos) << "whoever reports it names the method";
    EXPECT_THAT(status.message(), HasSubstr("set others to renormalised"));
  }
}

TEST(LowRank, WithAllDimensionsIsExactTopK) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(DecodeShape(400, 4, 2), &random);
  for (const int64_t list : {0, 1}) {
    const auto exact = TokensOf(SelectTokens("exact-top-k", "k=30", data.View()), list);
    EXPECT_EQ(TokensOf(SelectTokens("low-rank", "r=16,k=30", data.View()), list), exact);
    EXPECT_EQ(TokensOf(SelectTokens("low-rank", "r=900,k=30,seed=7", data.View()), list), exact);
    EXPECT_NE(TokensOf(SelectTokens("low-rank", "r=2,k=30", data.View()), list), exact);
  }
}

TEST(LowRank, ProjectionsAreOfAKvHeadAndASeed) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(DecodeShape(400, 2, 1), &random);
  AttentionProblem problem = data.View();
  const std::vector<int32_t> first = TokensOf(SelectTokens("low-rank", "r=4,k=30", problem), 0);
  EXPECT_NE(TokensOf(SelectTokens("low-rank", "r=4,k=30,seed=1", problem), 0), first);
  problem.first_kv_head = 1;
  EXPECT_NE(TokensOf(SelectTokens("low-rank", "r=4,k=30", problem), 0), first);
  EXPECT_EQ(SelectTokens("low-rank", "r=4,k=30", problem).elements_moved, 400 * 4 + 31 * 2 * 16);
}

// Orthonormal, and those of fewer dimensions are the first of those of more.
TEST(RandomSubspaces, AreOrthonormalAndNested) {
  const std::vector<float> few = RandomSubspace(5, 24, 3), all = RandomSubspace(99, 24, 3);
  ASSERT_EQ(all.size(), 24u * 24u);
  EXPECT_TRUE(std::equal(few.begin(), few.end(), all.begin()));
  for (size_t a = 0; a < 24; ++a) {
    for (size_t b = 0; b < 24; ++b) {
      double dot = 0;
      for (size_t d = 0; d < 24; ++d)
        dot += static_cast<double>(all[a * 24 + d]) * static_cast<double>(all[b * 24 + d]);
      EXPECT_NEAR(dot, a == b ? 1 : 0, 1e-6) << a << " " << b;
    }
  }
  std::vector<float> vector(24);
  for (size_t d = 0; d < 24; ++d) vector[d] = 0.5f * static_cast<float>(d) - 3;
  std::vector<float> same = vector, once = vector;
  ProjectOnto(all, same);
  EXPECT_THAT(same, ::testing::Pointwise(::testing::FloatNear(1e-5f), vector)) << "on all of the space";
  ProjectOnto(few, once);
  std::vector<float> twice = once;
  ProjectOnto(few, twice);
  EXPECT_THAT(twice, ::testing::Pointwise(::testing::FloatNear(1e-5f), once));
}

TEST(Quest, FindsAPageByItsBounds) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(DecodeShape(500, 2, 1), &random, 0.1f);
  for (int32_t head = 0; head < 2; ++head) data.q.Set(0, head, 0, 3, -4.0f);
  data.k.Set(0, 0, 100, 3, -6.0f);
  for (const char* group : {"sum", "mean_query"}) {
    const DecodeSelection selection = SelectTokens("quest", std::string("budget=32,group=") + group, data.View());
    EXPECT_EQ(selection.page_size, 16);
    EXPECT_THAT(TokensOf(selection, 0), ElementsAre(100 / 16, 499 / 16)) << "that page, and the newest";
  }
  EXPECT_EQ(TokensOfList(SelectTokens("quest", "budget=500", data.View()), 0, 500).size(), 484u) << "whole pages: 31";
  EXPECT_TRUE(IsDense(SelectTokens("quest", "budget=512", data.View()), 500));
}

// A page's score is no less than any of its tokens' scores: with a page of one token, Quest is exact.
TEST(Quest, WithPagesOfOneTokenIsExact) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(DecodeShape(300), &random);
  EXPECT_EQ(TokensOf(SelectTokens("quest", "budget=20,page_size=1,keep_newest=0", data.View()), 0),
            TokensOf(SelectTokens("exact-top-k", "k=20", data.View()), 0));
}

TEST(VAttention, SamplesWithoutBias) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(DecodeShape(600), &random, 0.7f);
  const std::vector<double> p = Probabilities(data, 0);
  double mean = 0;
  constexpr int kDraws = 200;
  for (int seed = 0; seed < kDraws; ++seed) {
    const DecodeSelection selection =
        SelectTokens("v-attention",
                     "n_sink=4,n_local=8,base_share=0.1,epsilon=1,delta=0.9,seed=" + std::to_string(seed), data.View());
    ASSERT_EQ(selection.weights.size(), selection.pages.size());
    double weight = 0;
    for (size_t i = 0; i < selection.pages.size(); ++i) {
      weight += static_cast<double>(selection.weights[i]);
      mean += static_cast<double>(selection.weights[i]) * p[static_cast<size_t>(selection.pages[i])] / kDraws;
    }
    EXPECT_NEAR(weight, 600, 1e-2) << "every token is stood for";
    EXPECT_LT(selection.pages.size(), 200u);
  }
  EXPECT_NEAR(mean, 1, 0.03);
  const DecodeSelection sure = SelectTokens("v-attention", "n_sink=0,n_local=0,epsilon=0.001", data.View());
  EXPECT_EQ(TokensOf(sure, 0), AllTokens(600));
  EXPECT_THAT(sure.weights, ::testing::Each(1.0f));
}

TEST(VAttention, TheSeedDrawsAndNothingElseDoes) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(DecodeShape(600, 4, 2), &random, 0.7f);
  const std::string common = "n_sink=4,n_local=8,epsilon=1,delta=0.9,seed=";
  const DecodeSelection one = SelectTokens("v-attention", common + "1", data.View());
  EXPECT_EQ(SelectTokens("v-attention", common + "1", data.View()).pages, one.pages);
  EXPECT_NE(SelectTokens("v-attention", common + "2", data.View()).pages, one.pages);
  EXPECT_NE(TokensOf(one, 0), TokensOf(one, 1));
}

}  // namespace
}  // namespace headscope::kernels
