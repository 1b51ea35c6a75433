// SPDX-License-Identifier: Apache-2.0
// A decode method over a generation of random tokens: a prompt of 200, and 12 steps.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "generation_steps.h"
#include "kept_sets.h"
#include "kernels/decode_driver.h"
#include "noted_evictions.h"
#include "prompt_facts.h"

namespace headscope::kernels::testing {

inline constexpr int32_t kPrompt = 200, kLength = 212;

using Steps = std::vector<DecodeSelection>;

class Generation {
 public:
  Generation(const std::string& method, const std::string& parameters)
      : method_(*FindDecodeMethod(method)), driver_(method_, Values(method_.spec(), parameters)) {}

  Status Begin(const RandomProblem& data, int32_t prompt, int32_t queries, int32_t layer = 0) {
    DecodePrompt begin;
    begin.cache = data.View();
    begin.cache.seq_k = prompt;
    begin.cache.seq_q = queries;
    begin.cache.first_position = prompt - queries;
    begin.cache.q.data = static_cast<const float*>(begin.cache.q.data) + (prompt - queries) * begin.cache.q.row_stride;
    begin.layer = layer;
    begin.num_layers = num_layers;
    if (queries > 0) {
      facts_ = std::make_unique<PromptFacts>(data, prompt);
      facts_->Put(&begin);
      begin.q_pre_rope.data =
          static_cast<const float*>(begin.q_pre_rope.data) + (prompt - queries) * begin.q_pre_rope.row_stride;
    }
    return driver_.Begin(begin, {});
  }

  DecodeSelection Step(const RandomProblem& data, int32_t position) {
    DecodeSelection selection;
    const Status status = Take(driver_, StepAt(data, position), &selection);
    EXPECT_TRUE(status.ok()) << status.message();
    return selection;
  }

  Steps All(const RandomProblem& data, int32_t layer = 0) {
    const Status status = Begin(data, kPrompt, kPrompt, layer);
    EXPECT_TRUE(status.ok()) << status.message();
    Steps steps;
    for (int32_t position = kPrompt; position < kLength; ++position) steps.push_back(Step(data, position));
    return steps;
  }

  int64_t NumEvicted(int64_t list) const { return method_.Count(list); }

  int32_t num_layers = 0;  // of the model; 0: nobody says

 private:
  NotedEvictions method_;
  std::unique_ptr<PromptFacts> facts_;  // of the last generation
  DecodeDriver driver_;
};

inline std::vector<int32_t> Tokens(const DecodeSelection& selection, int64_t list) {
  return TokensOfList(selection, list, kLength);
}

}  // namespace headscope::kernels::testing
