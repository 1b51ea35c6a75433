// SPDX-License-Identifier: Apache-2.0
// SparQ Attention: scores from the largest query components choose the tokens; the mean value stands in for the others.
//
// Source: SparQ Attention, sections 3 and 4, Algorithm 1 (equations 8 to 11). Per KV head: the r components with the
// largest |q| (summed over the group), approximate scores of all keys from those components with temperature
// sqrt(head_dim * |q_r|_1 / |q|_1) per query head, then the k tokens with the largest approximate probability (summed
// over the group), the newest l = local_share * k among them by right. Output: alpha * attention over the tokens + (1 -
// alpha) * mean value, alpha the approximate mass of the tokens per query head.
//
// Choices where the paper is silent: equal scores go to the earlier component or token; an all-zero query has
// temperature sqrt(head_dim); the mean is over all tokens, kept ones too. `reallocate` = 0 is the paper's ablation, and
// its setting for grouped-query models: alpha is 1. `temperature` has the paper's ablation of equation 9 (section 5.4).
// `group` = scores is the released code: over the group it sums the scores before their softmax.
#include <algorithm>
#include <cmath>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common_parameters.h"
#include "index/checks.h"
#include "internal/element.h"
#include "internal/parallel_for.h"
#include "internal/sparq_scores.h"
#include "internal/waiting_threads.h"
#include "kernels/cpu_scores.h"
#include "kernels/cpu_sparq.h"
#include "kernels/estimated_top_tokens.h"
#include "kernels/sparq_setup.h"
#include "kernels/step_elements.h"
#include "registry.h"
#include "selector.h"
#include "sparq_cache.h"
#include "top_k.h"

namespace headscope::kernels {
namespace {

MethodSpec SparqSpec() {
  return {
      .name = "sparq",
      .title = "SparQ Attention",
      .family = "dynamic selection",
      .paper = "SparQ Attention: Bandwidth-Efficient LLM Inference, sections 3 and 4",
      .summary = "Reads a few components of every key to pick the tokens to attend to.",
      .always_keeps = "the newest local_share of k",
      .selection_cost = "r elements of every key, S r, of a step and KV head; with one copy of K, every key, S d",
      .phase = Phase::kDecode,
      .chosen_per = ChosenPer::kKvHead,
      .keeps_state = true,
      .reads_v = true,
      .gives_candidates = true,
      .parameters =
          {
              {.name = "r",
               .default_value = 32,
               .minimum = 1,
               .maximum = 1024,
               .step = 8,
               .logarithmic = true,
               .unit = Unit::kComponents,
               .help = "query components that score all keys (the one to tune)",
               .cost = "one more element of every key to read per component"},
              internal::AttendedTokens(128),
              internal::CompressionRatio("k"),
              {.name = "local_share",
               .type = ParameterType::kReal,
               .default_value = 0.25,
               .step = 0.05,
               .unit = Unit::kShareOfParameter,
               .share_of = "k",
               .help = "share of k that is reserved for the newest tokens",
               .cost = "takes places from tokens with larger scores"},
              {.name = "reallocate",
               .type = ParameterType::kChoice,
               .default_value = 2,
               .maximum = 2,
               .help = "give the mass of the other tokens to the mean value; auto: as the paper, where a KV head has "
                       "one query head, and neither a learned sink nor keys outside a window",
               .cost = "the mean value is read and written",
               .choices = {"0", "1", "auto"}},
              {.name = "temperature",
               .type = ParameterType::kChoice,
               .maximum = 3,
               .help = "divides the approximate scores: equation 9, or one of the paper's ablations of it",
               .cost = "a larger one flattens the approximate probabilities, and alpha falls",
               .choices = {"eq9", "sqrt_head_dim", "sqrt_r", "one"}},
              {.name = "copies",
               .type = ParameterType::kChoice,
               .help = "copies of K beside each other: with a second one, by components, the estimate reads r of each "
                       "key; with one it gathers them from whole keys (the paper's 1 x K)",
               .cost = "one reads whole keys; two take half as much memory again as K and V",
               .choices = {"two", "one"}},
              {.name = "group",
               .type = ParameterType::kChoice,
               .help = "what is summed over the query heads of a KV head to choose tokens: their approximate "
                       "probabilities, or the scores themselves (the released code)",
               .cost = "nothing",
               .choices = {"probabilities", "scores"}},
          },
  };
}

// Tokens whose scores stay in L1 from their first component to the last. Fixed, and with it the order of additions:
// results do not depend on the number of threads.
constexpr int64_t kChunk = 2048;

// In the order of the parameters' choices.
enum class Temperature : uint8_t { kEquation9, kRootOfHeadDim, kRootOfRank, kOne };
enum class SparqGroupSum : uint8_t { kProbabilities, kScores };

// How tokens are scored, apart from what a kernel knows too.
struct SparqEstimate {
  Temperature temperature = Temperature::kEquation9;
  SparqGroupSum group_sum = SparqGroupSum::kProbabilities;
};
SparqEstimate SparqEstimateOf(const ParameterValues& values) {
  return {values.Choice<Temperature>("temperature"), values.Choice<SparqGroupSum>("group")};
}

// The choice for one KV head.
struct HeadChoice {
  std::vector<int32_t> tokens;    // ascending
  std::vector<float> alpha;       // [group]
  std::vector<float> mean_value;  // [v_head_dim]
};

// Selects for one KV head in stages, so that several threads may share the chunks of its tokens.
class SparqHead {
 public:
  SparqHead(const AttentionProblem& problem, const SparqCudaOptions& options, SparqEstimate estimate,
            const TransposedKeys& keys, const float* mean, int64_t list)
      : problem_(problem),
        options_(options),
        estimate_(estimate),
        mean_(mean),
        sequence_(static_cast<int32_t>(list / problem.num_kv_heads)),
        kv_head_(static_cast<int32_t>(list % problem.num_kv_heads)),
        group_(problem.GroupSize()),
        stride_((int64_t{problem.seq_k} + 15) / 16 * 16),
        row_floats_((problem.head_dim + 15) / 16 * 16),
        scores_(new float[static_cast<size_t>(group_ * stride_)]),
        maxima_(static_cast<size_t>(group_ * NumChunks())),
        sums_(maxima_.size()) {
    for (int32_t i = 0; i < group_; ++i) {
      const int64_t head = int64_t{kv_head_} * group_ + i;
      queries_.resize(queries_.size() + static_cast<size_t>(problem.head_dim));
      internal::LoadRow(problem.q.data, problem.dtype,
                        sequence_ * problem.q.batch_stride + head * problem.q.head_stride, problem.head_dim, Query(i));
    }
    components_ = LargestComponents();
    keys_ = {.dtype = problem.dtype,
             .head_dim = problem.head_dim,
             .components = components_.data(),
             .num_components = static_cast<int32_t>(components_.size())};
    keys_.by_component = keys.data != nullptr;
    if (keys_.by_component) {
      keys_.data = At(keys.data, sequence_ * keys.batch_stride + kv_head_ * keys.head_stride);
      keys_.stride = keys.component_stride;
    } else {
      keys_.data = At(problem.k.data, sequence_ * problem.k.batch_stride + kv_head_ * problem.k.head_stride);
      keys_.stride = problem.k.row_stride;
    }
    ReduceQueries();
    if (SumsScores()) summed_.reset(new float[static_cast<size_t>(stride_)]);
  }

  int64_t NumChunks() const { return (int64_t{problem_.seq_k} + kChunk - 1) / kChunk; }

  // First for every chunk, in any order.
  void Score(int64_t chunk) {
    const Span span = SpanOf(chunk);
    const internal::EstimateQueries queries{reduced_, group_,
                                            keys_.by_component ? int64_t{keys_.num_components} : row_floats_};
    internal::EstimateScores(keys_, queries, problem_.soft_cap, span.first, span.count, scores_.get() + span.first,
                             stride_);
    for (int32_t i = 0; i < group_; ++i) maxima_[At(i, chunk)] = MaxOf(Row(i) + span.first, span.count);
    if (!SumsScores()) return;
    for (int64_t token = span.first; token < span.first + span.count; ++token) {
      float sum = 0;
      for (int32_t i = 0; i < group_; ++i) sum += Row(i)[token];
      summed_[static_cast<size_t>(token)] = sum;
    }
  }

  // Then for every chunk: scores become exponentials.
  void Exponentiate(int64_t chunk) {
    const Span span = SpanOf(chunk);
    for (int32_t i = 0; i < group_; ++i) {
      const float maximum = MaxOf(&maxima_[At(i, 0)], NumChunks());
      sums_[At(i, chunk)] = ExpInPlace(Row(i) + span.first, span.count, maximum);
    }
  }

  // Last, once. The probability of a token is its exponential by the sum of all.
  HeadChoice Choose() {
    HeadChoice choice;
    std::vector<float> inverse;
    for (int32_t i = 0; i < group_; ++i) {
      double sum = 0;
      for (int64_t chunk = 0; chunk < NumChunks(); ++chunk) sum += static_cast<double>(sums_[At(i, chunk)]);
      inverse.push_back(static_cast<float>(1.0 / sum));
    }
    choice.tokens = ChooseTokens(inverse);
    if (!options_.mean_value) return choice;
    for (int32_t i = 0; i < group_; ++i) {
      double mass = 0;
      for (const int32_t token : choice.tokens) mass += static_cast<double>(Row(i)[token]);
      mass *= static_cast<double>(inverse[static_cast<size_t>(i)]);
      choice.alpha.push_back(static_cast<float>(std::clamp(mass, 0.0, 1.0)));
    }
    const int64_t list = int64_t{sequence_} * problem_.num_kv_heads + kv_head_;
    choice.mean_value.resize(static_cast<size_t>(problem_.ValueDim()));
    if (mean_ != nullptr) {
      std::copy_n(mean_ + list * problem_.ValueDim(), problem_.ValueDim(), choice.mean_value.begin());
    } else {
      internal::MeanValueOfHead(problem_, sequence_, kv_head_, choice.mean_value.data());
    }
    return choice;
  }

 private:
  struct Span {
    int64_t first;
    int64_t count;
  };
  Span SpanOf(int64_t chunk) const {
    return {chunk * kChunk, std::min(kChunk, int64_t{problem_.seq_k} - chunk * kChunk)};
  }
  const void* At(const void* data, int64_t elements) const {
    return static_cast<const char*>(data) + elements * SizeOf(problem_.dtype);
  }
  // Of one query head both have one order.
  bool SumsScores() const { return group_ > 1 && estimate_.group_sum == SparqGroupSum::kScores; }
  size_t At(int64_t i, int64_t chunk) const { return static_cast<size_t>(i * NumChunks() + chunk); }
  float* Row(int32_t i) { return scores_.get() + i * stride_; }
  float* Query(int32_t i) { return queries_.data() + int64_t{i} * problem_.head_dim; }

  std::vector<int32_t> LargestComponents() {
    std::vector<float> magnitude(static_cast<size_t>(problem_.head_dim), 0.0f);
    for (int32_t i = 0; i < group_; ++i) {
      for (int32_t d = 0; d < problem_.head_dim; ++d) magnitude[static_cast<size_t>(d)] += std::fabs(Query(i)[d]);
    }
    return internal::TopK(magnitude, options_.rank);
  }

  // 1 / temperature; that of equation 9 for any softmax scale: scale / sqrt(share of |q|_1 in the components).
  float InverseTemperature(int32_t i) {
    if (estimate_.temperature == Temperature::kOne) return 1.0f;
    if (estimate_.temperature == Temperature::kRootOfRank) return 1.0f / std::sqrt(static_cast<float>(options_.rank));
    double all = 0;
    for (int32_t d = 0; d < problem_.head_dim; ++d) all += std::fabs(static_cast<double>(Query(i)[d]));
    double chosen = 0;
    for (const int32_t d : components_) chosen += std::fabs(static_cast<double>(Query(i)[d]));
    const double scale = static_cast<double>(problem_.EffectiveScale());
    const bool by_share = estimate_.temperature == Temperature::kEquation9 && chosen > 0;
    return static_cast<float>(by_share ? scale / std::sqrt(chosen / all) : scale);
  }

  // The chosen components, scaled: packed for the component-major copy; in whole rows whose other components are zero
  // for keys that are read whole.
  void ReduceQueries() {
    const int64_t row = keys_.by_component ? int64_t{keys_.num_components} : row_floats_;
    constexpr int64_t kLineFloats = 16;
    reduced_memory_.assign(static_cast<size_t>(group_ * row + kLineFloats), 0.0f);
    const auto address = reinterpret_cast<uintptr_t>(reduced_memory_.data());
    reduced_ = reduced_memory_.data() + (64 - address % 64) % 64 / sizeof(float);
    for (int32_t i = 0; i < group_; ++i) {
      const float factor = InverseTemperature(i);
      for (int64_t c = 0; c < keys_.num_components; ++c) {
        const int32_t d = components_[static_cast<size_t>(c)];
        reduced_[i * row + (keys_.by_component ? c : d)] = Query(i)[d] * factor;
      }
    }
  }

  // The newest tokens by their place, not by a bonus on their score, which would tie with a remote probability of 1.
  std::vector<int32_t> ChooseTokens(const std::vector<float>& inverse) {
    const int32_t local_begin = problem_.seq_k - options_.num_local;
    const auto num_remote = static_cast<size_t>(local_begin);
    const int64_t picks = options_.num_tokens - options_.num_local;
    std::vector<int32_t> tokens;
    if (group_ == 1) {
      tokens = internal::TopK({Row(0), num_remote}, picks);
    } else if (SumsScores()) {
      tokens = internal::TopK({summed_.get(), num_remote}, picks);
    } else {
      const std::unique_ptr<float[]> summed(new float[num_remote + 1]);
      internal::WeightedSum(Row(0), stride_, inverse.data(), group_, local_begin, summed.get());
      tokens = internal::TopK({summed.get(), num_remote}, picks);
    }
    for (int32_t token = local_begin; token < problem_.seq_k; ++token) tokens.push_back(token);
    return tokens;
  }

  const AttentionProblem& problem_;
  const SparqCudaOptions options_;
  const SparqEstimate estimate_;
  const float* const mean_;
  const int32_t sequence_;
  const int32_t kv_head_;
  const int32_t group_;
  const int64_t stride_;
  const int64_t row_floats_;
  const std::unique_ptr<float[]> scores_;  // [group, stride_]: scores, then exponentials
  std::unique_ptr<float[]> summed_;        // [stride_]: scores over the group, where these choose
  std::vector<float> maxima_, sums_;       // [group, chunks]
  std::vector<float> queries_;             // [group, head_dim]
  std::vector<int32_t> components_;
  internal::EstimateKeys keys_;
  std::vector<float> reduced_memory_;
  float* reduced_ = nullptr;
};

// Heads one by one where there are enough of them for all threads: a head's scores then stay in one core's cache.
// Otherwise stage by stage, with the chunks of all heads spread over the threads.
Status RunStages(std::vector<std::unique_ptr<SparqHead>>* heads, const RunOptions& options,
                 std::vector<HeadChoice>* choices) {
  const auto num_heads = static_cast<int64_t>(heads->size());
  const auto head = [&](int64_t i) -> SparqHead& { return *(*heads)[static_cast<size_t>(i)]; };
  const auto choose = [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t i = begin; i < end; ++i) (*choices)[static_cast<size_t>(i)] = head(i).Choose();
  };
  const int64_t num_chunks = head(0).NumChunks();
  if (num_heads >= internal::NumWorkers(options, num_heads * num_chunks)) {
    return internal::ShortParallelFor(num_heads, 1, options, [&](int64_t begin, int64_t end, int32_t worker) {
      for (int64_t i = begin; i < end; ++i) {
        for (int64_t chunk = 0; chunk < num_chunks; ++chunk) head(i).Score(chunk);
        for (int64_t chunk = 0; chunk < num_chunks; ++chunk) head(i).Exponentiate(chunk);
        choose(i, i + 1, worker);
      }
    });
  }
  const auto each_chunk = [&](void (SparqHead::*stage)(int64_t)) {
    return internal::ShortParallelFor(num_heads * num_chunks, 1, options, [&](int64_t begin, int64_t end, int32_t) {
      for (int64_t i = begin; i < end; ++i) (head(i / num_chunks).*stage)(i % num_chunks);
    });
  };
  Status status = each_chunk(&SparqHead::Score);
  if (status.ok()) status = each_chunk(&SparqHead::Exponentiate);
  if (status.ok()) status = internal::ShortParallelFor(num_heads, 1, options, choose);
  return status;
}

Status SelectChecked(const AttentionProblem& problem, const SparqCudaOptions& sparq, SparqEstimate estimate,
                     bool two_copies, const TransposedKeys& keys, const float* mean, const RunOptions& options,
                     DecodeSelection* selection) {
  // The mean value stands for what a row gives to keys that are left out; what it gives to a sink has no value.
  if (sparq.mean_value && problem.window > 0) {
    return {StatusCode::kUnsupported,
            "the keys have a window, which its mean-value term does not know: set reallocate to 0, or give it the "
            "window's keys alone"};
  }
  if (sparq.mean_value && problem.sinks != nullptr) {
    return {StatusCode::kUnsupported,
            "the heads have sinks, which its mean-value term does not know: set reallocate to 0"};
  }
  const int64_t num_lists = int64_t{problem.batch} * problem.num_kv_heads;
  std::vector<std::unique_ptr<SparqHead>> heads;
  for (int64_t list = 0; list < num_lists; ++list)
    heads.push_back(std::make_unique<SparqHead>(problem, sparq, estimate, keys, mean, list));
  std::vector<HeadChoice> choices(static_cast<size_t>(num_lists));
  Status status = RunStages(&heads, options, &choices);
  if (!status.ok()) return status;

  DecodeSelection joined;
  joined.batch = problem.batch;
  joined.num_qo_heads = problem.num_qo_heads;
  joined.num_kv_heads = problem.num_kv_heads;
  joined.page_begin.push_back(0);
  for (const HeadChoice& choice : choices) {
    joined.pages.insert(joined.pages.end(), choice.tokens.begin(), choice.tokens.end());
    joined.page_begin.push_back(static_cast<int64_t>(joined.pages.size()));
    joined.alpha.insert(joined.alpha.end(), choice.alpha.begin(), choice.alpha.end());
    joined.mean_value.insert(joined.mean_value.end(), choice.mean_value.begin(), choice.mean_value.end());
  }
  const StepElements elements = ElementsOf(sparq, problem, two_copies);
  joined.elements_to_choose = elements.to_choose;
  joined.elements_moved = elements.moved;
  *selection = std::move(joined);
  return {};
}

Status Refuse(const char* what, int64_t value, const char* allowed) {
  return {StatusCode::kInvalidArgument,
          "sparq: " + std::string(what) + " is " + std::to_string(value) + ", must be " + allowed};
}

// SelectSparqCpu, however tokens are scored.
Status SelectAny(const AttentionProblem& problem, const SparqCudaOptions& sparq, SparqEstimate estimate,
                 bool two_copies, const TransposedKeys& keys, const float* mean, const RunOptions& options,
                 DecodeSelection* selection) {
  Status status = internal::CheckProblem(problem, sparq.mean_value && mean == nullptr);
  if (status.ok()) status = internal::CheckDecodeStep(problem);
  if (!status.ok()) return status;
  if (sparq.rank < 1 || sparq.rank > problem.head_dim) return Refuse("rank", sparq.rank, "1 to head_dim");
  if (sparq.num_tokens < 1 || sparq.num_tokens > problem.seq_k)
    return Refuse("num_tokens", sparq.num_tokens, "1 to seq_k");
  if (sparq.num_local < 0 || sparq.num_local > sparq.num_tokens)
    return Refuse("num_local", sparq.num_local, "0 to num_tokens");
  if (keys.data != nullptr && keys.component_stride < problem.seq_k)
    return Refuse("keys.component_stride", keys.component_stride, "seq_k or more");
  try {
    return SelectChecked(problem, sparq, estimate, two_copies, keys, mean, options, selection);
  } catch (const std::bad_alloc&) {
    return {StatusCode::kOutOfMemory, "not enough memory for the estimates of this step"};
  }
}

// K once more, by components, and the mean of V.
class SparQPolicy final : public DecodePolicy {
 public:
  explicit SparQPolicy(const ParameterValues& values) : values_(values) {}

  Status Begin(const DecodePrompt& prompt, const RunOptions& options, DecodeEvictions*) override {
    bytes_.clear();
    mean_.clear();
    capacity_ = prompt.capacity;
    if (prompt.cache.seq_k == 0 || !SparqHasTwoCopies(values_)) return {};
    return MakeKeys(prompt.cache, prompt.first_token, options);
  }

  Status Append(const DecodeStep& step, const RunOptions& options) override {
    const int32_t end = step.first_token + step.problem.seq_k;
    Status status;
    if (!SparqHasTwoCopies(values_))
      return SparqOptions(values_, step.problem).mean_value ? MoveMean(step, options) : Status();
    if (bytes_.empty() || step.first_token < keys_first_ || step.first_token > keys_end_ ||
        end - keys_first_ > keys_.component_stride) {
      status = MakeKeys(step.problem, step.first_token, options);
    }
    TransposedKeys keys = From(step);
    while (status.ok() && keys_end_ < end) status = AppendTokenCpu(UpTo(step, ++keys_end_), keys, nullptr);
    if (status.ok() && SparqOptions(values_, step.problem).mean_value) status = MoveMean(step, options);
    return status;
  }

  Status Step(const DecodeStep& step, const RunOptions& options, DecodeSelection* selection,
              DecodeEvictions*) override {
    return SelectAny(step.problem, SparqOptions(values_, step.problem), SparqEstimateOf(values_),
                     SparqHasTwoCopies(values_), SparqHasTwoCopies(values_) ? From(step) : TransposedKeys(),
                     mean_.empty() ? nullptr : mean_.data(), options, selection);
  }

 private:
  Status MakeKeys(AttentionProblem problem, int32_t first, const RunOptions& options) {
    problem.seq_q = 1;  // a prompt may come without queries; none is looked at
    problem.q = problem.k;
    // Without a capacity, room for as many tokens again: a copy is not made anew at every token.
    const int64_t room = capacity_ > 0 ? int64_t{capacity_} - first : 2 * int64_t{problem.seq_k};
    keys_first_ = first;
    keys_end_ = first + problem.seq_k;
    return TransposeKeysCpu(problem, options, &bytes_, &keys_, room);
  }

  // The copy from the step's first token on.
  TransposedKeys From(const DecodeStep& step) const {
    TransposedKeys keys = keys_;
    keys.data = static_cast<std::byte*>(keys.data) + (step.first_token - keys_first_) * SizeOf(step.problem.dtype);
    return keys;
  }

  // The step's problem as it was when the sequence ended there.
  static AttentionProblem UpTo(const DecodeStep& step, int32_t end) {
    AttentionProblem problem = step.problem;
    problem.seq_k = end - step.first_token;
    problem.first_position = problem.seq_k - 1;
    return problem;
  }

  // Token by token where the step's tokens only grow; from all of V where it goes back or a window has moved.
  Status MoveMean(const DecodeStep& step, const RunOptions& options) {
    const int32_t end = step.first_token + step.problem.seq_k;
    if (!mean_.empty() && step.first_token == mean_first_ && end >= mean_end_) {
      Status status;
      while (status.ok() && mean_end_ < end) status = AppendTokenCpu(UpTo(step, ++mean_end_), {}, mean_.data());
      return status;
    }
    const AttentionProblem& problem = step.problem;
    mean_.resize(static_cast<size_t>(int64_t{problem.batch} * problem.num_kv_heads * problem.ValueDim()));
    mean_first_ = step.first_token;
    mean_end_ = end;
    return MeanValueCpu(problem, options, mean_.data());
  }

  const ParameterValues values_;
  int32_t capacity_ = 0;
  std::vector<std::byte> bytes_;
  TransposedKeys keys_;
  int32_t keys_first_ = 0, keys_end_ = 0;  // tokens of the sequence that the copy holds
  std::vector<float> mean_;
  int32_t mean_first_ = 0, mean_end_ = 0;  // tokens whose mean that is
};

class SparQMethod final : public internal::DecodeSelector {
 public:
  SparQMethod() : DecodeSelector(SparqSpec()) {}

  std::unique_ptr<DecodePolicy> NewPolicy(const ParameterValues& values) const override {
    return std::make_unique<SparQPolicy>(values);
  }

  ParameterValues ForTokensAlone(ParameterValues values) const override {
    values.Set(spec(), "reallocate", 0);
    return values;
  }

  ParameterValues Used(const ParameterValues& values, const AttentionProblem& problem) const override {
    const SparqCudaOptions options = SparqOptions(values, problem);
    ParameterValues used = values;
    used.Set(spec(), "r", options.rank);
    used.Set(spec(), "reallocate", options.mean_value ? 1 : 0);
    return used;
  }

 private:
  bool ReadsV(const ParameterValues& values, const AttentionProblem& problem) const override {
    return SparqOptions(values, problem).mean_value;
  }

  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                DecodeSelection* selection) const override {
    return SelectChecked(problem, SparqOptions(values, problem), SparqEstimateOf(values), SparqHasTwoCopies(values), {},
                         nullptr, options, selection);
  }
};

}  // namespace

Status SelectSparqCpu(const AttentionProblem& problem, const SparqCudaOptions& sparq, const TransposedKeys& keys,
                      const float* mean, const RunOptions& options, DecodeSelection* selection) {
  return SelectAny(problem, sparq, {}, /*two_copies=*/true, keys, mean, options, selection);
}

std::optional<EstimatedTopTokens> EstimatedTopTokensOf(const DecodeMethod& method, const ParameterValues& values,
                                                       const AttentionProblem& problem) {
  if (&method != &SparQ()) return {};
  const auto [temperature, group_sum] = SparqEstimateOf(values);
  if (temperature != Temperature::kEquation9) return {};
  if (group_sum != SparqGroupSum::kProbabilities && problem.GroupSize() > 1) return {};
  // A share of a step's tokens is another number at every step.
  if (values.Real(internal::kCompressionRatio) > 0) return {};
  return SparqOptions(values, problem);
}

const DecodeMethod& SparQ() {
  static const SparQMethod method;
  return method;
}

}  // namespace headscope::kernels
