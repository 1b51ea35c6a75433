// SPDX-License-Identifier: Apache-2.0
// InfLLM over a prompt: chunks of rows attend to sinks, to a window and to the units of the past that match best.
//
// Source: InfLLM: Training-Free Long-Context Extrapolation for LLMs with an Efficient Context Memory, section 3, as
// MInference 1.0 compares with it (section 4: in the prompt alone, 128 global tokens and a window of 8192). What lies
// between the first `n_init` tokens and the window is cut into units of `block_size` tokens, each stood for by its
// `n_repr` tokens with the largest mean of q.k over the n_local queries behind them; the prompt is read in chunks of
// rows, and a chunk looks up the `top_k` units whose representatives have the largest sum of q.k over the chunk's
// queries. Every row attends besides to the first tokens and to all behind the last whole unit that had left the window
// when the chunk began, which is its window and what fills no unit yet.
//
// Choices where the paper is silent: a query head chooses by its own queries, as the paper's formulas have it (the
// released code adds the heads of a layer unless told otherwise); chunks are of 512 rows, as in the released settings,
// from the first row of a pass on; of a prompt whose last rows alone are there, queries that are not there score
// nothing. A prompt in several passes has the queries of the earlier ones. Positions are those of the recording.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common_parameters.h"
#include "head_groups.h"
#include "internal/element.h"
#include "kernels/prompt_passes.h"
#include "registry.h"
#include "selector.h"
#include "top_k.h"

namespace headscope::kernels {
namespace {

constexpr int32_t kChunkBlock = 64;  // rows: a list of the index belongs to as many

MethodSpec InfllmPrefillSpec() {
  std::vector<ParameterSpec> parameters = internal::InfLlmParameters(
      8192, {.n_init_help = "first tokens that every row keeps",
             .n_local_help = "newest tokens that every row keeps; queries that score a token (InfLLM's own: 4096)",
             .top_k_help = "units that a chunk looks up",
             .per_token = "one more pair per row and token",
             .per_unit = "block_size more pairs per row and unit",
             .representatives = "nothing that a large prompt would show"});
  parameters.push_back({.name = "chunk",
                        .default_value = 8,
                        .minimum = 1,
                        .maximum = 1 << 14,
                        .logarithmic = true,
                        .unit = Unit::kBlocks,
                        .help = "rows that look up units together, in blocks of 64",
                        .cost = "fewer look-ups, each for more rows",
                        .tokens_per_unit = kChunkBlock});
  return {
      .name = "infllm-prefill",
      .title = "InfLLM (prompt)",
      .family = "dynamic pattern",
      .paper =
          "InfLLM: Training-Free Long-Context Extrapolation for LLMs with an Efficient Context Memory, section 3; "
          "MInference 1.0, section 4",
      .summary = "Keeps first and newest tokens, and the units of the past whose representatives match a chunk best.",
      .always_keeps = "the first n_init and the newest n_local tokens, and those that fill no unit yet",
      .selection_cost =
          "a product of every key with a sum of queries, 2 S d FLOPs, and of every chunk with every unit, a head",
      .phase = Phase::kPrefill,
      .chosen_per = ChosenPer::kQueryHead,
      .parameters = std::move(parameters),
  };
}

// The units of a query head that passes have closed: nothing behind changes what stands for them.
struct ClosedUnits {
  std::vector<double> representatives;  // [units, head_dim]: sums of the keys that stand for a unit
  std::vector<double> queries;          // the sum of the n_local ones from the next unit's first token on
};
struct KeptUnits final : KeptOfPasses {
  std::string of;                  // the values that they are of
  std::vector<ClosedUnits> heads;  // [batch * num_qo_heads]
};

class InfLlmPrefillHead {
 public:
  InfLlmPrefillHead(const EarlierQueries& earlier, const AttentionProblem& problem, const ParameterValues& values,
                    const RunOptions& options, int32_t sequence, int32_t kv_head, std::vector<ClosedUnits>* closed)
      : earlier_(earlier),
        problem_(problem),
        options_(options),
        block_(values.Integer("block_size")),
        n_init_(values.Integer("n_init")),
        n_local_(values.Integer("n_local")),
        top_k_(values.Integer("top_k")),
        n_repr_(values.Integer("n_repr")),
        chunk_rows_(values.Integer("chunk") * kChunkBlock),
        sequence_(sequence),
        width_(static_cast<size_t>(problem.head_dim)),
        keys_(sequence * problem.k.batch_stride + kv_head * problem.k.head_stride),
        closed_(*closed) {}

  void AddLists(int32_t head, SparseIndexBuilder* builder) {
    queries_ = sequence_ * problem_.q.batch_stride + head * problem_.q.head_stride;
    earlier_queries_ = sequence_ * earlier_.q.batch_stride + head * earlier_.q.head_stride;
    ClosedUnits& closed = closed_[static_cast<size_t>(sequence_) * static_cast<size_t>(problem_.num_qo_heads) +
                                  static_cast<size_t>(head)];
    CloseUnits(&closed);
    std::vector<std::vector<int32_t>> units;  // of each chunk
    for (int64_t row = 0; row < problem_.seq_q; row += chunk_rows_) {
      if (options_.stop.stop_requested()) return;
      units.push_back(UnitsOf(static_cast<int32_t>(row), closed.representatives));
    }
    for (int32_t tile = 0; tile < problem_.seq_q; tile += 2 * kChunkBlock) {
      for (int32_t half = 0; half < 2 && tile + half * kChunkBlock < problem_.seq_q; ++half) {
        const int32_t row = tile + half * kChunkBlock;
        const int64_t chunk = row / chunk_rows_;
        const uint32_t flag = half == 0 ? kRunUpperHalf : kRunLowerHalf;
        builder->AddRange(0, n_init_, flag);
        for (const int64_t unit : units[static_cast<size_t>(chunk)])
          builder->AddRange(n_init_ + unit * block_, n_init_ + (unit + 1) * block_, flag);
        builder->AddRange(n_init_ + NumUnits(chunk * chunk_rows_) * block_, problem_.first_position + row + kChunkBlock,
                          flag);
      }
      builder->FinishList();
    }
  }

 private:
  // Units whose tokens have all left the window of the row at which a chunk begins.
  int64_t NumUnits(int64_t row) const {
    return std::max<int64_t>(0, problem_.first_position + row + 1 - n_local_ - n_init_) / block_;
  }

  void Load(const StridedTensor<const void>& tensor, int64_t offset, int64_t row) {
    row_.resize(width_);
    internal::LoadRow(tensor.data, problem_.dtype, offset + row * tensor.row_stride, problem_.head_dim, row_.data());
  }
  void AddQuery(int64_t position, double sign, std::vector<double>* sum) {
    if (position >= problem_.first_position) {
      Load(problem_.q, queries_, position - problem_.first_position);
    } else if (const int64_t row = position - earlier_.first_position; row >= 0 && row < earlier_.num_rows) {
      Load(earlier_.q, earlier_queries_, row);
    } else {
      return;
    }
    for (size_t d = 0; d < width_; ++d) (*sum)[d] += sign * static_cast<double>(row_[d]);
  }
  double DotKey(const std::vector<double>& sum, int64_t token) {
    Load(problem_.k, keys_, token);
    double dot = 0;
    for (size_t d = 0; d < width_; ++d) dot += sum[d] * static_cast<double>(row_[d]);
    return dot;
  }

  // What stands for the units that some chunk may look up and no pass before has closed. q.k summed over the n_local
  // queries behind a token is the product with their sum, which slides over the prompt; all of them are there when a
  // unit has left the window.
  void CloseUnits(ClosedUnits* closed) {
    const int64_t last_chunk = (problem_.seq_q - 1) / chunk_rows_ * chunk_rows_, num_units = NumUnits(last_chunk);
    if (top_k_ == 0) return;
    std::vector<double>& representatives = closed->representatives;
    auto unit = static_cast<int64_t>(representatives.size() / width_);
    if (unit >= num_units) return;
    std::vector<double>& sum = closed->queries;
    if (unit == 0) {
      sum.assign(width_, 0.0);
      for (int64_t position = n_init_; position < n_init_ + n_local_; ++position) AddQuery(position, 1, &sum);
    }
    representatives.resize(static_cast<size_t>(num_units) * width_, 0.0);
    std::vector<float> scores(static_cast<size_t>(block_));
    for (; unit < num_units && !options_.stop.stop_requested(); ++unit) {
      const int64_t begin = n_init_ + unit * block_;
      for (int64_t token = begin; token < begin + block_; ++token) {
        AddQuery(token, -1, &sum);
        AddQuery(token + n_local_, 1, &sum);
        scores[static_cast<size_t>(token - begin)] = static_cast<float>(DotKey(sum, token));
      }
      for (const int32_t place : internal::TopK(scores, n_repr_)) {
        Load(problem_.k, keys_, begin + place);
        for (size_t d = 0; d < width_; ++d)
          representatives[static_cast<size_t>(unit) * width_ + d] += static_cast<double>(row_[d]);
      }
    }
  }

  // The best units of the chunk that begins with this row.
  std::vector<int32_t> UnitsOf(int32_t row, const std::vector<double>& representatives) {
    const int64_t num_units = NumUnits(row);
    if (num_units == 0 || top_k_ == 0) return {};
    std::vector<double> sum(width_, 0.0);
    const int64_t end = std::min(int64_t{row} + chunk_rows_, int64_t{problem_.seq_q});
    for (int64_t i = row; i < end; ++i) AddQuery(problem_.first_position + i, 1, &sum);
    std::vector<float> scores(static_cast<size_t>(num_units));
    for (size_t unit = 0; unit < scores.size(); ++unit) {
      double score = 0;
      for (size_t d = 0; d < width_; ++d) score += sum[d] * representatives[unit * width_ + d];
      scores[unit] = static_cast<float>(score);
    }
    return internal::TopK(scores, top_k_);
  }

  const EarlierQueries& earlier_;
  const AttentionProblem& problem_;
  const RunOptions& options_;
  const int64_t block_, n_init_, n_local_;
  const int32_t top_k_, n_repr_;
  const int64_t chunk_rows_;
  const int32_t sequence_;
  const size_t width_;
  const int64_t keys_;   // element of the KV head's first key
  int64_t queries_ = 0;  // of the query head's first query
  int64_t earlier_queries_ = 0;
  std::vector<ClosedUnits>& closed_;
  std::vector<float> row_;
};

class InfLlmPrefillMethod final : public internal::PrefillSelector, public GoesByEarlierQueries {
 public:
  explicit InfLlmPrefillMethod(const EarlierQueries& earlier = {})
      : PrefillSelector(InfllmPrefillSpec()), earlier_(earlier) {}

  Status SelectBehind(const EarlierQueries& earlier, const AttentionProblem& problem, const ParameterValues& values,
                      const RunOptions& options, SparseIndex* index) const override {
    return InfLlmPrefillMethod(earlier).Select(problem, values, options, index);
  }

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                SparseIndex* index) const override {
    KeptUnits of_this_pass;
    KeptUnits* units = &of_this_pass;
    if (earlier_.kept != nullptr) {
      units = dynamic_cast<KeptUnits*>(earlier_.kept->get());
      // A prompt of another length may have other values, and another method its own state.
      const std::string of = values.ToString(spec());
      if (units == nullptr || units->of != of) {
        auto made = std::make_unique<KeptUnits>();
        made->of = of;
        units = made.get();
        *earlier_.kept = std::move(made);
      }
    }
    units->heads.resize(static_cast<size_t>(problem.batch) * static_cast<size_t>(problem.num_qo_heads));
    return internal::SelectByHead(
        problem, options,
        [&](const internal::HeadGroup& group, SparseIndexBuilder* builder) {
          InfLlmPrefillHead head(earlier_, problem, values, options, group.sequence, group.kv_head, &units->heads);
          for (int32_t i = 0; i < group.num_heads && !options.stop.stop_requested(); ++i)
            head.AddLists(group.first_head + i, builder);
        },
        index);
  }

  const EarlierQueries earlier_;
};

}  // namespace

const PrefillMethod& InfLlmPrefill() {
  static const InfLlmPrefillMethod method;
  return method;
}

}  // namespace headscope::kernels
