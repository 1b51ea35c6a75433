// SPDX-License-Identifier: Apache-2.0
// What methods share that let go of the prompt's tokens, once, when decoding begins: the budget, and the steps behind
// it, which attend to what is left and to every new token. A method is a score per token.
//
// The heads' budgets are AdaKV's, what they choose CriticalKV's and ChunkKV's where the parameters say so
// (layer_budgets.h). Budgets as ratios are counted as in the kvpress library: floor(tokens * (1 - ratio)).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "kernels/decode_method.h"
#include "kernels/decode_policy.h"
#include "kernels/prompt_votes.h"
#include "layer_budgets.h"

namespace headscope::kernels::internal {

// Tokens of the prompt that stay or go together: a method whose chunks are its own has another default.
inline constexpr char kChunk[] = "chunk";
// `compression_ratio`, `budget`, those of layer_budgets.h, and `chunk`, to be put behind a method's own parameters.
std::vector<ParameterSpec> EvictionParameters();
// n_sink: first tokens that no score evicts.
ParameterSpec SinksThatStay();
std::vector<ParameterSpec> WithEvictionParameters(std::vector<ParameterSpec> own);

// One KV head's prompt, for a score.
struct PromptHead {
  const DecodePrompt& prompt;
  int32_t sequence = 0, kv_head = 0;
  std::stop_token stop = {};  // once it is requested, no score is looked at: it may end where it is

  int32_t NumTokens() const { return prompt.cache.seq_k; }
  int64_t KeyOffset(int32_t token) const;
  int64_t ValueOffset(int32_t token) const;
  // The model's LSE of the prompt's recorded rows of a query head of the sequence; null: not known.
  const float* Lse(int32_t qo_head) const {
    if (prompt.lse == nullptr) return nullptr;
    return prompt.lse + sequence * prompt.lse_batch_stride + qo_head * prompt.lse_head_stride;
  }
};

// Scores of a prompt's tokens, larger kept first; +infinity: kept in any case, by every KV head of a sequence alike.
class PromptEvictor : public DecodeMethod {
 public:
  explicit PromptEvictor(MethodSpec spec) : spec_(std::move(spec)) {}
  const MethodSpec& spec() const final { return spec_; }
  std::unique_ptr<DecodePolicy> NewPolicy(const ParameterValues& values) const final;
  PromptInputs Inputs(const ParameterValues& values) const override {
    return {.value_norms = AsksForValueNorms(values)};
  }

  bool SharesLayerBudget(const ParameterValues& values) const final { return SharesBudgetOfLayer(values); }
  std::optional<double> AskedCompression(const ParameterValues& values) const final;

  // Before any score: what the prompt must bring (kUnsupported); this one asks for PromptRows() queries.
  virtual Status CheckPrompt(const DecodePrompt& prompt, const ParameterValues& values) const;
  // [NumTokens()]; where the source's score is 1 it is UnitOfScores().
  virtual std::vector<float> Score(const PromptHead& head, const ParameterValues& values) const = 0;
  virtual float UnitOfScores() const { return 1; }
  // Tokens that a KV head keeps of a prompt on average; `uniform` is the common budget.
  virtual int64_t Budget(int64_t uniform, const DecodePrompt& /*prompt*/, const ParameterValues& /*values*/) const {
    return uniform;
  }
  // Parameters that say what is kept in any case, for the message that refuses a budget below it.
  virtual std::string ForcedBy() const { return {}; }
  // The choice of a device that makes it by itself, of a common budget of `kept` tokens for every KV head; empty: it is
  // no choice by votes.
  virtual std::optional<PromptVotes> Votes(const ParameterValues& /*values*/, int32_t /*kept*/) const { return {}; }

 private:
  MethodSpec spec_;
};

// Whether the prompt's last `rows` queries are at hand (all of a shorter prompt): kUnsupported names the method.
Status CheckLastQueries(const MethodSpec& spec, const DecodePrompt& prompt, int32_t rows);

// The selection of a step, of tokens of the sequence list by list, ascending; what lies before the step's first token
// is left out. elements_moved: their keys and values and the new ones, a mean over lists.
DecodeSelection SelectionOfKept(const DecodeStep& step, const std::vector<std::vector<int32_t>>& kept);

}  // namespace headscope::kernels::internal
