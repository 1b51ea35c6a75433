// SPDX-License-Identifier: Apache-2.0
// CurDKV: tokens whose key and value are large beside their neighbours' stay.
//
// Source: Value-Guided KV Compression for LLMs via Approximated CUR Decomposition, as the kvpress library has it
// (CURPress): the squared norm of a key stands for its leverage, and that of a value likewise; each is a share of its
// window's sum; a token's score is their product, and that a share of the head's sum. The random projection of keys and
// values, an option there that is off, is left out: its squared norms are these on average.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "internal/element.h"
#include "prompt_eviction.h"
#include "registry.h"

namespace headscope::kernels {
namespace {

enum class Leverage : uint8_t { kProduct, kMean, kKeys, kValues };

MethodSpec CurDkvSpec() {
  return {
      .name = "cur-dkv",
      .title = "CurDKV",
      .family = "cache eviction",
      .paper = "Value-Guided KV Compression for LLMs via Approximated CUR Decomposition, as in the kvpress library",
      .summary = "Evicts the prompt's tokens whose keys and values are small beside their neighbours'.",
      .always_keeps = "the first n_sink tokens, and all behind the prompt",
      .selection_cost = "the norms of the prompt's keys and values, S (d + d_v) elements a KV head, once",
      .phase = Phase::kDecode,
      .chosen_per = ChosenPer::kKvHead,
      .keeps_state = true,
      .needs_history = true,
      .reads_v = true,
      .kvpress = {{.name = "cur"}},
      .parameters = internal::WithEvictionParameters({
          {.name = "window",
           .default_value = 16,
           .minimum = 0,
           .maximum = 1 << 16,
           .step = 1,
           .logarithmic = true,
           .unit = Unit::kTokens,
           .help = "neighbours among which a squared norm is a share (0: squared norms as they are)",
           .cost = "large tokens that lie together compete less with each other"},
          internal::SinksThatStay(),
          {.name = "leverage",
           .type = ParameterType::kChoice,
           .maximum = 3,
           .help = "the score: product or mean of a token's shares of keys and of values, or one of them alone",
           .cost = "nothing",
           .choices = {"product", "mean", "keys", "values"}},
      }),
  };
}

// In place: each as a share of the sum of its window.
void ShareOfWindows(int32_t window, std::vector<double>* squares) {
  if (window == 0) return;
  for (auto begin = squares->begin(); begin != squares->end();) {
    const auto end = begin + std::min<std::ptrdiff_t>(window, squares->end() - begin);
    const double sum = std::accumulate(begin, end, 0.0);
    for (; begin != end; ++begin) *begin = sum > 0 ? *begin / sum : 0.0;
  }
}

double SquaredNorm(const StridedTensor<const void>& tensor, DType dtype, int64_t offset, std::vector<float>* row) {
  internal::LoadRow(tensor.data, dtype, offset, static_cast<int32_t>(row->size()), row->data());
  double square = 0;
  for (const float x : *row) square += static_cast<double>(x) * static_cast<double>(x);
  return square;
}

double Combined(Leverage leverage, double of_key, double of_value) {
  switch (leverage) {
    case Leverage::kProduct:
      return of_key * of_value;
    case Leverage::kMean:
      return (of_key + of_value) / 2;
    case Leverage::kKeys:
      return of_key;
    case Leverage::kValues:
      break;
  }
  return of_value;
}

class CurDkvMethod final : public internal::PromptEvictor {
 public:
  CurDkvMethod() : PromptEvictor(CurDkvSpec()) {}

  std::string ForcedBy() const override { return "n_sink"; }
  std::vector<float> Score(const internal::PromptHead& head, const ParameterValues& values) const override {
    const AttentionProblem& cache = head.prompt.cache;
    const auto num_tokens = static_cast<size_t>(head.NumTokens());
    std::vector<float> key(static_cast<size_t>(cache.head_dim)), value(static_cast<size_t>(cache.ValueDim()));
    std::vector<double> of_keys, of_values, leverage(num_tokens);
    for (int32_t token = 0; token < head.NumTokens(); ++token) {
      of_keys.push_back(SquaredNorm(cache.k, cache.dtype, head.KeyOffset(token), &key));
      of_values.push_back(SquaredNorm(cache.v, cache.dtype, head.ValueOffset(token), &value));
    }
    ShareOfWindows(values.Integer("window"), &of_keys);
    ShareOfWindows(values.Integer("window"), &of_values);
    for (size_t token = 0; token < num_tokens; ++token)
      leverage[token] = Combined(values.Choice<Leverage>("leverage"), of_keys[token], of_values[token]);
    const double sum = std::accumulate(leverage.begin(), leverage.end(), 0.0);
    std::vector<float> scores(num_tokens);
    for (size_t token = 0; token < num_tokens; ++token)
      scores[token] = sum > 0 ? static_cast<float>(leverage[token] / sum) : 0.0f;
    std::fill_n(scores.begin(), std::min(static_cast<size_t>(values.Integer("n_sink")), num_tokens),
                std::numeric_limits<float>::infinity());
    return scores;
  }
};

}  // namespace

const DecodeMethod& CurDkv() {
  static const CurDkvMethod method;
  return method;
}

}  // namespace headscope::kernels
