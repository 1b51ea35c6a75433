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
// its setting for grouped-query models: alpha is 1.
#include <algorithm>
#include <cmath>

#include "head_groups.h"
#include "internal/element.h"
#include "internal/parallel_for.h"
#include "kernels/cpu_scores.h"
#include "kernels/sparq_setup.h"
#include "registry.h"
#include "selector.h"
#include "top_k.h"

namespace headscope::kernels {
namespace {

MethodSpec MakeSpec() {
  MethodSpec spec;
  spec.name = "sparq";
  spec.title = "SparQ Attention";
  spec.family = "dynamic selection";
  spec.paper = "SparQ Attention: Bandwidth-Efficient LLM Inference, sections 3 and 4";
  spec.summary = "Reads a few components of every key to choose the tokens that are attended.";
  spec.phase = Phase::kDecode;
  spec.parameters = {
      {"r", ParameterType::kInteger, 32, 1, 1024, 8, true, "components",
       "query components that score all keys (the one to tune)", "one element of every key more is read a component"},
      {"k", ParameterType::kInteger, 128, 1, 1 << 20, 16, true, "tokens", "tokens attended",
       "one key and one value more are read a token"},
      {"local_share", ParameterType::kReal, 0.25, 0, 1, 0.05, false, "share of k",
       "share of k that the newest tokens take by right", "takes places from tokens with larger scores"},
      {"reallocate", ParameterType::kFlag, 1, 0, 1, 1, false, "",
       "give the mass of the other tokens to the mean value (the paper omits it for grouped-query models)",
       "the mean value is read and written"},
  };
  return spec;
}

// The choice for one KV head.
struct HeadChoice {
  std::vector<int32_t> tokens;    // ascending
  std::vector<float> alpha;       // [group]
  std::vector<float> mean_value;  // [head_dim]
};

class HeadSelector {
 public:
  HeadSelector(const AttentionProblem& problem, const SparqCudaOptions& options, int32_t sequence, int32_t kv_head)
      : problem_(problem),
        options_(options),
        head_dim_(problem.head_dim),
        group_(problem.GroupSize()),
        k_offset_(sequence * problem.k.batch_stride + kv_head * problem.k.head_stride),
        v_offset_(sequence * problem.v.batch_stride + kv_head * problem.v.head_stride),
        queries_(static_cast<size_t>(group_) * static_cast<size_t>(head_dim_)) {
    for (int32_t i = 0; i < group_; ++i) {
      const int64_t head = int64_t{kv_head} * group_ + i;
      internal::LoadRow(problem.q.data, problem.dtype, sequence * problem.q.batch_stride + head * problem.q.head_stride,
                        head_dim_, Query(i));
    }
  }

  HeadChoice Choose() {
    HeadChoice choice;
    const std::vector<float> probabilities = ApproximateProbabilities(LargestComponents());
    choice.tokens = ChooseTokens(probabilities);
    if (!options_.mean_value) return choice;
    for (int32_t i = 0; i < group_; ++i) {
      double mass = 0;
      for (const int32_t token : choice.tokens) mass += static_cast<double>(probabilities[Score(i, token)]);
      choice.alpha.push_back(static_cast<float>(std::clamp(mass, 0.0, 1.0)));
    }
    choice.mean_value = MeanValue();
    return choice;
  }

 private:
  float* Query(int32_t i) { return queries_.data() + int64_t{i} * head_dim_; }
  size_t Score(int32_t i, int32_t token) const { return static_cast<size_t>(int64_t{i} * problem_.seq_k + token); }

  std::vector<int32_t> LargestComponents() {
    std::vector<float> magnitude(static_cast<size_t>(head_dim_), 0.0f);
    for (int32_t i = 0; i < group_; ++i) {
      for (int32_t d = 0; d < head_dim_; ++d) magnitude[static_cast<size_t>(d)] += std::fabs(Query(i)[d]);
    }
    return internal::TopK(magnitude, options_.rank);
  }

  // 1 / temperature of equation 9, for any softmax scale: scale / sqrt(share of |q|_1 in the components).
  float InverseTemperature(int32_t i, const std::vector<int32_t>& components) {
    double all = 0;
    for (int32_t d = 0; d < head_dim_; ++d) all += std::fabs(static_cast<double>(Query(i)[d]));
    double chosen = 0;
    for (const int32_t d : components) chosen += std::fabs(static_cast<double>(Query(i)[d]));
    const double scale =
        problem_.scale != 0.0f ? static_cast<double>(problem_.scale) : 1.0 / std::sqrt(static_cast<double>(head_dim_));
    return static_cast<float>(chosen > 0 ? scale / std::sqrt(chosen / all) : scale);
  }

  // softmax of the approximate scores: [group, seq_k]. A query whose other components are zero stands for the gather:
  // on a CPU the contiguous product over all components is faster than reading some of them one by one, and gives the
  // same sum.
  std::vector<float> ApproximateProbabilities(const std::vector<int32_t>& components) {
    std::vector<float> reduced(queries_.size(), 0.0f);
    std::vector<float> inverse_temperature;
    for (int32_t i = 0; i < group_; ++i) {
      for (const int32_t d : components)
        reduced[static_cast<size_t>(i) * static_cast<size_t>(head_dim_) + static_cast<size_t>(d)] = Query(i)[d];
      inverse_temperature.push_back(InverseTemperature(i, components));
    }
    std::vector<float> scores(static_cast<size_t>(group_) * static_cast<size_t>(problem_.seq_k));
    std::vector<float> buffer(static_cast<size_t>(head_dim_));
    for (int32_t token = 0; token < problem_.seq_k; ++token) {
      const float* const key = ReadRow(problem_.k, k_offset_, token, &buffer);
      for (int32_t i = 0; i < group_; ++i) {
        const float* const query = reduced.data() + int64_t{i} * head_dim_;
        const float score = Dot(query, key, head_dim_) * inverse_temperature[static_cast<size_t>(i)];
        scores[Score(i, token)] =
            problem_.soft_cap > 0 ? problem_.soft_cap * std::tanh(score / problem_.soft_cap) : score;
      }
    }
    for (int32_t i = 0; i < group_; ++i) {
      float* const row = scores.data() + Score(i, 0);
      const float inverse = 1.0f / ExpInPlace(row, problem_.seq_k, MaxOf(row, problem_.seq_k));
      for (int32_t j = 0; j < problem_.seq_k; ++j) row[j] *= inverse;
    }
    return scores;
  }

  // Sixteen partial sums: vector code without leave to reorder floats.
  static float Dot(const float* a, const float* b, int32_t length) {
    float sums[16] = {};
    int32_t d = 0;
    for (; d + 16 <= length; d += 16) {
      for (int32_t i = 0; i < 16; ++i) sums[i] += a[d + i] * b[d + i];
    }
    float sum = 0;
    for (; d < length; ++d) sum += a[d] * b[d];
    for (const float partial : sums) sum += partial;
    return sum;
  }

  // A row of K or V as fp32: in place when it is stored so.
  const float* ReadRow(const StridedTensor<const void>& tensor, int64_t offset, int32_t token,
                       std::vector<float>* buffer) const {
    offset += token * tensor.row_stride;
    if (problem_.dtype == DType::kFloat32) return static_cast<const float*>(tensor.data) + offset;
    internal::LoadRow(tensor.data, problem_.dtype, offset, head_dim_, buffer->data());
    return buffer->data();
  }

  // The newest tokens by their place, not by a bonus on their score, which would tie with a remote probability of 1.
  std::vector<int32_t> ChooseTokens(const std::vector<float>& probabilities) const {
    const int32_t local_begin = problem_.seq_k - options_.num_local;
    std::vector<float> summed(probabilities.begin(), probabilities.begin() + local_begin);
    for (int32_t i = 1; i < group_; ++i) {
      for (int32_t token = 0; token < local_begin; ++token)
        summed[static_cast<size_t>(token)] += probabilities[Score(i, token)];
    }
    std::vector<int32_t> tokens = internal::TopK(summed, options_.num_tokens - options_.num_local);
    for (int32_t token = local_begin; token < problem_.seq_k; ++token) tokens.push_back(token);
    return tokens;
  }

  std::vector<float> MeanValue() const {
    constexpr int32_t kRowsPerPartialSum = 256;  // fp32 inside, double across: the error does not grow with the length
    std::vector<double> sum(static_cast<size_t>(head_dim_), 0.0);
    std::vector<float> partial(sum.size());
    std::vector<float> buffer(sum.size());
    for (int32_t begin = 0; begin < problem_.seq_k; begin += kRowsPerPartialSum) {
      std::fill(partial.begin(), partial.end(), 0.0f);
      const int32_t end = std::min(begin + kRowsPerPartialSum, problem_.seq_k);
      for (int32_t token = begin; token < end; ++token) {
        const float* const value = ReadRow(problem_.v, v_offset_, token, &buffer);
        for (size_t d = 0; d < partial.size(); ++d) partial[d] += value[d];
      }
      for (size_t d = 0; d < sum.size(); ++d) sum[d] += static_cast<double>(partial[d]);
    }
    for (size_t d = 0; d < sum.size(); ++d) buffer[d] = static_cast<float>(sum[d] / problem_.seq_k);
    return buffer;
  }

  const AttentionProblem& problem_;
  const SparqCudaOptions options_;
  const int32_t head_dim_;
  const int32_t group_;
  const int64_t k_offset_;
  const int64_t v_offset_;
  std::vector<float> queries_;  // [group, head_dim]
};

class SparQMethod final : public internal::DecodeSelector {
 public:
  SparQMethod() : DecodeSelector(MakeSpec()) {}

 private:
  bool ReadsV(const ParameterValues& values) const override { return values.Flag("reallocate"); }

  Status Choose(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                DecodeSelection* selection) const override {
    const SparqCudaOptions sparq = SparqOptions(values, problem);
    const int64_t num_lists = int64_t{problem.batch} * problem.num_kv_heads;
    std::vector<HeadChoice> choices(static_cast<size_t>(num_lists));
    Status status = internal::ParallelFor(num_lists, 1, options, [&](int64_t begin, int64_t end, int32_t) {
      for (int64_t list = begin; list < end; ++list) {
        HeadSelector selector(problem, sparq, static_cast<int32_t>(list / problem.num_kv_heads),
                              static_cast<int32_t>(list % problem.num_kv_heads));
        choices[static_cast<size_t>(list)] = selector.Choose();
      }
    });
    if (!status.ok()) return status;

    DecodeSelection joined;
    joined.batch = problem.batch;
    joined.num_qo_heads = problem.num_qo_heads;
    joined.num_kv_heads = problem.num_kv_heads;
    joined.token_begin.push_back(0);
    for (const HeadChoice& choice : choices) {
      joined.tokens.insert(joined.tokens.end(), choice.tokens.begin(), choice.tokens.end());
      joined.token_begin.push_back(static_cast<int64_t>(joined.tokens.size()));
      joined.alpha.insert(joined.alpha.end(), choice.alpha.begin(), choice.alpha.end());
      joined.mean_value.insert(joined.mean_value.end(), choice.mean_value.begin(), choice.mean_value.end());
    }
    // Equation 11: r rows of K, k columns of K and of V, the new key and value, the mean value read and written.
    const int64_t rows = 2 * int64_t{sparq.num_tokens} + (sparq.mean_value ? 4 : 2);
    joined.elements_moved = int64_t{problem.seq_k} * sparq.rank + rows * problem.head_dim;
    *selection = std::move(joined);
    return {};
  }
};

}  // namespace

const DecodeMethod& SparQ() {
  static const SparQMethod method;
  return method;
}

}  // namespace headscope::kernels
