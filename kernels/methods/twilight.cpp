// SPDX-License-Identifier: Apache-2.0
// Twilight: of another selector's candidates, the fewest tokens that hold a share of the attention (top-p).
//
// Source: Twilight: Adaptive Attention Sparsity with Hierarchical Top-p Pruning, section 4: candidates (of any selector
// with a budget meant to be too large; Quest's pages by default), their scores from a 4-bit copy of K (least and
// largest value of a token's key), a softmax over the candidates, and the smallest set whose mass reaches p. The
// model's first two layers stay dense, as in the released code.
//
// The newest page, of a selector of tokens the newest token, is a candidate and attended to by right, as Quest's
// released kernels have it. The 4-bit copy grows with the cache: a key is rounded once.
//
// Choices where the paper is silent: over grouped queries, probabilities are averaged within the group. `bits=exact`
// leaves the quantisation out. A selector's budget is `candidates`; what else it takes has its name in front
// ("quest_page_size"), without what has no part in which tokens it names.
//
// A selector has to name tokens or pages, unweighted, and to let none go. One that samples cannot be pruned: its
// weights stand for what it did not draw, and a share of the drawn is none of the attention. Of one that evicts, a
// step's choice is also that of what later steps may see. One whose choice serves several steps, or learns from the
// prompt's queries, keeps that to itself: what it names at a step is pruned by that step's query, and its own choice
// goes on as it was.
#include <algorithm>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "common_parameters.h"
#include "four_bit_keys.h"
#include "internal/parallel_for.h"
#include "key_blocks.h"
#include "mass_share.h"
#include "registry.h"
#include "selector.h"
#include "step_scores.h"

namespace headscope::kernels {
namespace {

enum class Bits : uint8_t { kFour, kExact };

const std::vector<const DecodeMethod*>& Selectors() {
  static const std::vector<const DecodeMethod*> selectors = internal::CandidateSelectors(&Twilight);
  return selectors;
}

std::vector<std::string> SelectorNames() {
  std::vector<std::string> names;
  for (const DecodeMethod* selector : Selectors()) names.push_back(selector->spec().name);
  return names;
}

double PlaceOf(const DecodeMethod& selector) {
  const std::vector<const DecodeMethod*>& all = Selectors();
  return static_cast<double>(std::distance(all.begin(), std::find(all.begin(), all.end(), &selector)));
}

// A selector's parameter, as twilight has it.
std::string OwnName(const DecodeMethod& selector, const std::string& parameter) {
  std::string name = selector.spec().name + "_" + parameter;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// Whether the parameter decides which tokens the selector names.
bool NamesTokens(const DecodeMethod& selector, const ParameterSpec& parameter) {
  const auto taken = [&](double value) {
    ParameterValues values(selector.spec());
    values.Set(selector.spec(), parameter.name, value);
    return selector.ForTokensAlone(values).Real(parameter.name);
  };
  return taken(parameter.minimum) != taken(parameter.maximum);
}

std::vector<ParameterSpec> SelectorParameters() {
  std::vector<ParameterSpec> parameters;
  for (const DecodeMethod* selector : Selectors()) {
    for (ParameterSpec parameter : selector->spec().parameters) {
      if (parameter.role == ParameterRole::kBudget || !parameter.instead_of.empty() ||
          !NamesTokens(*selector, parameter))
        continue;
      parameter.name = OwnName(*selector, parameter.name);
      // Shares are of the budget.
      if (!parameter.share_of.empty()) parameter.share_of = "candidates";
      parameter.only_with = "selector";
      parameter.only_at = PlaceOf(*selector);
      parameters.push_back(std::move(parameter));
    }
  }
  return parameters;
}

MethodSpec TwilightSpec() {
  MethodSpec spec = {
      .name = "twilight",
      .title = "Twilight top-p",
      .family = "dynamic selection",
      .paper = "Twilight: Adaptive Attention Sparsity with Hierarchical Top-p Pruning, section 4",
      .summary =
          "Of another selector's candidates, attends to the fewest tokens that hold the share p of their attention.",
      .always_keeps = "the newest page of the selector, or token; the first dense_layers of the model are dense",
      .selection_cost = "what the selector reads, and a 4-bit key of every candidate, of a step and KV head",
      .phase = Phase::kDecode,
      .chosen_per = ChosenPer::kKvHead,
      .keeps_state = true,
      .parameters =
          {
              {.name = "p",
               .type = ParameterType::kReal,
               .default_value = 0.85,
               .step = 0.01,
               .help = "share of the candidates' attention that is kept",
               .cost = "more tokens, and many more near 1",
               .role = ParameterRole::kBudget},
              {.name = "candidates",
               .default_value = 8192,
               .minimum = 1,
               .maximum = 1 << 20,
               .step = 64,
               .logarithmic = true,
               .unit = Unit::kTokens,
               .help = "tokens that the selector gives, in whole pages where it has pages",
               .cost = "a quarter of a key to read per token"},
              internal::CompressionRatio("candidates"),
              {.name = "bits",
               .type = ParameterType::kChoice,
               .help = "bits of the copy of K that scores the candidates",
               .cost = "exact reads whole keys",
               .choices = {"4", "exact"}},
              {.name = "selector",
               .type = ParameterType::kChoice,
               .default_value = PlaceOf(Quest()),
               .maximum = static_cast<double>(Selectors().size() - 1),
               .help = "the decode method that gives the candidates (dense: every token)",
               .cost = "what that method reads to choose",
               .choices = SelectorNames()},
          },
  };
  spec.parameters.push_back(internal::DenseLayersParameter());
  for (ParameterSpec& parameter : SelectorParameters()) spec.parameters.push_back(std::move(parameter));
  return spec;
}

// The group's summed probabilities of some tokens, over these alone, whatever sink the model has: the share of a sum is
// that of the mean.
std::vector<float> SummedProbabilities(const AttentionProblem& problem, int32_t list,
                                       const std::vector<int32_t>& tokens, Bits bits,
                                       const internal::FourBitKeys& rounded) {
  internal::StepScores scores(problem, list / problem.num_kv_heads, list % problem.num_kv_heads);
  const auto count = static_cast<int64_t>(tokens.size());
  std::vector<float> rows, sums(tokens.size(), 0.0f);
  if (bits == Bits::kExact) {
    scores.Score(tokens);
  } else {
    rows.resize(static_cast<size_t>(scores.group() * count));
    rounded.Score(list, scores.queries().data(), scores.group(), tokens, problem.EffectiveScale(), problem.soft_cap,
                  rows.data());
  }
  for (int32_t i = 0; i < scores.group(); ++i) {
    float* const row = bits == Bits::kExact ? scores.Row(i).data() : rows.data() + i * count;
    internal::SoftmaxInPlace(row, count, count);
    for (size_t at = 0; at < sums.size(); ++at) sums[at] += row[at];
  }
  return sums;
}

// Of `candidates`, a selection of the problem's tokens without weights and lost components.
Status KeepShare(const AttentionProblem& problem, const ParameterValues& values, const DecodeSelection& candidates,
                 const internal::FourBitKeys& rounded, const RunOptions& options, DecodeSelection* selection) {
  const auto bits = values.Choice<Bits>("bits");
  const int32_t newest = (problem.seq_k - 1) / candidates.page_size * candidates.page_size;
  const auto num_lists = int64_t{problem.batch} * problem.num_kv_heads;
  std::vector<std::vector<int32_t>> tokens(static_cast<size_t>(num_lists));
  std::vector<int64_t> num_candidates(tokens.size());
  const auto choose = [&](int32_t list) {
    std::vector<int32_t> looked_at = TokensOfList(candidates, list, problem.seq_k);
    looked_at.erase(std::lower_bound(looked_at.begin(), looked_at.end(), newest), looked_at.end());
    for (int32_t token = newest; token < problem.seq_k; ++token) looked_at.push_back(token);
    const std::vector<float> mass = SummedProbabilities(problem, list, looked_at, bits, rounded);
    std::vector<int32_t>& kept = tokens[static_cast<size_t>(list)];
    for (const int32_t place : internal::TopShare(mass, values.Real("p"))) {
      const int32_t token = looked_at[static_cast<size_t>(place)];
      if (token < newest) kept.push_back(token);
    }
    for (int32_t token = newest; token < problem.seq_k; ++token) kept.push_back(token);
    num_candidates[static_cast<size_t>(list)] = static_cast<int64_t>(looked_at.size());
  };
  Status status = internal::ParallelFor(num_lists, 1, options, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t list = begin; list < end; ++list) choose(static_cast<int32_t>(list));
  });
  if (!status.ok()) return status;
  const int64_t all_candidates = std::accumulate(num_candidates.begin(), num_candidates.end(), int64_t{0});
  int64_t num_kept = 0;
  for (const std::vector<int32_t>& kept : tokens) num_kept += static_cast<int64_t>(kept.size());
  *selection = internal::SelectionOfLists(problem, tokens);
  // What the selector reads to choose, the candidates' rounded keys in units of an element, keys and values of what is
  // kept: means over the KV heads.
  const int64_t key_bits = bits == Bits::kExact ? 8 * SizeOf(problem.dtype) : 4;
  selection->elements_to_choose = candidates.elements_to_choose + all_candidates / num_lists * problem.head_dim *
                                                                      key_bits / (8 * SizeOf(problem.dtype));
  selection->elements_moved =
      selection->elements_to_choose + (num_kept / num_lists + 1) * (problem.head_dim + problem.ValueDim());
  return {};
}

// The selector of these values, and its own: a budget of `candidates` tokens, and what twilight has under its name.
struct Selector {
  explicit Selector(const ParameterValues& of_twilight)
      : method(*Selectors()[static_cast<size_t>(of_twilight.Integer("selector"))]), values(method.spec()) {
    for (const ParameterSpec& parameter : method.spec().parameters) {
      if (!parameter.instead_of.empty())
        values.Set(method.spec(), parameter.name, of_twilight.Real(internal::kCompressionRatio));
      const auto own = of_twilight.values().find(OwnName(method, parameter.name));
      if (own != of_twilight.values().end()) values.Set(method.spec(), parameter.name, own->second);
    }
    values = method.ForTokensAlone(method.WithCandidates(values, of_twilight.Integer("candidates")));
  }

  const DecodeMethod& method;
  ParameterValues values;
};

// kInvalidArgument: the candidates are said as a share of the tokens, and the selector's budget has no such form.
Status CheckRatio(const MethodSpec& spec, const ParameterValues& values) {
  if (values.Real(internal::kCompressionRatio) == 0) return {};
  const MethodSpec& selector = Selector(values).method.spec();
  const auto has = [&selector](auto&& is) { return std::ranges::any_of(selector.parameters, is); };
  if (has([](const ParameterSpec& parameter) { return !parameter.instead_of.empty(); })) return {};
  if (!has([](const ParameterSpec& parameter) { return parameter.role == ParameterRole::kBudget; })) return {};
  return {StatusCode::kInvalidArgument, "method " + spec.name + ": compression_ratio is not a budget of " +
                                            selector.name +
                                            ", which counts in units: set candidates and leave compression_ratio at 0"};
}

// The selector's own policy beside the 4-bit copy.
class TwilightPolicy final : public DecodePolicy {
 public:
  TwilightPolicy(const MethodSpec& spec, const ParameterValues& values) : spec_(spec), values_(values) {
    const Selector selector(values);
    candidates_ = selector.method.NewPolicy(selector.values);
  }

  Status Begin(const DecodePrompt& prompt, const RunOptions& options, DecodeEvictions* evictions) override {
    if (Status status = CheckRatio(spec_, values_); !status.ok()) return status;
    rounded_.Clear();
    if (prompt.cache.seq_k > 0) Round(prompt.cache, prompt.first_token);
    return candidates_->Begin(prompt, options, evictions);
  }
  Status Append(const DecodeStep& step, const RunOptions& options) override {
    Round(step.problem, step.first_token);
    return candidates_->Append(step, options);
  }
  Status Step(const DecodeStep& step, const RunOptions& options, DecodeSelection* selection,
              DecodeEvictions* evictions) override {
    DecodeSelection candidates;
    if (Status status = candidates_->Step(step, options, &candidates, evictions); !status.ok()) return status;
    return KeepShare(step.problem, values_, candidates, rounded_, options, selection);
  }
  void End() override { candidates_->End(); }

 private:
  void Round(const AttentionProblem& problem, int32_t first_token) {
    if (values_.Choice<Bits>("bits") == Bits::kFour) rounded_.Update(problem, first_token);
  }

  const MethodSpec& spec_;
  const ParameterValues values_;
  std::unique_ptr<DecodePolicy> candidates_;
  internal::FourBitKeys rounded_;
};

class TwilightMethod final : public internal::DecodeSelector {
 public:
  TwilightMethod() : DecodeSelector(TwilightSpec()) {}
  std::unique_ptr<DecodePolicy> NewPolicy(const ParameterValues& values) const override {
    return std::make_unique<TwilightPolicy>(spec(), values);
  }
  bool NeedsHistory(const ParameterValues& values) const override {
    const Selector selector(values);
    return selector.method.NeedsHistory(selector.values);
  }
  int32_t PromptRows(const ParameterValues& values) const override {
    const Selector selector(values);
    return selector.method.PromptRows(selector.values);
  }
  PromptInputs Inputs(const ParameterValues& values) const override {
    const Selector selector(values);
    return selector.method.Inputs(selector.values);
  }
  std::string_view DenseBy(const ParameterValues& values, int32_t layer) const override {
    return internal::DenseByFirstLayers(values, layer);
  }

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                DecodeSelection* selection) const override {
    const Selector selector(values);
    DecodeSelection candidates;
    Status status = selector.method.Select(problem, selector.values, options, &candidates);
    if (!status.ok()) return status;
    internal::FourBitKeys rounded;
    if (values.Choice<Bits>("bits") == Bits::kFour) rounded.Update(problem, 0);
    return KeepShare(problem, values, candidates, rounded, options, selection);
  }
};

}  // namespace

const DecodeMethod& Twilight() {
  static const TwilightMethod method;
  return method;
}

}  // namespace headscope::kernels
