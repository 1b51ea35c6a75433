// SPDX-License-Identifier: Apache-2.0
// TidalDecode: a few layers look for the tokens with most attention, and the layers above them reuse these.
//
// Source: TidalDecode: Fast and Accurate LLM Decoding with Position Persistent Sparse Attention, section 3, and its
// released code: the first layers and the choosing ones attend to everything; of its scores a choosing layer takes the
// `k` largest; every other layer attends to what the last choosing layer below it took. One of the choosing layers is
// the first sparse one, a later one chooses anew (13 in the released code for 32 layers).
//
// Choices where the source is silent: over grouped queries the choice is by the sum of probabilities within the group,
// one list for a KV head (the released code repeats K and takes a list for every query head). Which tokens a lower
// layer chose is known only where its driver runs the layers together; elsewhere the method says so.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "common_parameters.h"
#include "internal/parallel_for.h"
#include "kernels/decode_driver.h"
#include "kernels/step_elements.h"
#include "registry.h"
#include "step_scores.h"
#include "top_k.h"

namespace headscope::kernels {
namespace {

MethodSpec TidalDecodeSpec() {
  const auto layer = [](const char* name, double value, const char* help) {
    return ParameterSpec{.name = name,
                         .default_value = value,
                         .minimum = 0,
                         .maximum = 4096,
                         .help = help,
                         .cost = "other layers reuse other tokens"};
  };
  return {
      .name = "tidal-decode",
      .title = "TidalDecode",
      .family = "dynamic selection",
      .paper =
          "TidalDecode: Fast and Accurate LLM Decoding with Position Persistent Sparse Attention, section 3 and the "
          "released code",
      .summary = "Attends to the tokens that got the most attention in a lower layer, which attends to everything.",
      .always_keeps = "everything in the layers up to first_layer and in reselect_layer",
      .selection_cost = "nothing; the layers that select read every key anyway",
      .phase = Phase::kDecode,
      .chosen_per = ChosenPer::kKvHead,
      .needs_history = true,  // the layers below, at the same step
      .parameters =
          {
              internal::AttendedTokens(256, "tokens that the other layers attend to"),
              internal::CompressionRatio("k"),
              layer("first_layer", 2, "first layer that selects; those below it attend to everything"),
              layer("reselect_layer", 13, "layer that selects again (below first_layer: none)"),
          },
  };
}

// Tokens of every list by exact probability.
DecodeSelection MostAttended(const AttentionProblem& problem, int32_t k) {
  std::vector<std::vector<int32_t>> tokens;
  for (int32_t list = 0; list < problem.batch * problem.num_kv_heads; ++list) {
    internal::StepScores scores(problem, list / problem.num_kv_heads, list % problem.num_kv_heads);
    scores.ScoreAll();
    scores.Softmax();
    tokens.push_back(internal::TopK(scores.Sums(), k));
  }
  return internal::SelectionOfLists(problem, tokens);
}

DecodeSelection AllTokens(const AttentionProblem& problem) {
  std::vector<int32_t> all(static_cast<size_t>(problem.seq_k));
  for (size_t token = 0; token < all.size(); ++token) all[token] = static_cast<int32_t>(token);
  const std::vector<std::vector<int32_t>> lists(static_cast<size_t>(problem.batch * problem.num_kv_heads), all);
  DecodeSelection selection = internal::SelectionOfLists(problem, lists);
  selection.elements_moved = ElementsOfTokens(problem, problem.seq_k);
  return selection;
}

// The layer that chose for `layer`, or -1: it attends to everything.
int32_t SourceOf(int32_t layer, int32_t first, int32_t reselect) {
  if (layer <= first || layer == reselect) return -1;
  return reselect > first && layer > reselect ? reselect : first;
}

class TidalPolicy final : public DecodePolicy {
 public:
  TidalPolicy(const MethodSpec& spec, const ParameterValues& values)
      : spec_(spec),
        values_(values),
        first_(values.Integer("first_layer")),
        reselect_(values.Integer("reselect_layer")) {}

  Status Begin(const DecodePrompt& prompt, const RunOptions&, DecodeEvictions*) override {
    layer_ = prompt.layer;
    return {};
  }

  Status Step(const DecodeStep& step, const RunOptions&, DecodeSelection* selection, DecodeEvictions*) override {
    const int32_t source = SourceOf(layer_, first_, reselect_);
    if (source < 0) {
      *selection = AllTokens(step.problem);
      if (layer_ >= first_)
        selection->chosen = std::make_shared<DecodeSelection>(
            MostAttended(step.problem, internal::BudgetInTokens(values_, "k", step.problem.seq_k)));
      return {};
    }
    const auto at = static_cast<size_t>(source);
    const DecodeSelection* const lower = at < step.lower_layers.size() ? step.lower_layers[at] : nullptr;
    if (lower != nullptr && (lower->batch != step.problem.batch || lower->num_kv_heads != step.problem.num_kv_heads)) {
      return {StatusCode::kUnsupported,
              Reuses(source) + "which has another window or another number of KV heads: set " + NameOf(source) +
                  " to a layer that is like layer " + std::to_string(layer_) + " in both"};
    }
    if (lower == nullptr || lower->chosen == nullptr) {
      return {StatusCode::kUnsupported, Reuses(source) + "whose selection is missing: record layer " +
                                            std::to_string(source) + " as well, or set " + NameOf(source) +
                                            " to an attention layer that is there"};
    }
    std::vector<std::vector<int32_t>> tokens;
    int64_t total = 0;
    for (int64_t list = 0; list < int64_t{step.problem.batch} * step.problem.num_kv_heads; ++list) {
      std::vector<int32_t>& kept = tokens.emplace_back();
      for (const int32_t token : TokensOfList(*lower->chosen, list, step.problem.seq_k)) {
        if (token < step.problem.seq_k) kept.push_back(token);
      }
      total += static_cast<int64_t>(kept.size());
    }
    *selection = internal::SelectionOfLists(step.problem, tokens);
    selection->elements_moved =
        (total / static_cast<int64_t>(tokens.size()) + 1) * (step.problem.head_dim + step.problem.ValueDim());
    return {};
  }

 private:
  std::string Reuses(int32_t source) const {
    return spec_.name + ": layer " + std::to_string(layer_) + " reuses the tokens of layer " + std::to_string(source) +
           ", ";
  }
  // Of the parameter that says which layer chooses.
  const char* NameOf(int32_t source) const { return source == first_ ? "first_layer" : "reselect_layer"; }

  const MethodSpec& spec_;
  const ParameterValues values_;
  const int32_t first_, reselect_;
  int32_t layer_ = 0;
};

class TidalDecodeMethod final : public DecodeMethod {
 public:
  TidalDecodeMethod() : spec_(TidalDecodeSpec()) {}
  const MethodSpec& spec() const override { return spec_; }
  std::unique_ptr<DecodePolicy> NewPolicy(const ParameterValues& values) const override {
    return std::make_unique<TidalPolicy>(spec_, values);
  }
  std::vector<int32_t> LowerLayers(const ParameterValues& values, int32_t layer) const override {
    const int32_t source = SourceOf(layer, values.Integer("first_layer"), values.Integer("reselect_layer"));
    return source < 0 ? std::vector<int32_t>() : std::vector<int32_t>{source};
  }

 private:
  const MethodSpec spec_;
};

}  // namespace

const DecodeMethod& TidalDecode() {
  static const TidalDecodeMethod method;
  return method;
}

}  // namespace headscope::kernels
