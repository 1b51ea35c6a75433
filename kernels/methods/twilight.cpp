// SPDX-License-Identifier: Apache-2.0
// Twilight: of another selector's candidates, the fewest tokens that hold a share of the attention (top-p).
//
// Source: Twilight: Adaptive Attention Sparsity with Hierarchical Top-p Pruning, section 4: candidates (Quest's pages,
// with a budget meant to be too large), their scores from a 4-bit copy of K (least and largest value of a token's key),
// a softmax over the candidates, and the smallest set whose mass reaches p.
//
// The newest page is a candidate and attended to by right, as Quest's released kernels have it. The 4-bit copy grows
// with the cache: a key is rounded once.
//
// Choices where the paper is silent: over grouped queries, probabilities are averaged within the group. `bits=exact`
// leaves the quantisation out.
#include <algorithm>
#include <numeric>
#include <vector>

#include "four_bit_keys.h"
#include "internal/parallel_for.h"
#include "key_blocks.h"
#include "mass_share.h"
#include "page_bounds.h"
#include "registry.h"
#include "step_scores.h"
#include "top_k.h"

namespace headscope::kernels {
namespace {

enum class Bits : uint8_t { kFour, kExact };

MethodSpec MakeSpec() {
  return {
      .name = "twilight",
      .title = "Twilight top-p",
      .family = "dynamic selection",
      .paper = "Twilight: Adaptive Attention Sparsity with Hierarchical Top-p Pruning, section 4",
      .summary = "Of Quest's pages, attends to the fewest tokens that hold the share p of their attention.",
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
               .help = "tokens of the candidate pages",
               .cost = "a quarter of a key to read per token"},
              {.name = "page_size",
               .default_value = 16,
               .minimum = 1,
               .maximum = 1024,
               .step = 1,
               .logarithmic = true,
               .unit = Unit::kTokens,
               .help = "tokens of a page",
               .cost = "bounds are fewer and looser"},
              {.name = "bits",
               .type = ParameterType::kChoice,
               .help = "bits of the copy of K that scores the candidates",
               .cost = "exact reads whole keys",
               .choices = {"4", "exact"}},
          },
  };
}

// The group's summed probabilities of some tokens: the share of a sum is that of the mean.
std::vector<float> SummedProbabilities(const AttentionProblem& problem, int32_t list,
                                       const std::vector<int32_t>& tokens, Bits bits,
                                       const internal::FourBitKeys& rounded) {
  internal::StepScores scores(problem, list / problem.num_kv_heads, list % problem.num_kv_heads);
  if (bits == Bits::kExact) {
    scores.Score(tokens);
    scores.Softmax();
    return scores.Sums();
  }
  const auto count = static_cast<int64_t>(tokens.size());
  std::vector<float> rows(static_cast<size_t>(scores.group() * count)), sums(tokens.size(), 0.0f);
  rounded.Score(list, scores.queries().data(), scores.group(), tokens, problem.EffectiveScale(), problem.soft_cap,
                rows.data());
  for (int32_t i = 0; i < scores.group(); ++i) {
    float* const row = rows.data() + i * count;
    internal::SoftmaxInPlace(row, count, count);
    for (size_t at = 0; at < sums.size(); ++at) sums[at] += row[at];
  }
  return sums;
}

Status ChooseByBounds(const AttentionProblem& problem, const ParameterValues& values,
                      const internal::PageBounds& bounds, const internal::FourBitKeys& rounded,
                      const RunOptions& options, DecodeSelection* selection) {
  const int32_t page_size = values.Integer("page_size"), num_pages = bounds.NumPages();
  const int32_t picks = std::clamp(values.Integer("candidates") / page_size, 1, num_pages);
  const auto bits = values.Choice<Bits>("bits");
  const auto num_lists = int64_t{problem.batch} * problem.num_kv_heads;
  std::vector<std::vector<int32_t>> tokens(static_cast<size_t>(num_lists));
  std::vector<int64_t> num_candidates(tokens.size());
  const auto choose = [&](int32_t list) {
    const internal::StepScores step(problem, list / problem.num_kv_heads, list % problem.num_kv_heads);
    std::vector<float> scores = bounds.Scores(list, step.queries().data(), step.group());
    scores.pop_back();
    std::vector<int32_t> pages = internal::TopK(scores, picks - 1), candidates;
    pages.push_back(num_pages - 1);
    for (const int32_t page : pages) {
      for (int32_t token = page * page_size; token < std::min((page + 1) * page_size, problem.seq_k); ++token)
        candidates.push_back(token);
    }
    const int32_t newest = (num_pages - 1) * page_size;
    const std::vector<float> mass = SummedProbabilities(problem, list, candidates, bits, rounded);
    std::vector<int32_t>& kept = tokens[static_cast<size_t>(list)];
    for (const int32_t place : internal::TopShare(mass, values.Real("p"))) {
      const int32_t token = candidates[static_cast<size_t>(place)];
      if (token < newest) kept.push_back(token);
    }
    for (int32_t token = newest; token < problem.seq_k; ++token) kept.push_back(token);
    num_candidates[static_cast<size_t>(list)] = static_cast<int64_t>(candidates.size());
  };
  Status status = internal::ParallelFor(num_lists, 1, options, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t list = begin; list < end; ++list) choose(static_cast<int32_t>(list));
  });
  if (!status.ok()) return status;
  const int64_t all_candidates = std::accumulate(num_candidates.begin(), num_candidates.end(), int64_t{0});
  int64_t num_kept = 0;
  for (const std::vector<int32_t>& kept : tokens) num_kept += static_cast<int64_t>(kept.size());
  *selection = internal::SelectionOfLists(problem, tokens);
  // Bounds of the pages, the candidates' rounded keys in units of an element, keys and values of what is kept: means
  // over the KV heads.
  const int64_t key_bits = bits == Bits::kExact ? 8 * SizeOf(problem.dtype) : 4;
  selection->elements_moved = 2 * int64_t{num_pages} * problem.head_dim +
                              all_candidates / num_lists * problem.head_dim * key_bits / (8 * SizeOf(problem.dtype)) +
                              (num_kept / num_lists + 1) * (problem.head_dim + problem.ValueDim());
  return {};
}

class TwilightMethod final : public internal::PagedSelector {
 public:
  TwilightMethod() : PagedSelector(MakeSpec()) {}
  Status SelectByBounds(const AttentionProblem& problem, const ParameterValues& values,
                        const internal::PageBounds& bounds, const internal::FourBitKeys& rounded,
                        const RunOptions& options, DecodeSelection* selection) const override {
    return ChooseByBounds(problem, values, bounds, rounded, options, selection);
  }
  bool ReadsFourBits(const ParameterValues& values) const override {
    return values.Choice<Bits>("bits") == Bits::kFour;
  }
};

}  // namespace

const DecodeMethod& Twilight() {
  static const TwilightMethod method;
  return method;
}

}  // namespace headscope::kernels
