// SPDX-License-Identifier: Apache-2.0
// The attention of one KV head's query heads at a decode step, exact: what methods choose by that know it, or learn
// from it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention_problem.h"
#include "kernels/decode_selection.h"

namespace headscope::kernels::internal {

class StepScores {
 public:
  // The problem outlives this.
  StepScores(const AttentionProblem& problem, int32_t sequence, int32_t kv_head);

  // From here on queries() are what is left of them in the span of orthonormal directions, [n, head_dim].
  void ProjectQueries(std::span<const float> directions);
  // Scores (scaled and capped) of every token of the cache, or of some of them; Row(i) has them in that order.
  void ScoreAll();
  void Score(std::span<const int32_t> tokens);
  // Scores become probabilities over what was scored, and the model's sink where it has one, head by head.
  void Softmax();

  int32_t group() const { return group_; }
  int64_t count() const { return count_; }
  std::span<float> Row(int32_t i) { return {scores_.data() + i * count_, static_cast<size_t>(count_)}; }
  // Over the query heads.
  std::vector<float> Sums();
  // [group, head_dim] fp32.
  const std::vector<float>& queries() const { return queries_; }

 private:
  const AttentionProblem& problem_;
  const int32_t sequence_, kv_head_, group_;
  int64_t count_ = 0;
  std::vector<float> queries_, scores_;
};

// One list of tokens per KV head as a step's selection, ascending and disjoint.
DecodeSelection SelectionOfLists(const AttentionProblem& problem, const std::vector<std::vector<int32_t>>& tokens);

}  // namespace headscope::kernels::internal
