// SPDX-License-Identifier: Apache-2.0
// Twilight: of another selector's candidates, the fewest tokens that hold a share of the attention (top-p).
//
// Source: Twilight: Adaptive Attention Sparsity with Hierarchical Top-p Pruning, section 4: candidates (Quest's pages,
// with a budget meant to be too large), their scores from a 4-bit copy of K (least and largest value of a token's key),
// a softmax over the candidates, and the smallest set whose mass reaches p.
//
// Choices where the paper is silent: over grouped queries, probabilities are averaged within the group. `bits=exact`
// leaves the quantisation out. The newest token is always attended to.
#include <algorithm>
#include <cmath>
#include <vector>

#include "internal/element.h"
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
               .cost = "more tokens, and many more near 1"},
              {.name = "candidates",
               .default_value = 8192,
               .minimum = 1,
               .maximum = 1 << 20,
               .step = 64,
               .logarithmic = true,
               .unit = Unit::kTokens,
               .help = "tokens of the pages that are looked at",
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
               .help = "of the copy of K that scores the candidates",
               .cost = "exact reads whole keys",
               .choices = {"4", "exact"}},
          },
  };
}

// A key with 16 levels between its least and its largest component.
void ToFourBits(std::vector<float>* key) {
  const auto [least, largest] = std::minmax_element(key->begin(), key->end());
  const float zero = *least, step = (*largest - *least) / 15.0f;
  if (!(step > 0)) return;
  for (float& x : *key) x = zero + std::nearbyint((x - zero) / step) * step;
}

// Scores of some tokens from the 4-bit copy become the group's mean probabilities.
std::vector<float> MeanProbabilities(const AttentionProblem& problem, int32_t list, const std::vector<int32_t>& tokens,
                                     Bits bits) {
  const int32_t sequence = list / problem.num_kv_heads, kv_head = list % problem.num_kv_heads;
  if (bits == Bits::kExact) {
    internal::StepScores scores(problem, sequence, kv_head);
    scores.Score(tokens);
    scores.Softmax();
    return scores.Sums();  // the share of a sum is that of the mean
  }
  // The rounded keys, side by side, as a cache of their own.
  const auto width = static_cast<size_t>(problem.head_dim);
  std::vector<float> keys(tokens.size() * width), key(width);
  const int64_t offset = sequence * problem.k.batch_stride + kv_head * problem.k.head_stride;
  for (size_t at = 0; at < tokens.size(); ++at) {
    internal::LoadRow(problem.k.data, problem.dtype, offset + tokens[at] * problem.k.row_stride, problem.head_dim,
                      key.data());
    ToFourBits(&key);
    std::copy(key.begin(), key.end(), keys.begin() + static_cast<int64_t>(at * width));
  }
  const std::vector<float> queries = internal::StepScores(problem, sequence, kv_head).queries();
  AttentionProblem rounded = problem;
  rounded.batch = rounded.num_kv_heads = 1;
  rounded.num_qo_heads = problem.GroupSize();
  rounded.dtype = DType::kFloat32;
  rounded.seq_k = static_cast<int32_t>(tokens.size());
  rounded.first_position = rounded.seq_k - 1;
  rounded.scale = internal::ScaleOf(problem);
  rounded.q = {queries.data(), 0, problem.head_dim, problem.head_dim};
  rounded.k = {keys.data(), 0, 0, problem.head_dim};
  internal::StepScores scores(rounded, 0, 0);
  scores.ScoreAll();
  scores.Softmax();
  return scores.Sums();
}

Status ChooseByBounds(const AttentionProblem& problem, const ParameterValues& values,
                      const internal::PageBounds& bounds, DecodeSelection* selection) {
  const int32_t page_size = values.Integer("page_size"), num_pages = bounds.NumPages();
  const int32_t picks = std::clamp(values.Integer("candidates") / page_size, 1, num_pages);
  const auto bits = values.Choice<Bits>("bits");
  std::vector<std::vector<int32_t>> tokens;
  int64_t num_candidates = 0, num_kept = 0;
  for (int32_t list = 0; list < problem.batch * problem.num_kv_heads; ++list) {
    const internal::StepScores step(problem, list / problem.num_kv_heads, list % problem.num_kv_heads);
    std::vector<int32_t> candidates;
    for (const int32_t page : internal::TopK(bounds.Scores(list, step.queries().data(), step.group()), picks)) {
      for (int32_t token = page * page_size; token < std::min((page + 1) * page_size, problem.seq_k); ++token)
        candidates.push_back(token);
    }
    std::vector<int32_t> kept;
    for (const int32_t place : internal::TopShare(MeanProbabilities(problem, list, candidates, bits), values.Real("p")))
      kept.push_back(candidates[static_cast<size_t>(place)]);
    if (kept.empty() || kept.back() != problem.seq_k - 1) kept.push_back(problem.seq_k - 1);
    num_candidates += static_cast<int64_t>(candidates.size());
    num_kept += static_cast<int64_t>(kept.size());
    tokens.push_back(std::move(kept));
  }
  *selection = internal::SelectionOfLists(problem, tokens);
  // Bounds of the pages, the candidates' rounded keys in units of an element, keys and values of what is kept: means
  // over the KV heads.
  const auto num_lists = static_cast<int64_t>(tokens.size());
  const int64_t key_bits = bits == Bits::kExact ? 8 * SizeOf(problem.dtype) : 4;
  selection->elements_moved = 2 * int64_t{num_pages} * problem.head_dim +
                              num_candidates / num_lists * problem.head_dim * key_bits / (8 * SizeOf(problem.dtype)) +
                              (num_kept / num_lists + 1) * (problem.head_dim + problem.ValueDim());
  return {};
}

class TwilightMethod final : public internal::PagedSelector {
 public:
  TwilightMethod() : PagedSelector(MakeSpec()) {}
  Status SelectByBounds(const AttentionProblem& problem, const ParameterValues& values,
                        const internal::PageBounds& bounds, DecodeSelection* selection) const override {
    return ChooseByBounds(problem, values, bounds, selection);
  }
};

}  // namespace

const DecodeMethod& Twilight() {
  static const TwilightMethod method;
  return method;
}

}  // namespace headscope::kernels
