// SPDX-License-Identifier: Apache-2.0
// DuoAttention: retrieval heads attend to everything, streaming heads to sinks and a window.
//
// Source: DuoAttention: Efficient Long-Context LLM Inference with Retrieval and Streaming Heads, section 3, and its
// released code: a number in 0 .. 1 for every KV head, trained and given in a file of one line per layer; heads whose
// number is `threshold` at least attend to everything. With `sparsity` above 0 the threshold is that quantile of all
// numbers, interpolated, in its place. Sinks and window of the released patterns are 128 and 256.
//
// 64 query rows keep what the window of the first of them reaches back to, in blocks as the released kernel.
#include <algorithm>
#include <cmath>
#include <utility>

#include "head_groups.h"
#include "kernels/file_methods.h"
#include "registry.h"
#include "selector.h"

namespace headscope::kernels {
namespace {

constexpr int32_t kRows = 64;

MethodSpec MakeSpec(const std::string& name) {
  const auto tokens = [](const char* parameter, double value, const char* help) {
    return ParameterSpec{.name = parameter,
                         .default_value = value,
                         .minimum = 1,
                         .maximum = 1 << 20,
                         .step = 64,
                         .logarithmic = true,
                         .unit = Unit::kTokens,
                         .help = help,
                         .cost = "one more pair per row and token"};
  };
  return {
      .name = name,
      .title = "DuoAttention",
      .family = "static pattern",
      .paper = "DuoAttention: Efficient Long-Context LLM Inference with Retrieval and Streaming Heads, section 3",
      .summary = "Heads that a file names attend to everything, the others to sinks and a window.",
      .phase = Phase::kPrefill,
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
              tokens("n_sink", 128, "first tokens that a streaming head keeps"),
              tokens("n_local", 256, "newest tokens that a streaming head keeps"),
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

class DuoAttentionMethod final : public internal::PrefillSelector {
 public:
  DuoAttentionMethod(const std::string& name, int32_t num_layers, int32_t num_kv_heads, std::vector<double> values)
      : PrefillSelector(MakeSpec(name)),
        num_layers_(num_layers),
        num_kv_heads_(num_kv_heads),
        values_(std::move(values)) {
    for (double& value : values_) value = std::clamp(value, 0.0, 1.0);
  }

 private:
  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                SparseIndex* index) const override {
    if (problem.layer < 0 || problem.layer >= num_layers_) {
      return {StatusCode::kInvalidArgument, spec().name + ": the problem's layer is " + std::to_string(problem.layer) +
                                                ", and the file has lines for layers 0 to " +
                                                std::to_string(num_layers_ - 1) + ": take the model's own file"};
    }
    if (problem.first_kv_head + problem.num_kv_heads > num_kv_heads_) {
      return {StatusCode::kInvalidArgument, spec().name + ": the problem's last KV head is " +
                                                std::to_string(problem.first_kv_head + problem.num_kv_heads - 1) +
                                                ", and the file has " + std::to_string(num_kv_heads_) +
                                                " in a line: take the model's own file"};
    }
    const double sparsity = values.Real("sparsity");
    const double threshold = sparsity >= 1 ? 2 : sparsity > 0 ? Quantile(values_, sparsity) : values.Real("threshold");
    return internal::SelectByHead(
        problem, options,
        [&](const internal::HeadGroup& group, SparseIndexBuilder* builder) {
          const auto at =
              static_cast<size_t>(int64_t{problem.layer} * num_kv_heads_ + problem.first_kv_head + group.kv_head);
          for (int32_t i = 0; i < group.num_heads; ++i) AddLists(problem, values, values_[at] >= threshold, builder);
        },
        index);
  }

  static void AddLists(const AttentionProblem& problem, const ParameterValues& values, bool everything,
                       SparseIndexBuilder* builder) {
    for (int32_t tile = 0; tile < problem.seq_q; tile += 2 * kRows) {
      for (int32_t half = 0; half < 2 && tile + half * kRows < problem.seq_q; ++half) {
        const uint32_t flag = half == 0 ? kRunUpperHalf : kRunLowerHalf;
        const int64_t first = int64_t{problem.first_position} + tile + half * kRows;
        const int64_t window = everything ? 0 : first - values.Integer("n_local") + 1;
        builder->AddRange(0, values.Integer("n_sink"), flag);
        builder->AddRange(std::max<int64_t>(0, window), first + kRows, flag);
      }
      builder->FinishList();
    }
  }

  const int32_t num_layers_, num_kv_heads_;
  std::vector<double> values_;
};

}  // namespace

Status MakeDuoAttention(const std::string& name, int32_t num_layers, int32_t num_kv_heads, std::vector<double> values,
                        std::unique_ptr<PrefillMethod>* method) {
  if (num_layers < 1 || num_kv_heads < 1 || int64_t{num_layers} * num_kv_heads != static_cast<int64_t>(values.size()) ||
      !std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); }))
    return {StatusCode::kInvalidArgument, "values must be one finite number for every layer and KV head"};
  *method = std::make_unique<DuoAttentionMethod>(name, num_layers, num_kv_heads, std::move(values));
  return {};
}

}  // namespace headscope::kernels
