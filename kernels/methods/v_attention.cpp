// SPDX-License-Identifier: Apache-2.0
// vAttention: what is known to be heavy, and a weighted random sample of the rest, as large as a promised error asks
// for.
//
// Source: vAttention: Verified Sparse Attention, section 4 and Algorithm 1, the bound for the softmax's denominator:
// sinks, a window and the heavy tokens are attended to as they are; of the others a base sample estimates the deviation
// s of their exponentials and the denominator D, a sink's logit among its terms where the model has one; b = (z(1 -
// delta / 2) * s * N / (epsilon * D))^2 of the N others are drawn without replacement and weigh N / b each. The
// released code takes z(1 - delta), which bounds the error on one side (`bound=one_sided`).
//
// Choices where the source is silent: heavy tokens are the best by exact probability, summed over the group (an oracle:
// the paper takes any approximate top-k, and so its cost is not shown here); over grouped queries the largest b of the
// query heads. b is at least the base sample, which is part of it. Tokens are drawn by the largest random numbers: that
// of token t is the upper 24 bits of number t of SplitMix64's stream RandomAt(RandomAt(seed, list), tokens of the
// cache).
#include <algorithm>
#include <cmath>
#include <vector>

#include "common_parameters.h"
#include "internal/parallel_for.h"
#include "problems/counter_random.h"
#include "registry.h"
#include "selector.h"
#include "step_scores.h"
#include "top_k.h"

namespace headscope::kernels {
namespace {

MethodSpec VAttentionSpec() {
  const auto share = [](const char* name, double value, double minimum, double step, const char* help,
                        const char* cost) {
    return ParameterSpec{.name = name,
                         .type = ParameterType::kReal,
                         .default_value = value,
                         .minimum = minimum,
                         .step = step,
                         .help = help,
                         .cost = cost};
  };
  const auto tokens = [](const char* name, const char* help) {
    return ParameterSpec{.name = name,
                         .default_value = 128,
                         .minimum = 0,
                         .maximum = 1 << 20,
                         .step = 16,
                         .unit = Unit::kTokens,
                         .help = help,
                         .cost = "one more key and value to read per token"};
  };
  ParameterSpec heavy = share("heavy_share", 0.05, 0, 0.01, "share of the tokens taken as heavy, by exact probability",
                              "one more key and value to read per token");
  heavy.role = ParameterRole::kAmount;  // what is drawn of the others depends on what is heavy
  return {
      .name = "v-attention",
      .title = "vAttention",
      .family = "sampling",
      .paper = "vAttention: Verified Sparse Attention, section 4",
      .summary = "Attends to sinks, a window and heavy tokens, and to a weighted sample of the rest.",
      .always_keeps = "the first n_sink and the newest n_local tokens, and a sample of base_share of the rest",
      .selection_cost = "every key, S d elements, of a step and KV head: heavy tokens are found exactly",
      .phase = Phase::kDecode,
      .chosen_per = ChosenPer::kKvHead,
      .parameters =
          {
              tokens("n_sink", "first tokens that are always attended to"),
              tokens("n_local", "newest tokens that are always attended to, including the query's own"),
              heavy,
              share("base_share", 0.05, 0.001, 0.01, "least share of the other tokens that is sampled",
                    "one more key and value to read per token"),
              share("epsilon", 0.1, 0.001, 0.01, "guaranteed relative error of the denominator",
                    "a smaller one samples more, quadratically"),
              share("delta", 0.1, 0.0001, 0.01, "probability that the guarantee fails", "a smaller one samples more"),
              {.name = "bound",
               .type = ParameterType::kChoice,
               .help = "error bound: on both sides, as in the paper, or on one side, as in the released code",
               .cost = "one_sided samples less",
               .choices = {"two_sided", "one_sided"}},
              internal::SeedParameter("the sample"),
          },
  };
}

enum class Bound : uint8_t { kTwoSided, kOneSided };

// The argument at which the standard normal distribution reaches `share` (0.5 to 1), by bisection.
double NormalQuantile(double share) {
  double low = 0, high = 40;
  for (int step = 0; step < 100; ++step) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < share ? low : high) = middle;
  }
  return (low + high) / 2;
}

struct Sample {
  std::vector<int32_t> tokens;  // ascending
  std::vector<float> weights;
};

class HeadSampler {
 public:
  HeadSampler(const AttentionProblem& problem, const ParameterValues& values, int64_t list)
      : problem_(problem),
        values_(values),
        list_(list),
        scores_(problem, static_cast<int32_t>(list / problem.num_kv_heads),
                static_cast<int32_t>(list % problem.num_kv_heads)) {}

  Sample Draw() {
    scores_.ScoreAll();
    scores_.Softmax();
    const int32_t num_tokens = problem_.seq_k;
    std::vector<bool> certain(static_cast<size_t>(num_tokens), false);
    const int32_t local = std::max(1, values_.Integer("n_local"));
    const int32_t first = std::min(values_.Integer("n_sink"), num_tokens);
    std::fill_n(certain.begin(), first, true);
    std::fill(certain.begin() + std::max(0, num_tokens - local), certain.end(), true);
    TakeHeavy(&certain);
    std::vector<int32_t> others;
    for (int32_t token = 0; token < num_tokens; ++token) {
      if (!certain[static_cast<size_t>(token)]) others.push_back(token);
    }
    const std::vector<int32_t> drawn = DrawFrom(certain, others);
    const float weight = static_cast<float>(others.size()) / static_cast<float>(drawn.size());
    Sample sample;
    size_t next = 0;
    for (int32_t token = 0; token < num_tokens; ++token) {
      const bool is_drawn = next < drawn.size() && drawn[next] == token;
      if (is_drawn) ++next;
      if (!is_drawn && !certain[static_cast<size_t>(token)]) continue;
      sample.tokens.push_back(token);
      sample.weights.push_back(is_drawn ? weight : 1.0f);
    }
    return sample;
  }

 private:
  // Of the tokens that are not certain yet.
  void TakeHeavy(std::vector<bool>* certain) {
    std::vector<float> sums = scores_.Sums();
    for (size_t token = 0; token < sums.size(); ++token) {
      if ((*certain)[token]) sums[token] = -1.0f;
    }
    const auto count = static_cast<int64_t>(values_.Real("heavy_share") * problem_.seq_k + 1e-9);
    for (const int32_t token : internal::TopK(sums, count)) (*certain)[static_cast<size_t>(token)] = true;
  }

  // Ascending.
  std::vector<int32_t> DrawFrom(const std::vector<bool>& certain, const std::vector<int32_t>& others) {
    if (others.empty()) return {};
    const uint64_t stream = problems::RandomAt(
        problems::RandomAt(static_cast<uint64_t>(values_.Integer("seed")), static_cast<uint64_t>(list_)),
        static_cast<uint64_t>(problem_.seq_k));
    std::vector<float> numbers;
    numbers.reserve(others.size());
    for (const int32_t token : others)
      numbers.push_back(static_cast<float>(problems::RandomAt(stream, static_cast<uint64_t>(token)) >> 40));
    const auto all = static_cast<double>(others.size());
    const double base = std::clamp(std::ceil(values_.Real("base_share") * all - 1e-9), std::min(2.0, all), all);
    const std::vector<int32_t> first = internal::TopK(numbers, static_cast<int64_t>(base));
    double size = base;
    for (int32_t i = 0; i < scores_.group(); ++i)
      size = std::max(size, std::min(all, SampleSize(i, certain, others, first)));
    std::vector<int32_t> drawn;
    for (const int32_t place : internal::TopK(numbers, static_cast<int64_t>(size)))
      drawn.push_back(others[static_cast<size_t>(place)]);
    return drawn;
  }

  // What query head i of the group asks for. Its probabilities stand for exponentials: their common factor cancels.
  double SampleSize(int32_t i, const std::vector<bool>& certain, const std::vector<int32_t>& others,
                    const std::vector<int32_t>& base) {
    const std::span<const float> p = scores_.Row(i);
    double sum = 0, squares = 0, denominator = 0;
    for (const int32_t place : base) {
      const auto x = static_cast<double>(p[static_cast<size_t>(others[static_cast<size_t>(place)])]);
      sum += x;
      squares += x * x;
    }
    const auto n = static_cast<double>(base.size()), all = static_cast<double>(others.size());
    for (size_t token = 0; token < p.size(); ++token) denominator += certain[token] ? static_cast<double>(p[token]) : 0;
    denominator += all * sum / n;
    const double deviation = n > 1 ? std::sqrt(std::max(0.0, (squares - sum * sum / n) / (n - 1))) : 0;
    if (problem_.sinks != nullptr) {  // the probabilities and the sink's make 1
      double all_tokens = 0;
      for (const float x : p) all_tokens += static_cast<double>(x);
      denominator += std::max(0.0, 1 - all_tokens);
    }
    const bool two_sided = values_.Choice<Bound>("bound") == Bound::kTwoSided;
    const double z = NormalQuantile(std::max(0.5, 1 - values_.Real("delta") / (two_sided ? 2 : 1)));
    const double root = z * deviation * all / (values_.Real("epsilon") * denominator);
    return std::isfinite(root) ? std::ceil(root * root) : all;
  }

  const AttentionProblem& problem_;
  const ParameterValues& values_;
  const int64_t list_;
  internal::StepScores scores_;
};

class VAttentionMethod final : public internal::DecodeSelector {
 public:
  VAttentionMethod() : DecodeSelector(VAttentionSpec()) {}

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                DecodeSelection* selection) const override {
    std::vector<Sample> samples(static_cast<size_t>(int64_t{problem.batch} * problem.num_kv_heads));
    Status status = internal::ParallelFor(
        static_cast<int64_t>(samples.size()), 1, options, [&](int64_t begin, int64_t end, int32_t) {
          for (int64_t list = begin; list < end; ++list)
            samples[static_cast<size_t>(list)] = HeadSampler(problem, values, list).Draw();
        });
    if (!status.ok()) return status;
    std::vector<std::vector<int32_t>> tokens;
    std::vector<float> weights;
    for (Sample& sample : samples) {
      weights.insert(weights.end(), sample.weights.begin(), sample.weights.end());
      tokens.push_back(std::move(sample.tokens));
    }
    *selection = internal::SelectionOfLists(problem, tokens);
    // The exact scores, values of what is attended to (a mean over KV heads), the new key and value.
    const int64_t mean = static_cast<int64_t>(weights.size()) / static_cast<int64_t>(samples.size());
    selection->elements_moved = (int64_t{problem.seq_k} + 1) * problem.head_dim + (mean + 1) * problem.ValueDim();
    selection->weights = std::move(weights);
    return {};
  }
};

}  // namespace

const DecodeMethod& VAttention() {
  static const VAttentionMethod method;
  return method;
}

}  // namespace headscope::kernels
