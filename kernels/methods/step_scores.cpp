// SPDX-License-Identifier: Apache-2.0
#include "step_scores.h"

#include <algorithm>
#include <cmath>

#include "internal/element.h"
#include "internal/sparq_scores.h"
#include "kernels/cpu_scores.h"
#include "kernels/random_subspace.h"
#include "key_blocks.h"

namespace headscope::kernels::internal {

StepScores::StepScores(const AttentionProblem& problem, int32_t sequence, int32_t kv_head)
    : problem_(problem), sequence_(sequence), kv_head_(kv_head), group_(problem.GroupSize()) {
  queries_.resize(static_cast<size_t>(group_) * static_cast<size_t>(problem.head_dim));
  for (int32_t i = 0; i < group_; ++i) {
    const int64_t head = int64_t{kv_head} * group_ + i;
    LoadRow(problem.q.data, problem.dtype, sequence * problem.q.batch_stride + head * problem.q.head_stride,
            problem.head_dim, queries_.data() + int64_t{i} * problem.head_dim);
  }
}

void StepScores::ProjectQueries(std::span<const float> directions) {
  const auto size = static_cast<size_t>(problem_.head_dim);
  for (size_t begin = 0; begin < queries_.size(); begin += size)
    ProjectOnto(directions, {queries_.data() + begin, size});
}

void StepScores::ScoreAll() {
  count_ = problem_.seq_k;
  // Whole rows, 64-byte aligned, as the vector code reads them.
  const int64_t row = (int64_t{problem_.head_dim} + 15) / 16 * 16;
  constexpr int64_t kLineFloats = 16;
  std::vector<float> memory(static_cast<size_t>(group_ * row + kLineFloats), 0.0f);
  float* const aligned = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64 / sizeof(float);
  for (int32_t i = 0; i < group_; ++i) {
    for (int64_t d = 0; d < problem_.head_dim; ++d)
      aligned[i * row + d] =
          queries_[static_cast<size_t>(int64_t{i} * problem_.head_dim + d)] * problem_.EffectiveScale();
  }
  EstimateKeys keys;
  const int64_t offset = sequence_ * problem_.k.batch_stride + kv_head_ * problem_.k.head_stride;
  keys.data = static_cast<const char*>(problem_.k.data) + offset * SizeOf(problem_.dtype);
  keys.dtype = problem_.dtype;
  keys.stride = problem_.k.row_stride;
  keys.head_dim = keys.num_components = problem_.head_dim;
  const int64_t stride = (count_ + 3) / 4 * 4;  // the vector code writes whole fours
  std::vector<float> padded(static_cast<size_t>(group_ * stride));
  EstimateScores(keys, {aligned, group_, row}, problem_.soft_cap, 0, count_, padded.data(), stride);
  scores_.resize(static_cast<size_t>(group_ * count_));
  for (int32_t i = 0; i < group_; ++i) std::copy_n(padded.data() + i * stride, count_, scores_.data() + i * count_);
}

void StepScores::Score(std::span<const int32_t> tokens) {
  count_ = static_cast<int64_t>(tokens.size());
  scores_.resize(static_cast<size_t>(group_ * count_));
  std::vector<float> key(static_cast<size_t>(problem_.head_dim));
  const int64_t offset = sequence_ * problem_.k.batch_stride + kv_head_ * problem_.k.head_stride;
  for (int64_t at = 0; at < count_; ++at) {
    LoadRow(problem_.k.data, problem_.dtype, offset + tokens[static_cast<size_t>(at)] * problem_.k.row_stride,
            problem_.head_dim, key.data());
    for (int32_t i = 0; i < group_; ++i) {
      const float* const query = queries_.data() + int64_t{i} * problem_.head_dim;
      float dot = 0;
      for (size_t d = 0; d < key.size(); ++d) dot += query[d] * key[d];
      dot *= problem_.EffectiveScale();
      const float cap = problem_.soft_cap;
      scores_[static_cast<size_t>(i * count_ + at)] = cap > 0 ? cap * std::tanh(dot / cap) : dot;
    }
  }
}

void StepScores::Softmax() {
  for (int32_t i = 0; i < group_; ++i) {
    float* const row = Row(i).data();
    if (problem_.sinks == nullptr) {
      SoftmaxInPlace(row, count_, count_);
      continue;
    }
    const float sink = problem_.sinks[int64_t{kv_head_} * group_ + i];
    const float top = std::max(MaxOf(row, count_), sink);
    const float inverse = 1.0f / (ExpInPlace(row, count_, top) + std::exp(sink - top));
    for (int64_t at = 0; at < count_; ++at) row[at] *= inverse;
  }
}

std::vector<float> StepScores::Sums() {
  std::vector<float> sums(static_cast<size_t>(count_), 0.0f);
  for (int32_t i = 0; i < group_; ++i) {
    for (size_t at = 0; at < sums.size(); ++at) sums[at] += Row(i)[at];
  }
  return sums;
}

DecodeSelection SelectionOfLists(const AttentionProblem& problem, const std::vector<std::vector<int32_t>>& tokens) {
  DecodeSelection selection;
  selection.batch = problem.batch;
  selection.num_qo_heads = problem.num_qo_heads;
  selection.num_kv_heads = problem.num_kv_heads;
  selection.page_begin.push_back(0);
  for (const std::vector<int32_t>& list : tokens) {
    selection.pages.insert(selection.pages.end(), list.begin(), list.end());
    selection.page_begin.push_back(static_cast<int64_t>(selection.pages.size()));
  }
  return selection;
}

}  // namespace headscope::kernels::internal
