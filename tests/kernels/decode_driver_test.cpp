// SPDX-License-Identifier: Apache-2.0
// Decode methods over a generation: a policy that keeps state and evicts, one that takes another layer's choice, and
// what the driver makes of one that asks for what it let go.
#include "kernels/decode_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "generation_steps.h"
#include "kept_sets.h"
#include "kernels/contiguous.h"
#include "kernels/cpu_executor.h"
#include "noted_evictions.h"

namespace headscope::kernels {
namespace {

using testing::DecodeShape;
using ::testing::ElementsAre;
using testing::FreshSeed;
using ::testing::HasSubstr;
using testing::RandomProblem;

constexpr int32_t kDriverPrompt = 20, kDriverLength = 40, kHeadDim = 16, kGroup = 2, kLists = 2;

// A method whose policy is the test's.
class TestMethod final : public DecodeMethod {
 public:
  using Make = std::function<std::unique_ptr<DecodePolicy>()>;
  explicit TestMethod(Make make, bool needs_history = true) : make_(std::move(make)) {
    spec_.name = "test-method";
    spec_.phase = Phase::kDecode;
    spec_.chosen_per = ChosenPer::kKvHead;
    spec_.keeps_state = spec_.reads_output = true;
    spec_.needs_history = needs_history;
  }
  const MethodSpec& spec() const override { return spec_; }
  std::unique_ptr<DecodePolicy> NewPolicy(const ParameterValues&) const override { return make_(); }

 private:
  MethodSpec spec_;
  Make make_;
};

DecodeSelection SelectionOf(const AttentionProblem& problem, const std::vector<std::vector<int32_t>>& lists) {
  DecodeSelection selection;
  selection.batch = problem.batch;
  selection.num_qo_heads = problem.num_qo_heads;
  selection.num_kv_heads = problem.num_kv_heads;
  selection.page_begin = {0};
  for (const std::vector<int32_t>& list : lists) {
    selection.pages.insert(selection.pages.end(), list.begin(), list.end());
    selection.page_begin.push_back(static_cast<int64_t>(selection.pages.size()));
  }
  return selection;
}

double Dot(const AttentionProblem& p, int64_t query, int64_t list, int32_t row) {
  const auto* q = static_cast<const float*>(p.q.data) + query;
  const auto* k = static_cast<const float*>(p.k.data) + list * p.k.head_stride + row * p.k.row_stride;
  double dot = 0;
  for (int32_t d = 0; d < p.head_dim; ++d) dot += static_cast<double>(q[d]) * static_cast<double>(k[d]);
  return dot / std::sqrt(static_cast<double>(p.head_dim));
}

// H2O: keeps so many tokens of the largest attention so far, the newest one always; what loses is gone. The prompt's
// attention counts, as the recorded log-sum-exps give it.
class HeavyHitters final : public DecodePolicy {
 public:
  explicit HeavyHitters(size_t budget) : budget_(budget) {}

  Status Begin(const DecodePrompt& prompt, const RunOptions&, DecodeEvictions* evictions) override {
    kept_.assign(kLists, {});
    mass_.assign(kLists, std::vector<double>(kDriverLength, 0.0));
    const AttentionProblem& p = prompt.cache;
    for (int64_t list = 0; list < kLists; ++list) {
      for (int32_t token = 0; token < p.seq_k; ++token) kept_[static_cast<size_t>(list)].push_back(token);
      for (int64_t head = list * kGroup; head < (list + 1) * kGroup; ++head) {
        for (int32_t row = 0; row < p.seq_q; ++row) {
          const double lse = prompt.lse[head * prompt.lse_head_stride + row];
          for (int32_t token = 0; token <= p.first_position + row; ++token) {
            const double s = Dot(p, head * p.q.head_stride + row * p.q.row_stride, list, token);
            mass_[static_cast<size_t>(list)][static_cast<size_t>(token)] += std::exp(s - lse);
          }
        }
      }
      Shrink(list, evictions);
    }
    return {};
  }

  Status Append(const DecodeStep& step, const RunOptions&) override {
    for (auto& list : kept_) list.push_back(step.problem.seq_k - 1);
    return {};
  }

  Status Step(const DecodeStep& step, const RunOptions&, DecodeSelection* selection, DecodeEvictions*) override {
    *selection = SelectionOf(step.problem, kept_);
    return {};
  }

  Status Attended(const DecodeStep& step, const DecodeSelection&, const AttentionOutput& output, const RunOptions&,
                  DecodeEvictions* evictions) override {
    const AttentionProblem& p = step.problem;
    for (int64_t list = 0; list < kLists; ++list) {
      for (int64_t head = list * kGroup; head < (list + 1) * kGroup; ++head) {
        for (const int32_t token : kept_[static_cast<size_t>(list)]) {
          mass_[static_cast<size_t>(list)][static_cast<size_t>(token)] +=
              std::exp(Dot(p, head * p.q.head_stride, list, token) - static_cast<double>(output.lse[head]));
        }
      }
      Shrink(list, evictions);
    }
    return {};
  }

  const std::vector<std::vector<int32_t>>& kept() const { return kept_; }

 private:
  void Shrink(int64_t list, DecodeEvictions* evictions) {
    std::vector<int32_t>& kept = kept_[static_cast<size_t>(list)];
    const std::vector<double>& mass = mass_[static_cast<size_t>(list)];
    while (kept.size() > budget_) {
      const auto least = std::min_element(kept.begin(), kept.end() - 1, [&](int32_t a, int32_t b) {
        return mass[static_cast<size_t>(a)] < mass[static_cast<size_t>(b)];
      });
      evictions->Evict(list, *least);
      kept.erase(least);
    }
  }

  const size_t budget_;
  std::vector<std::vector<int32_t>> kept_;
  std::vector<std::vector<double>> mass_;
};

class DecodeDriverTest : public ::testing::Test {
 protected:
  DecodeDriverTest() : random_(FreshSeed()), data_(testing::SquareShape(kDriverLength, 4, 2), &random_) {
    // The recorded rows' log-sum-exps.
    lse_.resize(size_t{4} * kDriverLength);
    for (int64_t head = 0; head < 4; ++head) {
      for (int32_t row = 0; row < kDriverLength; ++row) {
        double sum = 0;
        const AttentionProblem p = data_.View();
        for (int32_t token = 0; token <= row; ++token)
          sum += std::exp(Dot(p, head * p.q.head_stride + row * p.q.row_stride, head / kGroup, token));
        lse_[static_cast<size_t>(head * kDriverLength + row)] = static_cast<float>(std::log(sum));
      }
    }
  }

  DecodePrompt Prompt() const {
    DecodePrompt prompt;
    prompt.cache = data_.View();
    prompt.cache.seq_q = prompt.cache.seq_k = kDriverPrompt;
    prompt.capacity = kDriverLength;
    prompt.lse = lse_.data();
    prompt.lse_head_stride = kDriverLength;
    return prompt;
  }
  DecodeStep StepAt(int32_t position) const { return testing::StepAt(data_, position); }
  // One step, all of it.
  Status Run(DecodeDriver& driver, int32_t position, DecodeSelection* selection) const {
    const DecodeStep step = StepAt(position);
    if (Status status = testing::Take(driver, step, selection); !status.ok()) return status;
    std::vector<float> o(4 * kHeadDim), lse(4);
    const AttentionOutput output{ContiguousTensor<void>(o.data(), 4, 1, kHeadDim), lse.data()};
    if (Status status = DecodeCpu(step.problem, *selection, output, {}); !status.ok()) return status;
    for (const float value : o) EXPECT_FALSE(std::isnan(value)) << "attention reads the cache itself";
    return driver.Attended(step, *selection, output, {});
  }

  std::mt19937 random_;
  const RandomProblem data_;
  std::vector<float> lse_;
};

TEST_F(DecodeDriverTest, AMethodThatEvictsKeepsItsBudgetAndNeverTakesBack) {
  const TestMethod method([] { return std::make_unique<HeavyHitters>(8); });
  const testing::NotedEvictions noted(method);
  DecodeDriver driver(noted, {});
  std::vector<std::vector<int32_t>> first_run;
  for (int run = 0; run < 2; ++run) {
    ASSERT_TRUE(driver.Begin(Prompt(), {}).ok());
    EXPECT_EQ(noted.Count(0), kDriverPrompt - 8);
    std::vector<int32_t> before;
    for (int32_t position = kDriverPrompt; position < kDriverLength; ++position) {
      DecodeSelection selection;
      const Status status = Run(driver, position, &selection);
      ASSERT_TRUE(status.ok()) << status.message();
      const std::vector<int32_t> kept = TokensOfList(selection, 1, position + 1);
      EXPECT_EQ(kept.size(), 9u) << "the budget and the new token";
      EXPECT_EQ(kept.back(), position);
      for (const int32_t token : kept) {
        if (token == position || position == kDriverPrompt) continue;
        EXPECT_THAT(before, ::testing::Contains(token)) << "taken back";
      }
      before = kept;
      if (run == 0) {
        first_run.push_back(kept);
      } else {
        EXPECT_EQ(kept, first_run[static_cast<size_t>(position - kDriverPrompt)])
            << "another generation is another beginning";
      }
    }
    EXPECT_EQ(noted.Count(1), kDriverLength - 8);
    driver.End();
  }
}

TEST_F(DecodeDriverTest, ABudgetForEverythingIsDense) {
  const TestMethod method([] { return std::make_unique<HeavyHitters>(kDriverLength); });
  const testing::NotedEvictions noted(method);
  DecodeDriver driver(noted, {});
  ASSERT_TRUE(driver.Begin(Prompt(), {}).ok());
  for (int32_t position = kDriverPrompt; position < kDriverLength; ++position) {
    DecodeSelection selection;
    ASSERT_TRUE(Run(driver, position, &selection).ok());
    EXPECT_TRUE(IsDense(selection, position + 1));
  }
  EXPECT_EQ(noted.Count(0), 0);
}

// Evicts one token at a step, and asks for another.
class Scripted final : public DecodePolicy {
 public:
  Scripted(int32_t evicts, std::vector<int32_t> asks, float weight) : evicts_(evicts), asks_(asks), weight_(weight) {}
  Status Begin(const DecodePrompt&, const RunOptions&, DecodeEvictions*) override { return {}; }
  Status Step(const DecodeStep& step, const RunOptions&, DecodeSelection* selection,
              DecodeEvictions* evictions) override {
    const AttentionProblem& p = step.problem;
    const auto* v = static_cast<const float*>(p.v.data) + p.v.head_stride;  // of list 1
    const auto* k = static_cast<const float*>(p.k.data) + p.k.head_stride;
    seen_k = k[evicts_ * p.k.row_stride];
    seen_v = v[evicts_ * p.v.row_stride + 3];
    beside = k[(evicts_ + 1) * p.k.row_stride];
    other_list = static_cast<const float*>(p.k.data)[evicts_ * p.k.row_stride];
    newest = k[(p.seq_k - 1) * p.k.row_stride];
    *selection = SelectionOf(p, {{0}, asks_});
    if (weight_ != 1) {
      selection->weights.assign(selection->pages.size(), weight_);
      selection->weights[0] = 1;
    }
    evictions->Evict(1, evicts_);
    return {};
  }
  float seen_k = 0, seen_v = 0, beside = 0, other_list = 0, newest = 0;

 private:
  const int32_t evicts_;
  const std::vector<int32_t> asks_;
  const float weight_;
};

TEST_F(DecodeDriverTest, WhatWasEvictedIsRefusedAndNotShown) {
  Scripted* policy = nullptr;
  const TestMethod method([&] {
    auto made = std::make_unique<Scripted>(5, std::vector<int32_t>{2, 5}, 1.0f);
    policy = made.get();
    return made;
  });
  DecodeDriver driver(method, {});
  ASSERT_TRUE(driver.Begin(Prompt(), {}).ok());
  DecodeSelection selection;
  ASSERT_TRUE(Run(driver, kDriverPrompt, &selection).ok()) << "it goes behind the step that evicts it";
  EXPECT_EQ(policy->seen_k, data_.k.Get(0, 1, 5, 0));
  const DecodeSelection before = selection;
  const Status status = Run(driver, kDriverPrompt + 1, &selection);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("test-method asks for token 5 of list 1"));
  EXPECT_EQ(selection.pages, before.pages) << "untouched";
  EXPECT_TRUE(std::isnan(policy->seen_k));
  EXPECT_TRUE(std::isnan(policy->seen_v));
  EXPECT_EQ(policy->beside, data_.k.Get(0, 1, 6, 0));
  EXPECT_EQ(policy->other_list, data_.k.Get(0, 0, 5, 0)) << "the other KV head has kept it";
  EXPECT_EQ(policy->newest, data_.k.Get(0, 1, kDriverPrompt + 1, 0));
  ASSERT_TRUE(driver.Begin(Prompt(), {}).ok());
  ASSERT_TRUE(Run(driver, kDriverPrompt, &selection).ok());
  EXPECT_EQ(policy->seen_k, data_.k.Get(0, 1, 5, 0)) << "a new generation has all of the cache again";
}

TEST_F(DecodeDriverTest, AnEvictedTokenOfWeightZeroIsNotAskedFor) {
  const TestMethod method([] { return std::make_unique<Scripted>(5, std::vector<int32_t>{5}, 0.0f); });
  DecodeDriver driver(method, {});
  ASSERT_TRUE(driver.Begin(Prompt(), {}).ok());
  DecodeSelection selection;
  ASSERT_TRUE(Run(driver, kDriverPrompt, &selection).ok());
  EXPECT_TRUE(Run(driver, kDriverPrompt + 1, &selection).ok());
}

TEST_F(DecodeDriverTest, AMethodWhoseStepsHaveNoOrderEvictsNothing) {
  const TestMethod method([] { return std::make_unique<Scripted>(5, std::vector<int32_t>{2}, 1.0f); }, false);
  DecodeDriver driver(method, {});
  ASSERT_TRUE(driver.Begin(Prompt(), {}).ok());
  DecodeSelection selection;
  EXPECT_THAT(Run(driver, kDriverPrompt, &selection).message(),
              HasSubstr("evicts, so it must say that it needs history"));
}

TEST_F(DecodeDriverTest, RefusesForeignEvictionsAndStepsBack) {
  const TestMethod foreign([] { return std::make_unique<Scripted>(kDriverPrompt + 1, std::vector<int32_t>{0}, 1.0f); });
  DecodeDriver first(foreign, {});
  ASSERT_TRUE(first.Begin(Prompt(), {}).ok());
  DecodeSelection selection;
  EXPECT_THAT(Run(first, kDriverPrompt, &selection).message(), HasSubstr("which the cache does not have"));
  const TestMethod method([] { return std::make_unique<HeavyHitters>(8); });
  DecodeDriver driver(method, {});
  ASSERT_TRUE(driver.Begin(Prompt(), {}).ok());
  ASSERT_TRUE(Run(driver, kDriverPrompt + 3, &selection).code() == StatusCode::kOk) << "rows need not be neighbours";
  EXPECT_THAT(Run(driver, kDriverPrompt + 3, &selection).message(), HasSubstr("begin again to go back"));
  EXPECT_EQ(method.Select(StepAt(30).problem, {}, {}, &selection).code(), StatusCode::kUnsupported);
}

// TidalDecode: a layer takes what a lower one chose.
class OfLowerLayer final : public DecodePolicy {
 public:
  Status Begin(const DecodePrompt& prompt, const RunOptions&, DecodeEvictions*) override {
    layer_ = static_cast<size_t>(prompt.layer);
    return {};
  }
  Status Step(const DecodeStep& step, const RunOptions&, DecodeSelection* selection, DecodeEvictions*) override {
    if (layer_ == 0 || step.lower_layers.size() < layer_ || step.lower_layers[layer_ - 1] == nullptr)
      return {StatusCode::kUnsupported, "the layer below chooses"};
    *selection = *step.lower_layers[layer_ - 1];
    return {};
  }

 private:
  size_t layer_ = 0;
};

TEST_F(DecodeDriverTest, ALayerMayTakeWhatALowerOneChose) {
  const TestMethod lower([] { return std::make_unique<HeavyHitters>(6); });
  const TestMethod upper([] { return std::make_unique<OfLowerLayer>(); });
  DecodeDriver layers[] = {DecodeDriver(lower, {}), DecodeDriver(upper, {})};
  for (int32_t layer : {0, 1}) {
    DecodePrompt prompt = Prompt();
    prompt.layer = layer;
    ASSERT_TRUE(layers[layer].Begin(prompt, {}).ok());
  }
  DecodeSelection selections[2];
  ASSERT_TRUE(Run(layers[0], kDriverPrompt, &selections[0]).ok());
  DecodeStep step = StepAt(kDriverPrompt);
  ASSERT_TRUE(layers[1].Append(step, {}).ok());
  EXPECT_EQ(layers[1].Step(step, {}, &selections[1]).code(), StatusCode::kUnsupported);
  const DecodeSelection* chosen[] = {&selections[0]};
  step.lower_layers = chosen;
  ASSERT_TRUE(layers[1].Step(step, {}, &selections[1]).ok());
  EXPECT_EQ(selections[1].pages, selections[0].pages);
}

// Methods that choose by one step alone run behind the same interface, in any order.
TEST_F(DecodeDriverTest, StatelessMethodsAreACaseOfIt) {
  for (const DecodeMethod* method : DecodeMethods()) {
    if (method->spec().needs_history) continue;
    const ParameterValues values(method->spec());
    DecodeDriver driver(*method, values);
    EXPECT_TRUE(driver.AnyOrder());
    ASSERT_TRUE(driver.Begin(Prompt(), {}).ok());
    for (const int32_t position : {30, 22, 39, 30}) {
      DecodeSelection expected, selection;
      const DecodeStep step = StepAt(position);
      ASSERT_TRUE(method->Select(step.problem, values, {}, &expected).ok());
      ASSERT_TRUE(testing::Take(driver, step, &selection).ok());
      EXPECT_EQ(selection.pages, expected.pages) << method->spec().name;
    }
  }
}

// A sequence may begin with its first step.
TEST_F(DecodeDriverTest, ThePromptMayBeEmpty) {
  const DecodeMethod* sparq = FindDecodeMethod("sparq");
  DecodeDriver driver(*sparq, ParameterValues(sparq->spec()));
  DecodePrompt prompt = Prompt();
  prompt.cache.seq_k = prompt.cache.seq_q = 0;
  prompt.capacity = 0;
  ASSERT_TRUE(driver.Begin(prompt, {}).ok());
  for (int32_t position = 0; position < kDriverLength; ++position) {
    DecodeSelection expected, selection;
    const DecodeStep step = StepAt(position);
    ASSERT_TRUE(sparq->Select(step.problem, ParameterValues(sparq->spec()), {}, &expected).ok());
    ASSERT_TRUE(testing::Take(driver, step, &selection).ok());
    EXPECT_EQ(selection.pages, expected.pages);
    EXPECT_THAT(selection.mean_value, ::testing::Pointwise(::testing::FloatNear(1e-5f), expected.mean_value));
  }
}

}  // namespace
}  // namespace headscope::kernels
