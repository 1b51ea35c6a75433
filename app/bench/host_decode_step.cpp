// SPDX-License-Identifier: Apache-2.0
#include "bench/host_decode_step.h"

#include <algorithm>
#include <cmath>

#include "base/check_status.h"
#include "bench/stored_numbers.h"
#include "kernels/contiguous.h"

namespace headscope::app::bench {
namespace {

// Of queries that no model turned: RoPE's usual theta, all components.
constexpr float kTheta = 10000;

// What RoPE made the rows [heads, rows, head_dim] of, whose first stands at first_position.
std::vector<float> TurnedBack(std::vector<float> values, int32_t rows, int32_t head_dim, int64_t first_position) {
  const int32_t half = head_dim / 2;
  std::vector<double> frequencies;
  for (int32_t i = 0; i < half; ++i) frequencies.push_back(std::pow(static_cast<double>(kTheta), -2.0 * i / head_dim));
  for (size_t row = 0; row < values.size() / static_cast<size_t>(head_dim); ++row) {
    const auto position = static_cast<double>(first_position + static_cast<int64_t>(row % static_cast<size_t>(rows)));
    float* const q = values.data() + row * static_cast<size_t>(head_dim);
    for (int32_t i = 0; i < half; ++i) {
      const double angle = position * frequencies[static_cast<size_t>(i)];
      const auto x = static_cast<double>(q[i]), y = static_cast<double>(q[half + i]);
      q[i] = static_cast<float>(x * std::cos(angle) + y * std::sin(angle));
      q[half + i] = static_cast<float>(y * std::cos(angle) - x * std::sin(angle));
    }
  }
  return values;
}

// L1 norms of every token's value, once for every query head: those of W_o v were W_o the identity. [batch,
// num_qo_heads, tokens].
std::vector<float> ValueNorms(const kernels::AttentionProblem& problem, int32_t tokens) {
  std::vector<float> norms;
  std::vector<float> value(static_cast<size_t>(problem.ValueDim()));
  const int64_t size = kernels::SizeOf(problem.dtype);
  for (int32_t sequence = 0; sequence < problem.batch; ++sequence) {
    for (int32_t head = 0; head < problem.num_qo_heads; ++head) {
      const int64_t first = sequence * problem.v.batch_stride + head / problem.GroupSize() * problem.v.head_stride;
      for (int32_t token = 0; token < tokens; ++token) {
        LoadNumbers(static_cast<const char*>(problem.v.data) + (first + token * problem.v.row_stride) * size,
                    problem.dtype, &value);
        double sum = 0;
        for (const float x : value) sum += std::abs(static_cast<double>(x));
        norms.push_back(static_cast<float>(sum));
      }
    }
  }
  return norms;
}

}  // namespace

HostDecodeStep::HostDecodeStep(const kernels::DecodeMethod& method, const kernels::ParameterValues& values,
                               const PlacedProblem& placed, const kernels::AttentionProblem& problem,
                               const kernels::RunOptions& options)
    : placed_(placed),
      step_{.problem = problem},
      options_(options),
      inputs_(method.Inputs(values)),
      driver_(method, values) {
  constexpr int32_t kAboveAllLayers = 1 << 20;
  const std::vector<int32_t> lower = method.LowerLayers(values, kAboveAllLayers);
  chooses_from_prompt_ = method.NeedsHistory(values) && lower.empty() && !method.IsDenseLayer(values, problem.layer);
  // In the layers that choose for those above them, such a method costs what dense attention does.
  for (const int32_t layer : lower) {
    layer_ = layer;
    Prepare();
    chosen_below_.push_back(std::make_unique<kernels::DecodeSelection>());
    CheckStatus(driver_.Step(step_, options_, chosen_below_.back().get()));
    lower_layers_.resize(std::max(lower_layers_.size(), static_cast<size_t>(layer) + 1));
    lower_layers_[static_cast<size_t>(layer)] = chosen_below_.back().get();
  }
  step_.lower_layers = lower_layers_;
  layer_ = lower.empty() ? std::max(0, problem.layer) : kAboveAllLayers;  // -1: of no model
  Prepare();
}

void HostDecodeStep::Prepare() {
  // Most methods that look at the prompt's queries want its last 64; a few want all, which may be gigabytes.
  constexpr int32_t kUsualRows = 64;
  const int32_t all = step_.problem.seq_k - 1;
  kernels::Status status = Begin(query_rows_ > 0 ? query_rows_ : std::min(kUsualRows, all));
  if (status.code() == kernels::StatusCode::kUnsupported && query_rows_ < all) status = Begin(all);
  CheckStatus(status);
  CheckStatus(driver_.Append(step_, options_));
}

kernels::Status HostDecodeStep::Begin(int32_t query_rows) {
  const kernels::AttentionProblem& problem = step_.problem;
  if (query_rows != query_rows_ && query_rows > 0) {
    queries_.resize(static_cast<size_t>(int64_t{problem.batch} * problem.num_qo_heads * query_rows * problem.head_dim *
                                        kernels::SizeOf(problem.dtype)));
    placed_.prompt_queries(query_rows, queries_.data());
    if (inputs_.q_pre_rope) {
      std::vector<float> turned(queries_.size() / static_cast<size_t>(kernels::SizeOf(problem.dtype)));
      LoadNumbers(queries_.data(), problem.dtype, &turned);
      before_rope_.resize(queries_.size());
      StoreNumbers(TurnedBack(std::move(turned), query_rows, problem.head_dim, int64_t{problem.seq_k} - 1 - query_rows),
                   problem.dtype, before_rope_.data());
    }
  }
  query_rows_ = query_rows;
  kernels::DecodePrompt prompt;
  prompt.cache = problem;
  prompt.layer = layer_;
  --prompt.cache.seq_k;
  prompt.cache.seq_q = query_rows;
  prompt.cache.first_position = prompt.cache.seq_k - query_rows;
  prompt.cache.window = placed_.window;
  prompt.cache.q =
      kernels::ContiguousTensor<const void>(queries_.data(), problem.num_qo_heads, query_rows, problem.head_dim);
  prompt.capacity = problem.seq_k;
  if (inputs_.q_pre_rope) {
    prompt.q_pre_rope =
        kernels::ContiguousTensor<const void>(before_rope_.data(), problem.num_qo_heads, query_rows, problem.head_dim);
    prompt.rope.theta = kTheta;
  }
  if (inputs_.value_norms) {
    const int32_t tokens = prompt.cache.seq_k;
    if (value_norms_.empty()) value_norms_ = ValueNorms(problem, tokens);
    prompt.value_norms = value_norms_.data();
    prompt.value_norms_head_stride = tokens;
    prompt.value_norms_batch_stride = int64_t{problem.num_qo_heads} * tokens;
  }
  return driver_.Begin(prompt, options_);
}

void HostDecodeStep::ChooseFromPrompt() {
  CheckStatus(Begin(query_rows_));
}

const kernels::DecodeSelection& HostDecodeStep::Select() {
  CheckStatus(driver_.Step(step_, options_, &selection_));
  return selection_;
}

}  // namespace headscope::app::bench
