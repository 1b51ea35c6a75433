// SPDX-License-Identifier: Apache-2.0
// What methods share that let go of the prompt's tokens, once, when decoding begins: the budget, how it is spread over
// KV heads (AdaKV), and the steps behind it, which attend to what is left and to every new token. A method is a score
// per token.
//
// Sources: Ada-KV: Optimizing KV Cache Eviction by Adaptive Budget Allocation for Efficient LLM Inference, Algorithm 1
// (a layer's budget goes to the best scores of all its heads, each head keeping a share of its own); budgets as ratios
// are counted as in the kvpress library: floor(tokens * (1 - ratio)).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/decode_method.h"
#include "kernels/decode_policy.h"

namespace headscope::kernels::internal {

// `compression_ratio`, `budget`, `allocation` and `ada_floor`, to be put behind a method's own parameters.
std::vector<ParameterSpec> EvictionParameters();
std::vector<ParameterSpec> WithEvictionParameters(std::vector<ParameterSpec> own);

// One KV head's prompt, for a score.
struct PromptHead {
  const DecodePrompt& prompt;
  int32_t sequence = 0, kv_head = 0;

  int32_t NumTokens() const { return prompt.cache.seq_k; }
  int64_t KeyOffset(int32_t token) const;
  int64_t ValueOffset(int32_t token) const;
};

// Scores of a prompt's tokens, larger kept first; +infinity: kept before all others.
class PromptEvictor : public DecodeMethod {
 public:
  explicit PromptEvictor(MethodSpec spec) : spec_(std::move(spec)) {}
  const MethodSpec& spec() const final { return spec_; }
  std::unique_ptr<DecodePolicy> NewPolicy(const ParameterValues& values) const final;

  // Before any score: what the prompt must bring (kUnsupported); this one asks for PromptRows() queries.
  virtual Status CheckPrompt(const DecodePrompt& prompt, const ParameterValues& values) const;
  // [NumTokens()].
  virtual std::vector<float> Score(const PromptHead& head, const ParameterValues& values) const = 0;
  // Tokens that a KV head keeps of a prompt on average; `uniform` is the common budget.
  virtual int64_t Budget(int64_t uniform, const DecodePrompt& /*prompt*/, const ParameterValues& /*values*/) const {
    return uniform;
  }
  // Changes scores once all KV heads of a sequence have theirs; whole chunks, one set for all heads, ..
  virtual void Join(const ParameterValues& /*values*/, std::span<std::vector<float>> /*scores*/) const {}

 private:
  MethodSpec spec_;
};

// Whether the prompt's last `rows` queries are at hand (all of a shorter prompt): kUnsupported names the method.
Status CheckLastQueries(const MethodSpec& spec, const DecodePrompt& prompt, int32_t rows);

// The selection of a step, of tokens of the sequence list by list, ascending; what lies before the step's first token
// is left out. elements_moved: their keys and values and the new ones, a mean over lists.
DecodeSelection SelectionOfKept(const DecodeStep& step, const std::vector<std::vector<int32_t>>& kept);

}  // namespace headscope::kernels::internal
