// SPDX-License-Identifier: Apache-2.0
// DuoAttention: retrieval heads attend to everything, streaming heads to sinks and a window.
//
// Source: DuoAttention: Efficient Long-Context LLM Inference with Retrieval and Streaming Heads, section 3, and its
// released code: a number in 0 .. 1 for every KV head, trained and given in a file of one line per layer; heads whose
// number is `threshold` at least attend to everything. With `sparsity` above 0 the threshold is that quantile of all
// numbers, interpolated, in its place. Sinks and window are 128 and 256, as in the released patterns for Llama 3.1, or
// what the file beside the pattern says.
//
// Of a prompt, 64 query rows keep what the window of the first of them reaches back to, in blocks as the released
// kernel; a decode step keeps the first n_sink and the newest n_local tokens, its own among them.
#include <algorithm>
#include <cmath>
#include <utility>

#include "head_groups.h"
#include "kernels/file_methods.h"
#include "registry.h"
#include "selector.h"
#include "step_scores.h"

namespace headscope::kernels {
namespace {

constexpr int32_t kHalfTile = 64;

MethodSpec DuoAttentionSpec(const std::string& name, Phase phase, StreamingTokens streaming) {
  const auto tokens = [phase](const char* parameter, double value, const char* help) {
    return ParameterSpec{.name = parameter,
                         .default_value = value,
                         .minimum = 1,
                         .maximum = 1 << 20,
                         .step = 64,
                         .logarithmic = true,
                         .unit = Unit::kTokens,
                         .help = help,
                         .cost = phase == Phase::kPrefill ? "one more pair per row and token"
                                                          : "one more key and value to read per token"};
  };
  return {
      .name = name,
      .title = "DuoAttention",
      .family = "static pattern",
      .paper = "DuoAttention: Efficient Long-Context LLM Inference with Retrieval and Streaming Heads, section 3",
      .summary = "Heads that a file names attend to everything, the others to sinks and a window.",
      .always_keeps = "n_sink first and n_local newest tokens of every head; all of those that the file names",
      .selection_cost = "nothing",
      .phase = phase,
      // Sinks and window are those of the pattern's own file.
      .kvpress = phase == Phase::kPrefill
                     ? std::vector<KvpressEntry>()
                     : std::vector<KvpressEntry>{{.name = "duo_attention",
                                                  .given = {"threshold", "sparsity", "n_sink", "n_local"}}},
      .parameters =
          {
              {.name = "threshold",
               .type = ParameterType::kReal,
               .default_value = 0.5,
               .step = 0.05,
               .help = "lowest number with which a head attends to everything",
               .cost = "more heads stream"},
              {.name = "sparsity",
               .type = ParameterType::kReal,
               .step = 0.05,
               .help = "share of the heads that stream, instead of threshold (0: set by threshold)",
               .cost = "more heads stream"},
              tokens("n_sink", streaming.sink, "first tokens that a streaming head keeps"),
              tokens("n_local", streaming.local, "newest tokens that a streaming head keeps"),
          },
  };
}

// As NumPy interpolates it.
double Quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double place = share * static_cast<double>(values.size() - 1);
  const auto low = static_cast<size_t>(place), high = std::min(low + 1, values.size() - 1);
  return values[low] + (place - std::floor(place)) * (values[high] - values[low]);
}

// A number for every KV head of a model.
class HeadShares {
 public:
  HeadShares(int32_t num_layers, int32_t num_kv_heads, std::vector<double> values)
      : num_layers_(num_layers), num_kv_heads_(num_kv_heads), values_(std::move(values)) {
    for (double& value : values_) value = std::clamp(value, 0.0, 1.0);
  }

  // The problem's KV heads that attend to everything, in order; the others stream.
  Status Retrieving(const AttentionProblem& problem, const std::string& method, const ParameterValues& values,
                    std::vector<bool>* retrieving) const {
    if (problem.layer < 0) {
      return {StatusCode::kInvalidArgument, method +
                                                ": the problem is of no layer of a model, and the file has a line " +
                                                "for each layer: take the heads of a trace or a model"};
    }
    if (problem.layer >= num_layers_) {
      return {StatusCode::kInvalidArgument, method + ": the problem's layer is " + std::to_string(problem.layer) +
                                                ", and the file has lines for layers 0 to " +
                                                std::to_string(num_layers_ - 1) + ": take the model's own file"};
    }
    if (problem.first_kv_head + problem.num_kv_heads > num_kv_heads_) {
      return {StatusCode::kInvalidArgument, method + ": the problem's last KV head is " +
                                                std::to_string(problem.first_kv_head + problem.num_kv_heads - 1) +
                                                ", and the file has " + std::to_string(num_kv_heads_) +
                                                " in a line: take the model's own file"};
    }
    const double sparsity = values.Real("sparsity");
    const double threshold = sparsity >= 1 ? 2 : sparsity > 0 ? Quantile(values_, sparsity) : values.Real("threshold");
    const auto first = static_cast<size_t>(int64_t{problem.layer} * num_kv_heads_ + problem.first_kv_head);
    for (size_t head = 0; head < static_cast<size_t>(problem.num_kv_heads); ++head)
      retrieving->push_back(values_[first + head] >= threshold);
    return {};
  }

 private:
  int32_t num_layers_, num_kv_heads_;
  std::vector<double> values_;
};

class DuoAttentionMethod final : public internal::PrefillSelector {
 public:
  DuoAttentionMethod(const std::string& name, StreamingTokens streaming, HeadShares shares)
      : PrefillSelector(DuoAttentionSpec(name, Phase::kPrefill, streaming)), shares_(std::move(shares)) {}

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                SparseIndex* index) const override {
    std::vector<bool> retrieving;
    if (Status status = shares_.Retrieving(problem, spec().name, values, &retrieving); !status.ok()) return status;
    return internal::SelectByHead(
        problem, options,
        [&](const internal::HeadGroup& group, SparseIndexBuilder* builder) {
          for (int32_t i = 0; i < group.num_heads; ++i)
            AddLists(problem, values, retrieving[static_cast<size_t>(group.kv_head)], builder);
        },
        index);
  }

  static void AddLists(const AttentionProblem& problem, const ParameterValues& values, bool everything,
                       SparseIndexBuilder* builder) {
    for (int32_t tile = 0; tile < problem.seq_q; tile += 2 * kHalfTile) {
      for (int32_t half = 0; half < 2 && tile + half * kHalfTile < problem.seq_q; ++half) {
        const uint32_t flag = half == 0 ? kRunUpperHalf : kRunLowerHalf;
        const int64_t first = int64_t{problem.first_position} + tile + half * kHalfTile;
        const int64_t window = everything ? 0 : first - values.Integer("n_local") + 1;
        builder->AddRange(0, values.Integer("n_sink"), flag);
        builder->AddRange(std::max<int64_t>(0, window), first + kHalfTile, flag);
      }
      builder->FinishList();
    }
  }

  const HeadShares shares_;
};

class DuoAttentionDecodeMethod final : public internal::DecodeSelector {
 public:
  DuoAttentionDecodeMethod(const std::string& name, StreamingTokens streaming, HeadShares shares)
      : DecodeSelector(DuoAttentionSpec(name, Phase::kDecode, streaming)), shares_(std::move(shares)) {}

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions&,
                DecodeSelection* selection) const override {
    std::vector<bool> retrieving;
    if (Status status = shares_.Retrieving(problem, spec().name, values, &retrieving); !status.ok()) return status;
    const int32_t window_begin = std::max(0, problem.seq_k - values.Integer("n_local"));
    const int32_t sinks_end = std::min(values.Integer("n_sink"), window_begin);
    std::vector<std::vector<int32_t>> tokens;
    int64_t num_tokens = 0;
    for (int32_t sequence = 0; sequence < problem.batch; ++sequence) {
      for (const bool everything : retrieving) {
        std::vector<int32_t>& list = tokens.emplace_back();
        for (int32_t token = 0; token < problem.seq_k; ++token) {
          if (everything || token < sinks_end || token >= window_begin) list.push_back(token);
        }
        num_tokens += static_cast<int64_t>(list.size());
      }
    }
    *selection = internal::SelectionOfLists(problem, tokens);
    // Of K and V, and the new token's written: means over the KV heads.
    const auto num_lists = static_cast<int64_t>(tokens.size());
    selection->elements_moved = (num_tokens + num_lists) * (problem.head_dim + problem.ValueDim()) / num_lists;
    return {};
  }

  const HeadShares shares_;
};

}  // namespace

Status MakeDuoAttention(const std::string& name, int32_t num_layers, int32_t num_kv_heads, std::vector<double> values,
                        StreamingTokens streaming, std::unique_ptr<PrefillMethod>* prefill,
                        std::unique_ptr<DecodeMethod>* decode) {
  if (num_layers < 1 || num_kv_heads < 1 || int64_t{num_layers} * num_kv_heads != static_cast<int64_t>(values.size()) ||
      !std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); }))
    return {StatusCode::kInvalidArgument, "values must be one finite number for every layer and KV head"};
  const HeadShares shares(num_layers, num_kv_heads, std::move(values));
  *prefill = std::make_unique<DuoAttentionMethod>(name, streaming, shares);
  *decode = std::make_unique<DuoAttentionDecodeMethod>(name, streaming, shares);
  return {};
}

}  // namespace headscope::kernels
