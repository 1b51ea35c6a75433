// SPDX-License-Identifier: Apache-2.0
// MagicPIG: tokens sampled by hashing, each weighted by the inverse of the probability with which it was found.
//
// Source: MagicPIG: LSH Sampling for Efficient LLM Generation, section 4 and Algorithm 1: the prompt's keys between the
// sinks and the window, less their mean, are hashed into L tables by K random planes each; a step samples the tokens
// that share the query's bucket in two tables at least, whose probability at an angle a is u = 1 - (1 - p^K)^L - L p^K
// (1 - p^K)^(L - 1) with p = 1 - a / pi, and weighs them 1 / u. Sinks, the window and every later token are attended to
// as they are. Taking the mean key off changes no attention. Layers 0, 16, 32 and so on stay dense, as in the released
// code.
//
// A bucket's tokens lie together, so a step reads the buckets that its query falls into and no others.
//
// Choices where the source is silent: one set of planes for all heads, drawn by `seed`; over grouped queries a KV head
// reads what any of its query heads has sampled, and each weighs its own. The released code adds 1e-4 to u before it
// takes the inverse (`epsilon`).
#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <numeric>
#include <span>
#include <vector>

#include "common_parameters.h"
#include "dot.h"
#include "internal/element.h"
#include "internal/parallel_for.h"
#include "kernels/cpu_scores.h"
#include "registry.h"
#include "sim_hash.h"
#include "step_scores.h"

namespace headscope::kernels {
namespace {

constexpr char kDenseEvery[] = "dense_every";

MethodSpec MagicPigSpec() {
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
      .always_keeps = "the first n_sink tokens, the newest n_local of the prompt and all behind it",
      .selection_cost =
          "hashes of the prompt, 2 S tables bits d FLOPs, once; a step looks into tables buckets, a KV head",
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
               .cost = "more tokens are sampled; one more bucket's number per token",
               .role = ParameterRole::kAmount},
              tokens("n_sink", 4, "first tokens that are always attended to"),
              tokens("n_local", 64, "newest tokens of the prompt that are always attended to, as all later ones are"),
              {.name = "epsilon",
               .type = ParameterType::kReal,
               .step = 0.0001,
               .help = "added to a token's probability before its inverse is taken (the released code: 0.0001)",
               .cost = "bounds the weights, and their sum is short of the truth"},
              {.name = kDenseEvery,
               .default_value = 16,
               .maximum = 1 << 14,
               .help = "layer 0 and each so many layers after it attend to everything (0: no layer does); a head of no "
                       "known layer does not",
               .cost = "these layers take what dense attention takes"},
              internal::SeedParameter("the planes"),
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
    packed_planes_ = PackedKeys(planes_.data(), DType::kFloat32, cache.head_dim, bits_ * tables_, cache.head_dim);
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
  // The tokens of a table, bucket by bucket. All tables of all heads may take much memory, so where a table has more
  // buckets than this they begin by their upper bits, and the lower ones are looked at.
  static constexpr int32_t kDirectoryBits = 12;
  struct Table {
    std::vector<int32_t> begin;    // [2^directory bits + 1]
    std::vector<int32_t> tokens;   // by bucket, then ascending
    std::vector<uint16_t> bucket;  // of each of them, where the directory does not say it
  };
  // What there is of a KV head's hashed tokens.
  struct Hashed {
    std::vector<float> mean;   // [head_dim]
    std::vector<float> keys;   // [tokens, head_dim], less the mean
    std::vector<float> norms;  // [tokens], of these
    std::vector<Table> tables;
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
    for (size_t token = 0; token < static_cast<size_t>(count); ++token) {
      const float* const key = hashed.keys.data() + token * width;
      hashed.norms.push_back(std::sqrt(internal::Dot(key, key, width)));
    }
    const PackedKeys packed(hashed.keys.data(), DType::kFloat32, head_dim, count, head_dim);
    constexpr int32_t kColumns = 512;
    std::vector<float> sides(static_cast<size_t>(bits_) * kColumns);
    std::vector<uint16_t> bucket(static_cast<size_t>(count));
    for (int32_t table = 0; table < tables_; ++table) {
      for (int32_t first = 0; first < count; first += kColumns) {
        const int32_t last = std::min(first + kColumns, count);
        ScoreBlock(planes_.data() + static_cast<size_t>(table * bits_) * width, head_dim, bits_, packed, first, last,
                   1.0f, 0.0f, sides.data(), kColumns);
        for (int32_t i = first; i < last; ++i)
          bucket[static_cast<size_t>(i)] = Bucket(sides.data() + (i - first), kColumns);
      }
      hashed.tables.push_back(MakeTable(bucket));
    }
  }

  int32_t LowerBits() const { return std::max(0, bits_ - kDirectoryBits); }

  Table MakeTable(const std::vector<uint16_t>& bucket) const {
    Table table;
    table.begin.assign((size_t{1} << (bits_ - LowerBits())) + 1, 0);
    for (const uint16_t one : bucket) ++table.begin[(static_cast<size_t>(one) >> LowerBits()) + 1];
    std::partial_sum(table.begin.begin(), table.begin.end(), table.begin.begin());
    table.tokens.resize(bucket.size());
    std::vector<int32_t> next(table.begin.begin(), table.begin.end() - 1);
    for (size_t token = 0; token < bucket.size(); ++token) {
      int32_t& place = next[static_cast<size_t>(bucket[token]) >> LowerBits()];
      table.tokens[static_cast<size_t>(place++)] = static_cast<int32_t>(token);
    }
    if (LowerBits() == 0) return table;
    for (size_t place = 0; place + 1 < table.begin.size(); ++place) {
      std::stable_sort(
          table.tokens.begin() + table.begin[place], table.tokens.begin() + table.begin[place + 1],
          [&](int32_t a, int32_t b) { return bucket[static_cast<size_t>(a)] < bucket[static_cast<size_t>(b)]; });
    }
    for (const int32_t token : table.tokens) table.bucket.push_back(bucket[static_cast<size_t>(token)]);
    return table;
  }

  std::span<const int32_t> TokensOf(const Table& table, uint16_t bucket) const {
    const auto place = static_cast<size_t>(bucket) >> LowerBits();
    auto begin = static_cast<size_t>(table.begin[place]), end = static_cast<size_t>(table.begin[place + 1]);
    if (LowerBits() > 0) {
      const auto [first, last] = std::equal_range(table.bucket.begin() + static_cast<std::ptrdiff_t>(begin),
                                                  table.bucket.begin() + static_cast<std::ptrdiff_t>(end), bucket);
      begin = static_cast<size_t>(first - table.bucket.begin());
      end = static_cast<size_t>(last - table.bucket.begin());
    }
    return std::span(table.tokens).subspan(begin, end - begin);
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
    // Of each query, in how many tables a token shares its bucket, up to 2; and the tokens that any of them samples.
    std::vector<std::vector<uint8_t>> tables_of(group, std::vector<uint8_t>(count, 0));
    std::vector<int32_t> sampled;
    if (count > 0) {
      const int32_t num_planes = bits_ * tables_;
      std::vector<float> sides(group * static_cast<size_t>(num_planes));
      ScoreBlock(scores.queries().data(), problem.head_dim, static_cast<int32_t>(group), packed_planes_, 0, num_planes,
                 1.0f, 0.0f, sides.data(), num_planes);
      // Tables are large and a step reads a few lines of each, so all are asked for before the first is read.
      std::vector<std::span<const int32_t>> found(static_cast<size_t>(tables_));
      std::vector<uint16_t> buckets(found.size());
      for (size_t i = 0; i < group; ++i) {
        for (size_t table = 0; table < found.size(); ++table) {
          buckets[table] =
              Bucket(sides.data() + static_cast<size_t>(num_planes) * i + table * static_cast<size_t>(bits_), 1);
          __builtin_prefetch(hashed.tables[table].begin.data() + (buckets[table] >> LowerBits()));
        }
        for (size_t table = 0; table < found.size(); ++table) {
          found[table] = TokensOf(hashed.tables[table], buckets[table]);
          for (size_t at = 0; at < found[table].size(); at += 16) __builtin_prefetch(found[table].data() + at);
        }
        for (const std::span<const int32_t> tokens : found) {
          for (const int32_t token : tokens) {
            uint8_t& hits = tables_of[i][static_cast<size_t>(token)];
            if (hits == 1) sampled.push_back(token);
            hits = static_cast<uint8_t>(std::min(2, hits + 1));
          }
        }
      }
      std::ranges::sort(sampled);
      sampled.erase(std::unique(sampled.begin(), sampled.end()), sampled.end());
      // What the model's window has left behind since the prompt.
      sampled.erase(sampled.begin(), std::ranges::lower_bound(sampled, step.first_token - begin_));
    }
    Sample sample;
    sample.weights.resize(group);
    const auto add = [&](int32_t from, int32_t to) {
      for (int32_t token = std::max(from, step.first_token); token < to; ++token) {
        sample.tokens.push_back(token - step.first_token);
        for (std::vector<float>& row : sample.weights) row.push_back(1.0f);
      }
    };
    const int32_t end = step.first_token + problem.seq_k;
    add(step.first_token, std::min(begin_, end));
    std::vector<float> norms;
    for (size_t i = 0; i < group; ++i) {
      const float* const query = scores.queries().data() + i * width;
      norms.push_back(std::sqrt(internal::Dot(query, query, width)));
    }
    constexpr size_t kAhead = 8;  // keys that are asked for before they are read
    for (size_t at = 0; at < sampled.size(); ++at) {
      const int32_t token = sampled[at];
      const auto place = static_cast<size_t>(token);
      if (at + kAhead < sampled.size()) {
        const float* const key = hashed.keys.data() + static_cast<size_t>(sampled[at + kAhead]) * width;
        for (size_t d = 0; d < width; d += 16) __builtin_prefetch(key + d);
      }
      sample.tokens.push_back(begin_ + token - step.first_token);
      for (size_t i = 0; i < group; ++i) {
        float weight = 0.0f;
        if (tables_of[i][place] >= 2) {
          const float dot =
              internal::Dot(scores.queries().data() + i * width, hashed.keys.data() + place * width, width);
          weight = Weight(static_cast<double>(dot),
                          static_cast<double>(norms[i]) * static_cast<double>(hashed.norms[place]));
        }
        sample.weights[i].push_back(weight);
      }
    }
    add(end_, end);
    return sample;
  }

  static double Power(double base, int32_t exponent) {
    double power = 1;
    for (; exponent > 0; exponent /= 2, base *= base) power *= exponent % 2 == 1 ? base : 1;
    return power;
  }

  // 1 / u of a token that was sampled; norms: the product of the query's and the key's.
  float Weight(double dot, double norms) const {
    const double cosine = norms > 0 ? dot / norms : 0;
    const double share = 1 - std::acos(std::clamp(cosine, -1.0, 1.0)) / std::numbers::pi;
    const double table = Power(share, bits_), missed = 1 - table, in_others = Power(missed, tables_ - 1);
    const double found = 1 - missed * in_others - tables_ * table * in_others;
    constexpr double kLeast = 1e-12;  // rounding may leave nothing of what all but never happens
    return static_cast<float>(1 / (std::max(found, kLeast) + epsilon_));
  }

  const int32_t bits_, tables_, n_sink_, n_local_;
  const double epsilon_;
  const uint64_t seed_;
  std::vector<float> planes_;  // [tables * bits, head_dim]
  PackedKeys packed_planes_;
  int32_t begin_ = 0, end_ = 0;  // hashed tokens of the sequence
  std::vector<Hashed> lists_;
};

class MagicPigMethod final : public DecodeMethod {
 public:
  MagicPigMethod() : spec_(MagicPigSpec()) {}
  const MethodSpec& spec() const override { return spec_; }
  std::unique_ptr<DecodePolicy> NewPolicy(const ParameterValues& values) const override {
    return std::make_unique<MagicPigPolicy>(values);
  }
  std::string_view DenseBy(const ParameterValues& values, int32_t layer) const override {
    const int32_t every = values.Integer(kDenseEvery);
    return every > 0 && layer >= 0 && layer % every == 0 ? kDenseEvery : std::string_view();
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
