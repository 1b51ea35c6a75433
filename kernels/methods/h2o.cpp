// SPDX-License-Identifier: Apache-2.0
// H2O: the tokens that got most attention so far, and the newest ones.
//
// Source: H2O: Heavy-Hitter Oracle for Efficient Generative Inference of Large Language Models, section 4 and Algorithm
// 1; the settings of SparQ Attention's comparison, section 5.1 and appendix G: a cache of k tokens, l = k / 4 of them
// the newest, the others those of the largest sum of probabilities; eviction is final; transfers 2 k head_dim + 2
// head_dim + 2 S.
//
// A step attends to the cache and to its own token, and then the least of them goes, as in Algorithm 1.
//
// Choices where the sources are silent: the prompt's attention counts, of the rows that were recorded; over grouped
// queries sums are taken over the group. From the first eviction on, probabilities are those over what is left. AdaKV
// and CriticalKV say what is left of a prompt that the cache does not hold, by the sums so far and beside the newest l
// tokens; as in their sources they have no part in the steps behind it, in which each head's cache stays as large as it
// was then and goes by its sums alone.
#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common_parameters.h"
#include "internal/parallel_for.h"
#include "kernels/stop_status.h"
#include "layer_budgets.h"
#include "line_sums.h"
#include "prompt_eviction.h"
#include "prompt_sums.h"
#include "registry.h"
#include "step_scores.h"
#include "top_k.h"

namespace headscope::kernels {
namespace {

MethodSpec H2oSpec() {
  MethodSpec spec = {
      .name = "h2o",
      .title = "H2O",
      .family = "cache eviction",
      .paper =
          "H2O: Heavy-Hitter Oracle for Efficient Generative Inference of Large Language Models, section 4; SparQ "
          "Attention, section 5.1 (its settings)",
      .summary = "Keeps the newest tokens and those that got the most attention so far; evicted tokens never return.",
      .always_keeps = "the newest local_share of k",
      .selection_cost =
          "a sum of every token, 2 S elements read and written, of a step and KV head; the scores of the prompt once",
      .phase = Phase::kDecode,
      .chosen_per = ChosenPer::kKvHead,
      .keeps_state = true,
      .needs_history = true,
      .parameters =
          {
              internal::CachedTokens(192, 16, " (SparQ's comparisons: 192 to 768)"),
              {.name = "local_share",
               .type = ParameterType::kReal,
               .default_value = 0.25,
               .step = 0.05,
               .unit = Unit::kShareOfParameter,
               .share_of = "k",
               .help = "share of k that is reserved for the newest tokens, at least one",
               .cost = "takes places from tokens with more attention"},
              internal::CompressionRatio("k", "the prompt's tokens"),
          },
  };
  for (ParameterSpec& parameter : internal::HeadBudgetParameters("k")) spec.parameters.push_back(std::move(parameter));
  return spec;
}

class H2oPolicy final : public DecodePolicy {
 public:
  H2oPolicy(const MethodSpec& spec, const ParameterValues& values, internal::PromptSums* sums)
      : spec_(spec), values_(values), sums_(sums) {}

  Status Begin(const DecodePrompt& prompt, const RunOptions& options, DecodeEvictions* evictions) override {
    const AttentionProblem& cache = prompt.cache;
    lists_.assign(static_cast<size_t>(int64_t{cache.batch} * cache.num_kv_heads), {});
    end_ = prompt.first_token + cache.seq_k;
    const int32_t budget = internal::BudgetInTokens(values_, "k", cache.seq_k);
    budgets_.assign(lists_.size(), static_cast<size_t>(budget));
    local_ = std::min(std::max<size_t>(1, static_cast<size_t>(values_.Real("local_share") * budget + 1e-9)),
                      static_cast<size_t>(budget));
    if (cache.seq_k == 0) return {};
    if (Status status = internal::CheckLastQueries(spec_, prompt, 1); !status.ok()) return status;
    if (Status status = internal::CheckValueNorms(spec_, prompt, values_); !status.ok()) return status;
    Status status = SumPrompt(prompt, options);
    for (int32_t sequence = 0; status.ok() && budget < cache.seq_k && sequence < cache.batch; ++sequence)
      CutPrompt(prompt, sequence, budget, evictions);
    return status;
  }

  Status Append(const DecodeStep& step, const RunOptions&) override {
    for (const int32_t end = step.first_token + step.problem.seq_k; end_ < end; ++end_) {
      for (Cache& list : lists_) {
        list.tokens.push_back(end_);
        list.mass.push_back(0.0f);
      }
    }
    return {};
  }

  Status Step(const DecodeStep& step, const RunOptions& options, DecodeSelection* selection,
              DecodeEvictions* evictions) override {
    std::vector<std::vector<int32_t>> kept;
    for (const Cache& list : lists_) kept.push_back(list.tokens);
    *selection = internal::SelectionOfKept(step, kept);
    selection->elements_moved += 2 * int64_t{step.problem.seq_k};  // the sums, read and written
    Status status = internal::ParallelFor(static_cast<int64_t>(lists_.size()), 1, options,
                                          [&](int64_t begin, int64_t end, int32_t) {
                                            for (int64_t list = begin; list < end; ++list) Attend(step, list);
                                          });
    for (size_t list = 0; status.ok() && list < lists_.size(); ++list) Shrink(list, evictions);
    return status;
  }

 private:
  struct Cache {
    std::vector<int32_t> tokens;  // of the sequence, ascending
    std::vector<float> mass;      // what each got so far
  };

  // The sums over a prompt's first rows, where it may begin again behind them: a number of every token and query head,
  // which is little beside the token's keys.
  struct FirstRows {
    int32_t first_token = 0, first_row = 0, end = 0;  // in the sequence; the rows [first_row, end). end 0: none
    std::vector<std::vector<float>> columns;          // [sequence * num_qo_heads + query head][token]

    bool AreOf(const DecodePrompt& prompt) const {
      return end > 0 && end <= prompt.unchanged && first_token == prompt.first_token &&
             first_row == prompt.first_token + prompt.cache.first_position &&
             columns.size() == static_cast<size_t>(int64_t{prompt.cache.batch} * prompt.cache.num_qo_heads);
    }
  };

  Status SumPrompt(const DecodePrompt& prompt, const RunOptions& options) {
    const std::optional<internal::PromptSums::Fingerprint> of_prompt = internal::PromptSums::Of(prompt);
    std::shared_ptr<const internal::PromptSums::Columns> columns = of_prompt ? sums_->Find(*of_prompt) : nullptr;
    if (columns == nullptr) {
      auto made = std::make_shared<internal::PromptSums::Columns>();
      if (Status status = MakeColumns(prompt, options, made.get()); !status.ok()) return status;
      columns = std::move(made);
      if (of_prompt) sums_->Keep(*of_prompt, columns);
    }
    for (size_t list = 0; list < lists_.size(); ++list) AddHeads(prompt, static_cast<int64_t>(list), *columns);
    return {};
  }

  Status MakeColumns(const DecodePrompt& prompt, const RunOptions& options, internal::PromptSums::Columns* columns) {
    const AttentionProblem& cache = prompt.cache;
    columns->resize(static_cast<size_t>(int64_t{cache.batch} * cache.num_qo_heads));
    const int32_t first_row = prompt.first_token + cache.first_position;
    const bool known = first_rows_.AreOf(prompt);
    int32_t end = first_rows_.end;
    if (!known) {
      first_rows_ = {};
      end = prompt.unchanged > 0 ? prompt.unchanged : prompt.returns_to;
      if (end <= first_row || end >= first_row + cache.seq_q) end = 0;
      if (end > 0) first_rows_.columns.resize(columns->size());
    }
    const int32_t split = std::max(end - first_row, 0);
    // By query head where there are fewer KV heads than threads, as in the panel; else the keys of a KV head are packed
    // once for all that share it.
    const auto num_heads = static_cast<int64_t>(columns->size()), num_lists = static_cast<int64_t>(lists_.size());
    const int64_t together = num_lists < NumWorkers(options.num_threads, num_heads) ? 1 : cache.GroupSize();
    Status status =
        internal::ParallelFor(num_heads / together, 1, options, [&](int64_t begin, int64_t units_end, int32_t) {
          for (int64_t unit = begin; unit < units_end; ++unit)
            SumHeads(prompt, unit * together, (unit + 1) * together, known, split, options, columns);
        });
    if (status.ok() && options.stop.stop_requested()) status = Stopped();
    if (!status.ok()) {
      first_rows_ = {};  // what is there may be of some rows only
      return status;
    }
    first_rows_.first_token = prompt.first_token;
    first_rows_.first_row = first_row;
    first_rows_.end = end;
    return {};
  }

  // The sums by key of query heads that share a KV head, [begin, end) of sequence * num_qo_heads + query head. split:
  // how many of the rows first_rows_ is of; it has them already where they are known.
  void SumHeads(const DecodePrompt& prompt, int64_t begin, int64_t end, bool known, int32_t split,
                const RunOptions& options, internal::PromptSums::Columns* columns) {
    const AttentionProblem& cache = prompt.cache;
    const auto sequence = static_cast<int32_t>(begin / cache.num_qo_heads);
    const int32_t kv_head = static_cast<int32_t>(begin % cache.num_qo_heads) / cache.GroupSize();
    const PackedKeys keys = internal::PackVisibleKeys(cache, sequence, kv_head);
    internal::LineProbe probe(cache, options);
    for (int64_t head = begin; head < end; ++head) {
      const auto qo_head = static_cast<int32_t>(head % cache.num_qo_heads);
      const float* const lse = internal::PromptHead{prompt, sequence, kv_head}.Lse(qo_head);
      internal::LineSums sums;
      if (split > 0) {
        std::vector<float>& first = first_rows_.columns[static_cast<size_t>(head)];
        if (!known) {
          probe.AddColumns(keys, sequence, qo_head, 0, split, lse, &sums);
          // Keys behind the last of the rows have nothing of them.
          first.assign(sums.columns.begin(), sums.columns.begin() + cache.first_position + split);
        }
        sums.columns = first;
      }
      probe.AddColumns(keys, sequence, qo_head, split, cache.seq_q, lse, &sums);
      (*columns)[static_cast<size_t>(head)] = std::move(sums.columns);
    }
  }

  void AddHeads(const DecodePrompt& prompt, int64_t list, const internal::PromptSums::Columns& columns) {
    const AttentionProblem& cache = prompt.cache;
    Cache& into = lists_[static_cast<size_t>(list)];
    into.mass.assign(static_cast<size_t>(cache.seq_k), 0.0f);
    for (int32_t token = 0; token < cache.seq_k; ++token) into.tokens.push_back(prompt.first_token + token);
    for (int32_t i = 0; i < cache.GroupSize(); ++i) {
      const std::vector<float>& of_head = columns[static_cast<size_t>(list * cache.GroupSize() + i)];
      for (size_t token = 0; token < into.mass.size(); ++token) into.mass[token] += of_head[token];
    }
  }

  // What the heads of a sequence keep of its prompt, which is longer than the budget.
  void CutPrompt(const DecodePrompt& prompt, int32_t sequence, int32_t budget, DecodeEvictions* evictions) {
    const auto num_heads = static_cast<size_t>(prompt.cache.num_kv_heads);
    const size_t first = static_cast<size_t>(sequence) * num_heads;
    std::vector<std::vector<float>> scores;
    for (size_t head = 0; head < num_heads; ++head) {
      std::vector<float>& of_head = scores.emplace_back(lists_[first + head].mass);
      std::fill(of_head.end() - static_cast<std::ptrdiff_t>(local_), of_head.end(),
                std::numeric_limits<float>::infinity());
    }
    const std::vector<std::vector<int32_t>> kept = internal::KeptByHeads(
        scores, internal::NormsByHeads(prompt, sequence, values_), budget, /*together=*/1, values_);
    for (size_t head = 0; head < num_heads; ++head) {
      budgets_[first + head] = kept[head].size();
      Leave(first + head, kept[head], evictions);
    }
  }

  // The best of those before the newest `local_`, down to the budget.
  void Shrink(size_t list, DecodeEvictions* evictions) {
    const Cache& cache = lists_[list];
    if (cache.tokens.size() <= budgets_[list]) return;
    const size_t older = cache.tokens.size() - local_;
    std::vector<int32_t> kept =
        internal::TopK({cache.mass.data(), older}, static_cast<int64_t>(budgets_[list] - local_));
    for (size_t place = older; place < cache.tokens.size(); ++place) kept.push_back(static_cast<int32_t>(place));
    Leave(list, kept, evictions);
  }

  // `places` in the list, ascending; the others go.
  void Leave(size_t list, const std::vector<int32_t>& places, DecodeEvictions* evictions) {
    Cache& cache = lists_[list];
    Cache left;
    for (size_t place = 0, next = 0; place < cache.tokens.size(); ++place) {
      if (next == places.size() || static_cast<size_t>(places[next]) != place) {
        evictions->Evict(static_cast<int64_t>(list), cache.tokens[place]);
        continue;
      }
      ++next;
      left.tokens.push_back(cache.tokens[place]);
      left.mass.push_back(cache.mass[place]);
    }
    cache = std::move(left);
  }

  // Adds the step's attention over what is left; tokens that the model's own window has passed get none.
  void Attend(const DecodeStep& step, int64_t list) {
    Cache& cache = lists_[static_cast<size_t>(list)];
    std::vector<int32_t> seen;
    for (const int32_t token : cache.tokens) {
      if (token >= step.first_token) seen.push_back(token - step.first_token);
    }
    const AttentionProblem& problem = step.problem;
    internal::StepScores scores(problem, static_cast<int32_t>(list / problem.num_kv_heads),
                                static_cast<int32_t>(list % problem.num_kv_heads));
    scores.Score(seen);
    scores.Softmax();
    const std::vector<float> sums = scores.Sums();
    const size_t passed = cache.tokens.size() - seen.size();
    for (size_t i = 0; i < sums.size(); ++i) cache.mass[passed + i] += sums[i];
  }

  const MethodSpec& spec_;
  const ParameterValues values_;
  internal::PromptSums* const sums_;
  size_t local_ = 1;
  std::vector<size_t> budgets_;  // of each list
  std::vector<Cache> lists_;
  FirstRows first_rows_;
  int32_t end_ = 0;  // tokens of the sequence so far
};

class H2oMethod final : public DecodeMethod {
 public:
  H2oMethod() : spec_(H2oSpec()) {}
  const MethodSpec& spec() const override { return spec_; }
  int32_t PromptRows(const ParameterValues&) const override { return kAllRows; }
  PromptInputs Inputs(const ParameterValues& values) const override {
    return {.value_norms = internal::AsksForValueNorms(values)};
  }
  bool SharesLayerBudget(const ParameterValues& values) const override { return internal::SharesBudgetOfLayer(values); }
  std::unique_ptr<DecodePolicy> NewPolicy(const ParameterValues& values) const override {
    return std::make_unique<H2oPolicy>(spec_, values, &sums_);
  }

 private:
  const MethodSpec spec_;
  mutable internal::PromptSums sums_;
};

}  // namespace

const DecodeMethod& H2o() {
  static const H2oMethod method;
  return method;
}

}  // namespace headscope::kernels
