// SPDX-License-Identifier: Apache-2.0
// What a decode step moves, in elements of K, V and the mean per KV head: what a method writes into its selection
// (DecodeSelection::elements_moved), and what stands for it where a device chooses and attends in one go, so that there
// is no selection to ask. Beside it what the upkeep of SparQ's copy and mean moves, in bytes, on any device.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/attention_problem.h"
#include "kernels/estimated_top_tokens.h"
#include "kernels/pages_by_bounds.h"

namespace headscope::kernels {

struct StepElements {
  int64_t to_choose = 0;  // of `moved`, what is read to choose alone
  int64_t moved = 0;
};

// K and V of as many tokens of a list, and the new token's, which are written.
inline int64_t ElementsOfTokens(const AttentionProblem& problem, int64_t num_tokens) {
  return (num_tokens + 1) * (problem.head_dim + problem.ValueDim());
}

// SparQ, equation 11: r rows of the component-major K, k rows of K and of V, the new key and value, the mean value read
// and written. Without the second copy of K the estimate reads whole keys.
inline StepElements ElementsOf(const EstimatedTopTokens& step, const AttentionProblem& problem,
                               bool two_copies = true) {
  const int64_t to_choose = int64_t{problem.seq_k} * (two_copies ? step.rank : problem.head_dim);
  const int64_t means = step.mean_value ? 2 * int64_t{problem.ValueDim()} : 0;
  return {to_choose, to_choose + ElementsOfTokens(problem, std::min(step.num_tokens, problem.seq_k)) + means};
}

// Of all lists, read and written, to bring what SparQ keeps from first_token tokens up to the problem's: of K a row
// read and written for each new token, of V a row read; the mean, which is fp32, read and written, or written alone
// where it is made anew (first_token 0).
inline int64_t UpdateBytes(const EstimatedTopTokens& step, const AttentionProblem& problem, int32_t first_token,
                           bool two_copies = true) {
  const int64_t size = SizeOf(problem.dtype), num_new = int64_t{problem.seq_k} - first_token;
  const int64_t of_k = two_copies ? 2 * size * problem.head_dim : 0;
  const int64_t of_v = step.mean_value ? size * problem.ValueDim() : 0;
  const int64_t means = step.mean_value ? int64_t{sizeof(float)} * problem.ValueDim() : 0;
  return int64_t{problem.batch} * problem.num_kv_heads * (num_new * (of_k + of_v) + (first_token > 0 ? 2 : 1) * means);
}

// Both bounds of every page; the chosen pages' keys and values; the new key and value.
inline StepElements ElementsOf(const PagesByBounds& step, const AttentionProblem& problem) {
  const int64_t num_pages = (int64_t{problem.seq_k} - 1) / step.page_size + 1;
  const int64_t picks = std::clamp<int64_t>(step.budget / step.page_size, 1, num_pages);
  const int64_t to_choose = 2 * num_pages * problem.head_dim;
  return {to_choose, to_choose + ElementsOfTokens(problem, std::min<int64_t>(picks * step.page_size, problem.seq_k))};
}

}  // namespace headscope::kernels
