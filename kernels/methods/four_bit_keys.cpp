// SPDX-License-Identifier: Apache-2.0
#include "four_bit_keys.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "internal/element.h"
#include "internal/sparq_scores.h"

namespace headscope::kernels::internal {
namespace {

constexpr float kLevels = 15.0f;

// A whole number of so few bits is a bf16 number.
uint16_t Bf16OfLevel(float level) {
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(level) >> 16);
}

}  // namespace

void FourBitKeys::Clear() {
  num_tokens_ = 0;
  levels_.clear();
  least_.clear();
  step_.clear();
}

void FourBitKeys::Update(const AttentionProblem& problem, int32_t first_token) {
  const auto num_lists = static_cast<size_t>(int64_t{problem.batch} * problem.num_kv_heads);
  if (levels_.size() != num_lists || first_token != first_token_ || problem.seq_k < num_tokens_) Clear();
  levels_.resize(num_lists);
  least_.resize(num_lists);
  step_.resize(num_lists);
  head_dim_ = problem.head_dim;
  first_token_ = first_token;
  const auto width = static_cast<size_t>(head_dim_);
  std::vector<float> key(width);
  for (size_t list = 0; list < num_lists; ++list) {
    levels_[list].resize(static_cast<size_t>(problem.seq_k) * width);
    const int64_t offset = static_cast<int64_t>(list) / problem.num_kv_heads * problem.k.batch_stride +
                           static_cast<int64_t>(list) % problem.num_kv_heads * problem.k.head_stride;
    for (int32_t token = num_tokens_; token < problem.seq_k; ++token) {
      LoadRow(problem.k.data, problem.dtype, offset + token * problem.k.row_stride, head_dim_, key.data());
      const auto [least, largest] = std::minmax_element(key.begin(), key.end());
      const float step = (*largest - *least) / kLevels;
      uint16_t* const levels = levels_[list].data() + static_cast<size_t>(token) * width;
      for (size_t d = 0; d < width; ++d) {
        const float level = step > 0 ? std::nearbyint((key[d] - *least) / step) : 0.0f;
        levels[d] = level >= 0 && level <= kLevels ? Bf16OfLevel(level) : uint16_t{0};  // NaN: no level
      }
      least_[list].push_back(*least);
      step_[list].push_back(step > 0 ? step : 0.0f);
    }
  }
  num_tokens_ = problem.seq_k;
}

void FourBitKeys::Score(int64_t list, const float* queries, int32_t num_queries, std::span<const int32_t> tokens,
                        float scale, float soft_cap, float* scores) const {
  const auto width = static_cast<size_t>(head_dim_), at = static_cast<size_t>(list);
  // Whole rows, 64-byte aligned, as the vector code reads them.
  const size_t row_floats = (width + 15) / 16 * 16;
  std::vector<float> memory(static_cast<size_t>(num_queries) * row_floats + 16, 0.0f);
  float* const rows = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64 / sizeof(float);
  std::vector<float> sums;
  for (size_t i = 0; i < static_cast<size_t>(num_queries); ++i) {
    const float* const query = queries + i * width;
    std::copy_n(query, width, rows + i * row_floats);
    sums.push_back(std::accumulate(query, query + width, 0.0f));
  }
  EstimateKeys keys;
  keys.data = levels_[at].data();
  keys.dtype = DType::kBFloat16;
  keys.stride = head_dim_;
  keys.head_dim = keys.num_components = head_dim_;
  const auto stride = static_cast<int64_t>((tokens.size() + 3) / 4 * 4);  // the vector code writes whole fours
  std::vector<float> products(static_cast<size_t>(num_queries * stride) + 4);
  for (size_t begin = 0, end = 0; begin < tokens.size(); begin = end) {  // runs of tokens
    while (end < tokens.size() && tokens[end] - tokens[begin] == static_cast<int32_t>(end - begin)) ++end;
    EstimateScores(keys, {rows, num_queries, static_cast<int64_t>(row_floats)}, /*soft_cap=*/0, tokens[begin],
                   static_cast<int64_t>(end - begin), products.data(), stride);
    for (size_t i = 0; i < static_cast<size_t>(num_queries); ++i) {
      const float* const of_row = products.data() + static_cast<int64_t>(i) * stride;
      for (size_t j = begin; j < end; ++j) {
        const auto token = static_cast<size_t>(tokens[j]);
        const float score = scale * (least_[at][token] * sums[i] + step_[at][token] * of_row[j - begin]);
        scores[i * tokens.size() + j] = soft_cap > 0 ? soft_cap * std::tanh(score / soft_cap) : score;
      }
    }
  }
}

}  // namespace headscope::kernels::internal
