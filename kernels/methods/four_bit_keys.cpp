// SPDX-License-Identifier: Apache-2.0
#include "four_bit_keys.h"

#include <algorithm>
#include <cmath>

#include "internal/element.h"

namespace headscope::kernels::internal {
namespace {

constexpr float kLevels = 15.0f;

// Side by side, so that the compiler makes vector code of it; a fixed order of addition.
float Dot(const float* query, const uint8_t* levels, size_t width) {
  constexpr size_t kLanes = 16;
  float lanes[kLanes] = {};
  size_t d = 0;
  for (; d + kLanes <= width; d += kLanes) {
    for (size_t i = 0; i < kLanes; ++i) lanes[i] += query[d + i] * static_cast<float>(levels[d + i]);
  }
  float sum = 0;
  for (; d < width; ++d) sum += query[d] * static_cast<float>(levels[d]);
  for (const float lane : lanes) sum += lane;
  return sum;
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
      uint8_t* const levels = levels_[list].data() + static_cast<size_t>(token) * width;
      for (size_t d = 0; d < width; ++d) {
        const float level = step > 0 ? std::nearbyint((key[d] - *least) / step) : 0.0f;
        levels[d] = level >= 0 && level <= kLevels ? static_cast<uint8_t>(level) : 0;  // NaN: no level
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
  for (int32_t i = 0; i < num_queries; ++i) {
    const float* const query = queries + static_cast<size_t>(i) * width;
    float sum = 0;
    for (size_t d = 0; d < width; ++d) sum += query[d];
    float* const row = scores + static_cast<size_t>(i) * tokens.size();
    for (size_t j = 0; j < tokens.size(); ++j) {
      const auto token = static_cast<size_t>(tokens[j]);
      const float levels = Dot(query, levels_[at].data() + token * width, width);
      const float score = scale * (least_[at][token] * sum + step_[at][token] * levels);
      row[j] = soft_cap > 0 ? soft_cap * std::tanh(score / soft_cap) : score;
    }
  }
}

}  // namespace headscope::kernels::internal
