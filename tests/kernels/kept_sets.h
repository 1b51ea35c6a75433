// SPDX-License-Identifier: Apache-2.0
// Kept sets as the tests look at them: one boolean per (row, column) of a head.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/decode_method.h"
#include "kernels/method.h"
#include "random_problem.h"
#include "run_seed.h"

namespace headscope::kernels::testing {

using Mask = std::vector<std::vector<bool>>;

inline ParameterValues Values(const MethodSpec& spec, const std::string& text) {
  ParameterValues values(spec);
  const std::string error = values.Parse(spec, text);
  EXPECT_EQ(error, "");
  return values;
}

// Selects, and checks what holds of every index: it is valid, and its rows are causal.
inline SparseIndex Select(const std::string& method, const std::string& parameters, const AttentionProblem& problem,
                          const RunOptions& options = {}) {
  SparseIndex index;
  const PrefillMethod* found = FindPrefillMethod(method);
  const Status status = found->Select(problem, Values(found->spec(), parameters), options, &index);
  EXPECT_TRUE(status.ok()) << method << ": " << status.message();
  const Status valid = Validate(index.View());
  EXPECT_TRUE(valid.ok()) << method << ": " << valid.message();
  EXPECT_EQ(index.batch, problem.batch);
  EXPECT_EQ(index.num_qo_heads, problem.num_qo_heads);
  EXPECT_EQ(index.seq_q, problem.seq_q);
  EXPECT_EQ(index.seq_k, problem.seq_k);
  EXPECT_EQ(index.first_position, problem.first_position);
  return index;
}

inline DecodeSelection SelectTokens(const std::string& method, const std::string& parameters,
                                    const AttentionProblem& problem) {
  DecodeSelection selection;
  const DecodeMethod* found = FindDecodeMethod(method);
  const Status status = found->Select(problem, Values(found->spec(), parameters), {}, &selection);
  EXPECT_TRUE(status.ok()) << method << ": " << status.message();
  return selection;
}

inline std::vector<int32_t> TokensOf(const DecodeSelection& selection, size_t list) {
  return {selection.pages.begin() + selection.page_begin[list],
          selection.pages.begin() + selection.page_begin[list + 1]};
}

inline Mask MaskOf(const SparseIndex& index, int32_t sequence = 0, int32_t head = 0) {
  Mask mask(static_cast<size_t>(index.seq_q), std::vector<bool>(static_cast<size_t>(index.seq_k)));
  std::vector<ColumnRange> ranges;
  for (int32_t row = 0; row < index.seq_q; ++row) {
    ranges.clear();
    AppendKeptRanges(index.View(), sequence, head, row, &ranges);
    for (const ColumnRange& range : ranges) {
      for (int32_t column = range.begin; column < range.end; ++column) {
        mask[static_cast<size_t>(row)][static_cast<size_t>(column)] = true;
      }
    }
  }
  return mask;
}

inline Mask CausalMask(const AttentionProblem& problem) {
  Mask mask(static_cast<size_t>(problem.seq_q), std::vector<bool>(static_cast<size_t>(problem.seq_k)));
  for (size_t row = 0; row < mask.size(); ++row) {
    for (size_t column = 0; column < mask[row].size(); ++column) {
      mask[row][column] = column <= row + static_cast<size_t>(problem.first_position);
    }
  }
  return mask;
}

// Every pair of `inner` is in `outer`.
inline bool IsSubset(const Mask& inner, const Mask& outer) {
  for (size_t row = 0; row < inner.size(); ++row) {
    for (size_t column = 0; column < inner[row].size(); ++column) {
      if (inner[row][column] && !outer[row][column]) return false;
    }
  }
  return true;
}

inline ProblemShape SquareShape(int32_t seq_len, int32_t num_qo_heads = 1, int32_t num_kv_heads = 1,
                                int32_t head_dim = 16) {
  ProblemShape shape;
  shape.num_qo_heads = num_qo_heads;
  shape.num_kv_heads = num_kv_heads;
  shape.head_dim = head_dim;
  shape.seq_q = seq_len;
  shape.seq_k = seq_len;
  return shape;
}

inline ProblemShape DecodeShape(int32_t seq_len, int32_t num_qo_heads = 1, int32_t num_kv_heads = 1,
                                int32_t head_dim = 16) {
  ProblemShape shape = SquareShape(seq_len, num_qo_heads, num_kv_heads, head_dim);
  shape.seq_q = 1;
  shape.first_position = seq_len - 1;
  return shape;
}

}  // namespace headscope::kernels::testing
