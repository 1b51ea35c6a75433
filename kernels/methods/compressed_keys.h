// SPDX-License-Identifier: Apache-2.0
// Blocks of keys chosen by attention to compressed keys (means of overlapping windows): what NSA and InfLLM-V2 share.
#pragma once

#include <cstdint>

#include "kernels/attention_problem.h"
#include "kernels/run_options.h"
#include "kernels/sparse_index.h"

namespace headscope::kernels::internal {

// The parameter `rows`: 64 rows keep what any of them chose, or the best by the sum of their scores.
enum class RowsAgree : uint8_t { kUnion, kSum };

struct CompressedChoice {
  // Of both methods: keys of a mean, between the first keys of two, and of a block.
  static constexpr int32_t window = 32, stride = 16, block = 64;
  bool maximum = false;            // a block's score: the largest of its windows' shares, not their sum
  int32_t n_blocks = 0;            // chosen per query
  int32_t n_first = 0, n_own = 0;  // blocks that are kept in any case: the first; the newest, the own one included
  bool first_counts = true;        // the first are among n_blocks
  bool own_counts = true;          // the newest are among n_blocks
  int32_t n_local = 0;             // newest tokens whose blocks are kept as well, outside n_blocks
  bool union_of_rows = true;       // 64 rows keep what any of them chose; or the best by the sum of their scores
};

// Per KV head: a query's causal softmax over the windows that have ended, summed over the group's query heads; windows
// give their share to every block that they overlap, where they are summed once for each `stride` keys that the window
// and the block share.
Status SelectByCompressedKeys(const AttentionProblem& problem, const CompressedChoice& choice,
                              const RunOptions& options, SparseIndex* index);

}  // namespace headscope::kernels::internal
