// SPDX-License-Identifier: Apache-2.0
// Expected Attention: tokens that future queries will most likely attend to stay.
//
// Source: Expected Attention: KV Cache Compression by Estimating Attention from Future Queries Distribution, section 3,
// and the kvpress library's press: mean and covariance of the prompt's queries before RoPE, the sinks' left out, are
// turned by RoPE's matrix averaged over the next `n_future` positions; were future queries normal with these, a key's
// expected weight is exp(mu.k scale + k'Ck scale^2 / 2), softmaxed over the tokens behind the sinks, averaged over the
// group, and (with `epsilon` added) multiplied by the value's norm. Sinks stay.
#include <cmath>
#include <limits>
#include <numeric>
#include <stop_token>

#include "internal/element.h"
#include "key_blocks.h"
#include "prompt_eviction.h"
#include "registry.h"

namespace headscope::kernels {
namespace {

MethodSpec ExpectedAttentionSpec() {
  const auto flag = [](const char* name, const char* help) {
    return ParameterSpec{
        .name = name, .type = ParameterType::kFlag, .default_value = 1, .help = help, .cost = "nothing"};
  };
  return {
      .name = "expected-attention",
      .title = "Expected Attention",
      .family = "cache eviction",
      .paper =
          "Expected Attention: KV Cache Compression by Estimating Attention from Future Queries Distribution, section "
          "3",
      .summary = "Evicts the prompt's tokens that queries like its own will attend to least.",
      .always_keeps = "the first n_sink tokens, and all behind the prompt",
      .selection_cost =
          "the mean and covariance of the prompt's queries, S d^2 FLOPs, and their products with every key, as many, a "
          "query head, once",
      .phase = Phase::kDecode,
      .chosen_per = ChosenPer::kKvHead,
      .keeps_state = true,
      .needs_history = true,
      .reads_v = true,
      .kvpress = {{.name = "expected_attention", .values = "allocation=kvpress,epsilon=0.01"},
                  {.name = "critical_expected_attention", .values = "critical=1,value_norm=0"},
                  {.name = "critical_adakv_expected_attention",
                   .values = "critical=1,value_norm=0,allocation=kvpress"}},
      .parameters = internal::WithEvictionParameters({
          {.name = "n_future",
           .default_value = 512,
           .minimum = 1,
           .maximum = 1 << 20,
           .step = 64,
           .logarithmic = true,
           .unit = Unit::kTokens,
           .help = "positions after the prompt over which RoPE is averaged",
           .cost = "components that rotate fast count less"},
          {.name = "n_sink",
           .default_value = 4,
           .minimum = 0,
           .maximum = 1 << 16,
           .unit = Unit::kTokens,
           .help = "first tokens that stay, and whose queries are left out",
           .cost = "takes places from other tokens"},
          flag("covariance", "use the queries' covariance, not only their mean"),
          flag("value_norm", "multiply by the norm of the value"),
          {.name = "epsilon",
           .type = ParameterType::kReal,
           .step = 0.001,
           .help = "added to the share before it is multiplied (0.01 to 0.02 with AdaKV)",
           .cost = "keeps large values however little attention they get"},
      }),
  };
}

// A head's statistics, turned by a matrix of 2 x 2 blocks.
class QueryStatistics {
 public:
  // Of no use once `stop` is requested.
  QueryStatistics(const DecodePrompt& prompt, int32_t sequence, int32_t qo_head, int32_t skipped, bool covariance,
                  const std::stop_token& stop)
      : width_(static_cast<size_t>(prompt.cache.head_dim)), mean_(width_, 0.0) {
    const AttentionProblem& cache = prompt.cache;
    const StridedTensor<const void>& q = prompt.q_pre_rope;
    const int64_t offset = sequence * q.batch_stride + qo_head * q.head_stride;
    // The first recorded rows may stand behind the sinks.
    const int32_t begin = std::max(0, skipped - (cache.seq_k - cache.seq_q));
    const auto count = static_cast<double>(cache.seq_q - begin);
    std::vector<float> row(width_);
    for (int32_t r = begin; r < cache.seq_q; ++r) {
      internal::LoadRow(q.data, cache.dtype, offset + r * q.row_stride, cache.head_dim, row.data());
      for (size_t d = 0; d < width_; ++d) mean_[d] += static_cast<double>(row[d]) / count;
    }
    if (!covariance) return;
    covariance_.assign(width_ * width_, 0.0);
    std::vector<double> centred(width_);
    for (int32_t r = begin; r < cache.seq_q && !stop.stop_requested(); ++r) {
      internal::LoadRow(q.data, cache.dtype, offset + r * q.row_stride, cache.head_dim, row.data());
      for (size_t d = 0; d < width_; ++d) centred[d] = static_cast<double>(row[d]) - mean_[d];
      for (size_t i = 0; i < width_; ++i) {
        for (size_t j = 0; j <= i; ++j) covariance_[i * width_ + j] += centred[i] * centred[j] / count;
      }
    }
    for (size_t i = 0; i < width_; ++i) {
      for (size_t j = 0; j < i; ++j) covariance_[j * width_ + i] = covariance_[i * width_ + j];
    }
  }

  // mean -> R mean, C -> R C R'. R turns components a and b: a cos - b sin, b cos + a sin.
  void Turn(size_t a, size_t b, double cosine, double sine) {
    const auto turn = [&](double* values, size_t stride, size_t count, size_t step) {
      for (size_t i = 0; i < count; ++i) {
        double &x = values[a * stride + i * step], &y = values[b * stride + i * step];
        const double turned = x * cosine - y * sine;
        y = y * cosine + x * sine;
        x = turned;
      }
    };
    turn(mean_.data(), 1, 1, 0);
    if (covariance_.empty()) return;
    turn(covariance_.data(), width_, width_, 1);
    turn(covariance_.data(), 1, width_, width_);
  }

  double Exponent(const float* key, double scale) const {
    double first = 0, second = 0;
    for (size_t i = 0; i < width_; ++i) first += mean_[i] * static_cast<double>(key[i]);
    for (size_t i = 0; i < width_ && !covariance_.empty(); ++i) {
      double row = 0;
      for (size_t j = 0; j < width_; ++j) row += covariance_[i * width_ + j] * static_cast<double>(key[j]);
      second += row * static_cast<double>(key[i]);
    }
    return scale * first + scale * scale * second / 2;
  }

 private:
  const size_t width_;
  std::vector<double> mean_, covariance_;
};

class ExpectedAttentionMethod final : public internal::PromptEvictor {
 public:
  ExpectedAttentionMethod() : PromptEvictor(ExpectedAttentionSpec()) {}
  int32_t PromptRows(const ParameterValues&) const override { return kAllRows; }
  PromptInputs Inputs(const ParameterValues& values) const override {
    PromptInputs inputs = PromptEvictor::Inputs(values);
    inputs.q_pre_rope = true;
    return inputs;
  }
  std::string ForcedBy() const override { return "n_sink"; }

  Status CheckPrompt(const DecodePrompt& prompt, const ParameterValues& values) const override {
    const AttentionProblem& cache = prompt.cache;
    if (cache.seq_q > 0 && cache.seq_k <= values.Integer("n_sink")) return {};  // nothing is judged
    if (cache.seq_q == 0 || prompt.q_pre_rope.data == nullptr) {
      return {
          StatusCode::kUnsupported,
          spec().name +
              " rotates the prompt's queries itself, and the trace has none from before RoPE that it could rotate: "
              "capture again with pre-rope recorded, or, for a model that normalises its queries after RoPE, choose "
              "another method"};
    }
    if (!(prompt.rope.theta > 0)) {
      return {StatusCode::kUnsupported, spec().name + " rotates queries by the layer's RoPE, whose theta is not known"};
    }
    if (cache.seq_q + std::min(0, cache.seq_k - cache.seq_q - values.Integer("n_sink")) <= 0) {
      return {StatusCode::kUnsupported, spec().name + " leaves out the queries of the first n_sink tokens, and the " +
                                            std::to_string(cache.seq_q) + " at hand are among them: lower n_sink"};
    }
    return CheckRotation(prompt);
  }

  float UnitOfScores() const override { return kUnit; }
  std::vector<float> Score(const internal::PromptHead& head, const ParameterValues& values) const override {
    const DecodePrompt& prompt = head.prompt;
    const AttentionProblem& cache = prompt.cache;
    const auto tokens = static_cast<size_t>(head.NumTokens());
    const size_t sinks = std::min(static_cast<size_t>(values.Integer("n_sink")), tokens);
    if (sinks == tokens) return std::vector<float>(tokens, std::numeric_limits<float>::infinity());
    const auto scale = static_cast<double>(cache.EffectiveScale());
    std::vector<double> mean(tokens, 0.0), exponents(tokens, 0.0);
    std::vector<float> key(static_cast<size_t>(cache.head_dim)), value(static_cast<size_t>(cache.ValueDim()));
    for (int32_t i = 0; i < cache.GroupSize(); ++i) {
      QueryStatistics statistics(prompt, head.sequence, head.kv_head * cache.GroupSize() + i,
                                 static_cast<int32_t>(sinks), values.Flag("covariance"), head.stop);
      TurnToFuture(prompt, values.Integer("n_future"), &statistics);
      double top = -std::numeric_limits<double>::infinity(), total = 0;
      for (size_t token = sinks; token < tokens && !head.stop.stop_requested(); ++token) {
        internal::LoadRow(cache.k.data, cache.dtype, head.KeyOffset(static_cast<int32_t>(token)), cache.head_dim,
                          key.data());
        exponents[token] = statistics.Exponent(key.data(), scale);
        top = std::max(top, exponents[token]);
      }
      if (head.stop.stop_requested()) return {};
      for (size_t token = sinks; token < tokens; ++token) total += std::exp(exponents[token] - top);
      for (size_t token = sinks; token < tokens; ++token)
        mean[token] += std::exp(exponents[token] - top) / total / cache.GroupSize();
    }
    std::vector<float> scores(tokens, std::numeric_limits<float>::infinity());
    for (size_t token = sinks; token < tokens; ++token) {
      double norm = 1;
      if (values.Flag("value_norm")) {
        internal::LoadRow(cache.v.data, cache.dtype, head.ValueOffset(static_cast<int32_t>(token)), cache.ValueDim(),
                          value.data());
        norm = std::sqrt(std::inner_product(value.begin(), value.end(), value.begin(), 0.0));
      }
      scores[token] = static_cast<float>((mean[token] + values.Real("epsilon")) * norm * double{kUnit});
    }
    return scores;
  }

 private:
  // Shares may lie below what a float holds.
  static constexpr float kUnit = 0x1p60f;

  struct Pair {
    size_t a, b;
    double frequency;
  };
  static std::vector<Pair> PairsOf(const DecodePrompt& prompt) {
    const RopeRotation& rope = prompt.rope;
    const int32_t dims = rope.num_dims > 0 ? rope.num_dims : prompt.cache.head_dim;
    std::vector<Pair> pairs;
    for (int32_t i = 0; i < dims / 2; ++i) {
      const int32_t a = rope.first_dim + (rope.interleaved ? 2 * i : i);
      const int32_t b = rope.interleaved ? a + 1 : a + dims / 2;
      pairs.push_back(
          {static_cast<size_t>(a), static_cast<size_t>(b), std::pow(static_cast<double>(rope.theta), -2.0 * i / dims)});
    }
    return pairs;
  }

  static void TurnToFuture(const DecodePrompt& prompt, int32_t n_future, QueryStatistics* statistics) {
    const int64_t first = int64_t{prompt.first_token} + prompt.cache.seq_k;
    for (const Pair& pair : PairsOf(prompt)) {
      double cosine = 0, sine = 0;
      for (int32_t i = 0; i < n_future; ++i) {
        const double angle = static_cast<double>(first + i) * pair.frequency;
        cosine += std::cos(angle) / n_future;
        sine += std::sin(angle) / n_future;
      }
      const auto factor = static_cast<double>(prompt.rope.attention_factor);
      statistics->Turn(pair.a, pair.b, cosine * factor, sine * factor);
    }
  }

  // The newest recorded query, turned as the facts say, must be the one after RoPE: frequencies may have been scaled
  // for long prompts, which a trace does not say.
  Status CheckRotation(const DecodePrompt& prompt) const {
    const AttentionProblem& cache = prompt.cache;
    const RopeRotation& rope = prompt.rope;
    const int32_t dims = rope.num_dims > 0 ? rope.num_dims : cache.head_dim;
    if (rope.first_dim < 0 || dims % 2 != 0 || int64_t{rope.first_dim} + dims > cache.head_dim) {
      return {StatusCode::kInvalidArgument, spec().name + ": RoPE rotates components " +
                                                std::to_string(rope.first_dim) + " to " +
                                                std::to_string(rope.first_dim + dims) + " of a head of " +
                                                std::to_string(cache.head_dim) + "; an even number of them must fit"};
    }
    const auto width = static_cast<size_t>(cache.head_dim);
    std::vector<float> before(width), after(width);
    internal::LoadRow(prompt.q_pre_rope.data, cache.dtype, (cache.seq_q - 1) * prompt.q_pre_rope.row_stride,
                      cache.head_dim, before.data());
    internal::LoadRow(cache.q.data, cache.dtype, (cache.seq_q - 1) * cache.q.row_stride, cache.head_dim, after.data());
    const auto position = static_cast<double>(prompt.first_token + cache.seq_k - 1);
    double difference = 0, size = 0;
    for (const Pair& pair : PairsOf(prompt)) {
      const double cosine = std::cos(position * pair.frequency) * static_cast<double>(rope.attention_factor);
      const double sine = std::sin(position * pair.frequency) * static_cast<double>(rope.attention_factor);
      const auto x = static_cast<double>(before[pair.a]), y = static_cast<double>(before[pair.b]);
      const auto to_x = static_cast<double>(after[pair.a]), to_y = static_cast<double>(after[pair.b]);
      difference += std::pow(x * cosine - y * sine - to_x, 2) + std::pow(y * cosine + x * sine - to_y, 2);
      size += to_x * to_x + to_y * to_y;
    }
    constexpr double kMostDifference = 0.05;  // of 16-bit storage and fp32 angles
    if (difference <= kMostDifference * kMostDifference * size) return {};
    return {StatusCode::kUnsupported,
            spec().name + ": the layer's RoPE is scaled, so its rotation at future positions is not known"};
  }
};

}  // namespace

const DecodeMethod& ExpectedAttention() {
  static const ExpectedAttentionMethod method;
  return method;
}

}  // namespace headscope::kernels
