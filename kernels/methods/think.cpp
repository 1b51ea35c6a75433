// SPDX-License-Identifier: Apache-2.0
// ThinK: keys of the prompt lose the components that its last queries need least.
//
// Source: ThinK: Thinner Key Cache by Query-Driven Pruning, section 3.2 (criterion) and section 4 (settings). A
// component's score is the Frobenius norm of its part of Q K^T, |q_c| |k_c|: the norm of the last `window` queries'
// component times that of the keys'; of head_dim components floor((1 - ratio) head_dim) stay. Values stay whole, and so
// do the keys of the newest `n_local` tokens of the prompt and of all tokens behind it. A query's product with a key
// that has lost components is over those that are left; the softmax scale stays what it was.
//
// Choices where the paper is silent: over grouped queries the squares are summed over the group, as their norm would
// be, and the keys' norm is that of the keys that lose components. The kvpress library takes all keys of the prompt
// (n_local=0) and rounds the lost components down, not the ones that stay.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "internal/element.h"
#include "kernels/decode_method.h"
#include "prompt_eviction.h"
#include "registry.h"
#include "step_scores.h"
#include "top_k.h"

namespace headscope::kernels {
namespace {

MethodSpec ThinkSpec() {
  return {
      .name = "think",
      .title = "ThinK",
      .family = "key components",
      .paper = "ThinK: Thinner Key Cache by Query-Driven Pruning, section 3.2",
      .summary = "Attends to every token, but to most of the prompt's only by their strongest key components.",
      .always_keeps = "every token, and the keys of the newest n_local tokens of the prompt and of all behind it whole",
      .selection_cost = "the norms of the components over window queries and the keys, once for the prompt",
      .phase = Phase::kDecode,
      .chosen_per = ChosenPer::kKvHead,
      .keeps_state = true,
      .needs_history = true,
      .kvpress = {{.name = "think", .values = "n_local=0", .given = {"ratio"}}},
      .parameters =
          {
              {.name = "ratio",
               .type = ParameterType::kReal,
               .default_value = 0.4,
               .maximum = 1,
               .step = 0.05,
               .help = "share of the key components that is dropped",
               .cost = "less to read, but less accurate scores"},
              {.name = "window",
               .default_value = 32,
               .minimum = 1,
               .maximum = 1 << 16,
               .step = 16,
               .logarithmic = true,
               .unit = Unit::kRows,
               .help = "last queries of the prompt that select the components",
               .cost = "nothing"},
              {.name = "n_local",
               .default_value = 32,
               .minimum = 0,
               .maximum = 1 << 20,
               .step = 16,
               .logarithmic = true,
               .unit = Unit::kTokens,
               .help = "newest tokens of the prompt whose keys stay whole",
               .cost = "whole keys to read"},
          },
  };
}

class ThinKPolicy final : public DecodePolicy {
 public:
  ThinKPolicy(const MethodSpec& spec, const ParameterValues& values)
      : spec_(spec),
        ratio_(values.Real("ratio")),
        window_(values.Integer("window")),
        n_local_(values.Integer("n_local")) {}

  Status Begin(const DecodePrompt& prompt, const RunOptions&, DecodeEvictions*) override {
    const AttentionProblem& cache = prompt.cache;
    components_.clear();
    end_ = 0;
    const int32_t thin = std::max(0, cache.seq_k - n_local_);  // keys that lose components
    // Rounding must not take one away.
    const int64_t count = std::max<int64_t>(1, static_cast<int64_t>((1 - ratio_) * cache.head_dim + 1e-9));
    if (thin == 0 || count == cache.head_dim) return {};
    if (Status status = internal::CheckLastQueries(spec_, prompt, window_); !status.ok()) return status;
    end_ = prompt.first_token + thin;
    for (int32_t list = 0; list < cache.batch * cache.num_kv_heads; ++list) {
      std::vector<float> scores = Scores({prompt, list / cache.num_kv_heads, list % cache.num_kv_heads}, thin);
      std::vector<int32_t> kept = internal::TopK(scores, count);
      std::ranges::sort(kept);
      components_.push_back(std::move(kept));
    }
    return {};
  }

  Status Step(const DecodeStep& step, const RunOptions&, DecodeSelection* selection, DecodeEvictions*) override {
    const AttentionProblem& problem = step.problem;
    std::vector<int32_t> all(static_cast<size_t>(problem.seq_k));
    for (size_t token = 0; token < all.size(); ++token) all[token] = static_cast<int32_t>(token);
    const std::vector<std::vector<int32_t>> lists(
        static_cast<size_t>(problem.batch) * static_cast<size_t>(problem.num_kv_heads), all);
    *selection = internal::SelectionOfLists(problem, lists);
    // Keys and values of all tokens, and the new ones.
    selection->elements_moved = (int64_t{problem.seq_k} + 1) * (problem.head_dim + problem.ValueDim());
    const int32_t end = end_ - step.first_token;
    if (end <= 0) return {};
    selection->components_end = end;
    selection->component_begin.push_back(0);
    for (const std::vector<int32_t>& kept : components_) {
      selection->components.insert(selection->components.end(), kept.begin(), kept.end());
      selection->component_begin.push_back(static_cast<int64_t>(selection->components.size()));
    }
    selection->elements_moved -= end * (problem.head_dim - static_cast<int64_t>(components_.front().size()));
    return {};
  }

 private:
  // Of every component, over the group: the sum of its squares in the last queries times that in the keys that lose
  // some. The root would not change their order.
  std::vector<float> Scores(const internal::PromptHead& head, int32_t thin) const {
    const AttentionProblem& cache = head.prompt.cache;
    const auto width = static_cast<size_t>(cache.head_dim);
    std::vector<double> of_queries(width, 0.0), of_keys(width, 0.0);
    std::vector<float> row(width);
    const auto add_squares = [&](const StridedTensor<const void>& tensor, int64_t offset, std::vector<double>* sums) {
      internal::LoadRow(tensor.data, cache.dtype, offset, cache.head_dim, row.data());
      for (size_t d = 0; d < width; ++d) (*sums)[d] += static_cast<double>(row[d]) * static_cast<double>(row[d]);
    };
    for (int32_t i = 0; i < cache.GroupSize(); ++i) {
      const int64_t offset =
          head.sequence * cache.q.batch_stride + (head.kv_head * cache.GroupSize() + i) * cache.q.head_stride;
      for (int32_t r = std::max(0, cache.seq_q - window_); r < cache.seq_q; ++r)
        add_squares(cache.q, offset + r * cache.q.row_stride, &of_queries);
    }
    for (int32_t token = 0; token < thin; ++token) add_squares(cache.k, head.KeyOffset(token), &of_keys);
    std::vector<float> scores(width);
    for (size_t d = 0; d < width; ++d) scores[d] = static_cast<float>(std::sqrt(of_queries[d]) * std::sqrt(of_keys[d]));
    return scores;
  }

  const MethodSpec& spec_;
  const double ratio_;
  const int32_t window_, n_local_;
  std::vector<std::vector<int32_t>> components_;  // by list; empty: all keys are whole
  int32_t end_ = 0;                               // of the keys that have lost some, a token of the sequence
};

class ThinKMethod final : public DecodeMethod {
 public:
  ThinKMethod() : spec_(ThinkSpec()) {}
  const MethodSpec& spec() const override { return spec_; }
  std::unique_ptr<DecodePolicy> NewPolicy(const ParameterValues& values) const override {
    return std::make_unique<ThinKPolicy>(spec_, values);
  }
  int32_t PromptRows(const ParameterValues& values) const override { return values.Integer("window"); }
  bool LeavesOutComponents() const override { return true; }

 private:
  const MethodSpec spec_;
};

}  // namespace

const DecodeMethod& ThinK() {
  static const ThinKMethod method;
  return method;
}

}  // namespace headscope::kernels
