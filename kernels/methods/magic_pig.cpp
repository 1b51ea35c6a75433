// SPDX-License-Identifier: Apache-2.0
// MagicPIG: tokens sampled by hashing, each weighted by the inverse of the probability with which it was found.
//
// Source: MagicPIG: LSH Sampling for Efficient LLM Generation, section 4 and Algorithm 1: the prompt's keys between the
// sinks and the window, less their mean, are hashed into L tables by K random planes each; a step samples the tokens
// that share the query's bucket in two tables at least, whose probability at an angle a is u = 1 - (1 - p^K)^L - L p^K
// (1 - p^K)^(L - 1) with p = 1 - a / pi, and weighs them 1 / u. Sinks, the window and every later token are attended to
// as they are. Taking the mean key off changes no attention. Its dense layers (0, 16, ..) are a matter of where one
// applies the method.
//
// Choices where the source is silent: one set of planes for all heads, drawn by `seed`; over grouped queries a KV head
// reads what any of its query heads has sampled, and each weighs its own. The released code adds 1e-4 to u before it
// takes the inverse (`epsilon`).
#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <vector>

#include "internal/element.h"
#include "internal/parallel_for.h"
#include "kernels/cpu_scores.h"
#include "registry.h"
#include "sim_hash.h"
#include "step_scores.h"

namespace headscope::kernels {
namespace {

MethodSpec MakeSpec() {
  const auto tokens = [](const char* name, double value, const char* help) {
    return ParameterSpec{.name = name,
                         .default_value = value,
                         .minimum = 0,
                         .maximum = 1 << 20,
                         .step = 16,
                         .unit = Unit::kTokens,
                         .help = help,
                         .cost = "one more key and value to read per token"};
  };
  return {
      .name = "magic-pig",
      .title = "MagicPIG",
      .family = "sampling",
      .paper = "MagicPIG: LSH Sampling for Efficient LLM Generation, section 4, Algorithm 1",
      .summary = "Attends to sinks, a window and tokens that hashing finds, weighted by how likely they are found.",
      .phase = Phase::kDecode,
      .chosen_per = ChosenPer::kKvHead,
      .keeps_state = true,
      .needs_history = true,
      .parameters =
          {
              {.name = "bits",
               .default_value = 10,
               .minimum = 1,
               .maximum = 16,
               .help = "K: planes of a table, bits of a bucket's number (the paper: 8 to 10)",
               .cost = "fewer tokens are sampled"},
              {.name = "tables",
               .default_value = 150,
               .minimum = 2,
               .maximum = 1024,
               .step = 10,
               .help = "L: hash tables (the paper: 75 to 300)",
               .cost = "more tokens are sampled; one more bucket's number per token"},
              tokens("n_sink", 4, "first tokens that are always attended to"),
              tokens("n_local", 64, "newest tokens of the prompt that are always attended to, as all later ones are"),
              {.name = "epsilon",
               .type = ParameterType::kReal,
               .step = 0.0001,
               .help = "added to a token's probability before its inverse is taken (the released code: 0.0001)",
               .cost = "bounds the weights, and their sum is short of the truth"},
              {.name = "seed",
               .default_value = 0,
               .minimum = 0,
               .maximum = 1 << 30,
               .help = "of the planes; results name it",
               .cost = "nothing: another draw"},
          },
  };
}

class MagicPigPolicy final : public DecodePolicy {
 public:
  explicit MagicPigPolicy(const ParameterValues& values)
      : bits_(values.Integer("bits")),
        tables_(values.Integer("tables")),
        n_sink_(values.Integer("n_sink")),
        n_local_(values.Integer("n_local")),
        epsilon_(values.Real("epsilon")),
        seed_(static_cast<uint64_t>(values.Integer("seed"))) {}

  Status Begin(const DecodePrompt& prompt, const RunOptions& options, DecodeEvictions*) override {
    const AttentionProblem& cache = prompt.cache;
    planes_ = internal::RandomPlanes(bits_ * tables_, cache.head_dim, seed_);
    begin_ = prompt.first_token + std::min(n_sink_, cache.seq_k);
    end_ = std::max(begin_, prompt.first_token + cache.seq_k - n_local_);
    lists_.assign(static_cast<size_t>(int64_t{cache.batch} * cache.num_kv_heads), {});
    if (begin_ == end_) return {};
    return internal::ParallelFor(static_cast<int64_t>(lists_.size()), 1, options,
                                 [&](int64_t begin, int64_t end, int32_t) {
                                   for (int64_t list = begin; list < end; ++list) Hash(prompt, list);
                                 });
  }

  Status Step(const DecodeStep& step, const RunOptions& options, DecodeSelection* selection,
              DecodeEvictions*) override {
    const AttentionProblem& problem = step.problem;
    std::vector<Sample> samples(lists_.size());
    Status status = internal::ParallelFor(static_cast<int64_t>(lists_.size()), 1, options,
                                          [&](int64_t begin, int64_t end, int32_t) {
                                            for (int64_t list = begin; list < end; ++list)
                                              samples[static_cast<size_t>(list)] = Draw(step, list);
                                          });
    if (!status.ok()) return status;
    std::vector<std::vector<int32_t>> tokens;
    int64_t total = 0;
    for (Sample& sample : samples) {
      total += static_cast<int64_t>(sample.tokens.size());
      tokens.push_back(std::move(sample.tokens));
    }
    *selection = internal::SelectionOfLists(problem, tokens);
    selection->weight_rows = problem.GroupSize();
    for (int32_t i = 0; i < problem.GroupSize(); ++i) {
      for (const Sample& sample : samples) {
        const std::vector<float>& row = sample.weights[static_cast<size_t>(i)];
        selection->weights.insert(selection->weights.end(), row.begin(), row.end());
      }
    }
    // A bucket's number per token and table, in units of an element; keys and values of the sample, a mean over KV
    // heads; the new key and value.
    const int64_t hash_bits = int64_t{end_ - begin_} * tables_ * bits_;
    selection->elements_moved =
        hash_bits / (8 * SizeOf(problem.dtype)) +
        (total / static_cast<int64_t>(tokens.size()) + 1) * (problem.head_dim + problem.ValueDim());
    return {};
  }

 private:
  // What there is of a KV head's hashed tokens.
  struct Hashed {
    std::vector<float> mean;       // [head_dim]
    std::vector<float> keys;       // [tokens, head_dim], less the mean
    std::vector<uint16_t> bucket;  // [tables, tokens]
  };
  struct Sample {
    std::vector<int32_t> tokens;              // of the step's problem, ascending
    std::vector<std::vector<float>> weights;  // [group], one per token
  };

  void Hash(const DecodePrompt& prompt, int64_t list) {
    const AttentionProblem& cache = prompt.cache;
    const int32_t head_dim = cache.head_dim, count = end_ - begin_;
    const auto width = static_cast<size_t>(head_dim);
    Hashed& hashed = lists_[static_cast<size_t>(list)];
    hashed.keys.resize(static_cast<size_t>(count) * width);
    const int64_t offset =
        list / cache.num_kv_heads * cache.k.batch_stride + list % cache.num_kv_heads * cache.k.head_stride;
    std::vector<double> sum(width, 0.0);
    for (int32_t i = 0; i < count; ++i) {
      float* const key = hashed.keys.data() + static_cast<size_t>(i) * width;
      internal::LoadRow(cache.k.data, cache.dtype, offset + (begin_ - prompt.first_token + i) * cache.k.row_stride,
                        head_dim, key);
      for (size_t d = 0; d < width; ++d) sum[d] += static_cast<double>(key[d]);
    }
    hashed.mean.resize(width);
    for (size_t d = 0; d < width; ++d) hashed.mean[d] = static_cast<float>(sum[d] / count);
    for (size_t at = 0; at < hashed.keys.size(); ++at) hashed.keys[at] -= hashed.mean[at % width];
    const PackedKeys packed(hashed.keys.data(), DType::kFloat32, head_dim, count, head_dim);
    hashed.bucket.resize(static_cast<size_t>(tables_) * static_cast<size_t>(count));
    constexpr int32_t kColumns = 512;
    std::vector<float> sides(static_cast<size_t>(bits_) * kColumns);
    for (int32_t table = 0; table < tables_; ++table) {
      for (int32_t first = 0; first < count; first += kColumns) {
        const int32_t last = std::min(first + kColumns, count);
        ScoreBlock(planes_.data() + static_cast<size_t>(table * bits_) * width, head_dim, bits_, packed, first, last,
                   1.0f, 0.0f, sides.data(), kColumns);
        for (int32_t i = first; i < last; ++i)
          hashed.bucket[static_cast<size_t>(int64_t{table} * count + i)] = Bucket(sides.data() + (i - first), kColumns);
      }
    }
  }

  uint16_t Bucket(const float* sides, int64_t stride) const {
    uint32_t bucket = 0;
    for (int32_t bit = 0; bit < bits_; ++bit) bucket |= (sides[bit * stride] > 0 ? 1u : 0u) << bit;
    return static_cast<uint16_t>(bucket);
  }

  Sample Draw(const DecodeStep& step, int64_t list) const {
    const AttentionProblem& problem = step.problem;
    const Hashed& hashed = lists_[static_cast<size_t>(list)];
    const auto count = static_cast<size_t>(end_ - begin_), width = static_cast<size_t>(problem.head_dim);
    const internal::StepScores scores(problem, static_cast<int32_t>(list / problem.num_kv_heads),
                                      static_cast<int32_t>(list % problem.num_kv_heads));
    const auto group = static_cast<size_t>(scores.group());
    std::vector<std::vector<uint8_t>> found(group, std::vector<uint8_t>(count, 0));  // in how many tables, up to 2
    for (size_t i = 0; i < group && count > 0; ++i) {
      const float* const query = scores.queries().data() + i * width;
      for (int32_t table = 0; table < tables_; ++table) {
        std::vector<float> sides(static_cast<size_t>(bits_));
        for (size_t bit = 0; bit < sides.size(); ++bit)
          sides[bit] = Dot(query, planes_.data() + (static_cast<size_t>(table * bits_) + bit) * width, width);
        const uint16_t bucket = Bucket(sides.data(), 1);
        const uint16_t* const buckets = hashed.bucket.data() + static_cast<size_t>(table) * count;
        uint8_t* const hits = found[i].data();
        for (size_t token = 0; token < count; ++token)
          hits[token] = static_cast<uint8_t>(std::min(2, hits[token] + (buckets[token] == bucket ? 1 : 0)));
      }
    }
    Sample sample;
    sample.weights.resize(group);
    for (int32_t token = step.first_token; token < step.first_token + problem.seq_k; ++token) {
      const bool hashed_token = token >= begin_ && token < end_;
      const auto place = static_cast<size_t>(token - begin_);
      if (hashed_token && std::none_of(found.begin(), found.end(), [&](const auto& hits) { return hits[place] >= 2; }))
        continue;
      sample.tokens.push_back(token - step.first_token);
      for (size_t i = 0; i < group; ++i) {
        float weight = 1.0f;
        if (hashed_token) {
          const float* const query = scores.queries().data() + i * width;
          weight = found[i][place] >= 2 ? Weight(query, hashed.keys.data() + place * width, width) : 0.0f;
        }
        sample.weights[i].push_back(weight);
      }
    }
    return sample;
  }

  static float Dot(const float* a, const float* b, size_t width) {
    double sum = 0;
    for (size_t d = 0; d < width; ++d) sum += static_cast<double>(a[d]) * static_cast<double>(b[d]);
    return static_cast<float>(sum);
  }

  // 1 / u of a token that was sampled.
  float Weight(const float* query, const float* key, size_t width) const {
    const double norms =
        std::sqrt(static_cast<double>(Dot(query, query, width))) * std::sqrt(static_cast<double>(Dot(key, key, width)));
    const double cosine = norms > 0 ? static_cast<double>(Dot(query, key, width)) / norms : 0;
    const double share = 1 - std::acos(std::clamp(cosine, -1.0, 1.0)) / std::numbers::pi;
    const double table = std::pow(share, bits_), missed = 1 - table;
    const double found = 1 - std::pow(missed, tables_) - tables_ * table * std::pow(missed, tables_ - 1);
    constexpr double kLeast = 1e-12;  // rounding may leave nothing of what all but never happens
    return static_cast<float>(1 / (std::max(found, kLeast) + epsilon_));
  }

  const int32_t bits_, tables_, n_sink_, n_local_;
  const double epsilon_;
  const uint64_t seed_;
  std::vector<float> planes_;    // [tables * bits, head_dim]
  int32_t begin_ = 0, end_ = 0;  // hashed tokens of the sequence
  std::vector<Hashed> lists_;
};

class MagicPigMethod final : public DecodeMethod {
 public:
  MagicPigMethod() : spec_(MakeSpec()) {}
  const MethodSpec& spec() const override { return spec_; }
  std::unique_ptr<DecodePolicy> NewPolicy(const ParameterValues& values) const override {
    return std::make_unique<MagicPigPolicy>(values);
  }

 private:
  const MethodSpec spec_;
};

}  // namespace

const DecodeMethod& MagicPig() {
  static const MagicPigMethod method;
  return method;
}

}  // namespace headscope::kernels
