// SPDX-License-Identifier: Apache-2.0
// How selectors walk over heads: data-dependent ones run head by head on all cores, data-independent ones make each
// pattern once and share it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/attention_problem.h"
#include "kernels/decode_selection.h"
#include "kernels/method_spec.h"
#include "kernels/run_options.h"
#include "kernels/sparse_index.h"

namespace headscope::kernels::internal {

// Query heads [first_head, first_head + num_heads) of one sequence; all of them read KV head `kv_head`.
struct HeadGroup {
  int32_t sequence = 0;
  int32_t kv_head = 0;
  int32_t first_head = 0;
  int32_t num_heads = 0;
};

// Keys that some query can see: columns from here on are in the future of the whole problem.
inline int32_t NumVisibleKeys(const AttentionProblem& problem) {
  return problem.first_position + problem.seq_q;
}

SparseIndexBuilder::Shape IndexShape(const AttentionProblem& problem, ElementRule rule = {});

// Calls select(group, builder) for every group of heads on the threads of `options`, and joins the lists in order.
// `select` finishes all lists of the group's heads (tiles of the first head, then of the next); it may return early
// only when options.stop was requested. A group is a whole KV group, so that work on the keys is done once, unless that
// leaves threads without work: then it is one head. On error *index is unchanged.
using SelectGroup = std::function<void(const HeadGroup& group, SparseIndexBuilder* builder)>;
Status SelectByHead(const AttentionProblem& problem, const RunOptions& options, const SelectGroup& select,
                    SparseIndex* index);

// The same where a HeadSelector(problem, values, options, sequence, kv_head) works on a group's keys once and its
// AddLists(head, builder) then makes the lists of one query head.
template <typename HeadSelector>
Status SelectHeadByHead(const AttentionProblem& problem, const ParameterValues& values, const RunOptions& options,
                        SparseIndex* index) {
  return SelectByHead(
      problem, options,
      [&](const HeadGroup& group, SparseIndexBuilder* builder) {
        HeadSelector selector(problem, values, options, group.sequence, group.kv_head);
        for (int32_t i = 0; i < group.num_heads && !options.stop.stop_requested(); ++i)
          selector.AddLists(group.first_head + i, builder);
      },
      index);
}

// The same for methods whose choice the query heads of a KV head share: `select` finishes one head's lists.
using SelectKvHead = std::function<void(int32_t sequence, int32_t kv_head, SparseIndexBuilder* builder)>;
Status SelectByKvHead(const AttentionProblem& problem, const RunOptions& options, const SelectKvHead& select,
                      SparseIndex* index);

// Every head keeps exactly what the element rule keeps; all heads share the lists.
SparseIndex IndexOfRule(const AttentionProblem& problem, ElementRule rule);

// Spreads the patterns of a data-independent method over sequences and heads: head h shares the lists of pattern
// pattern_of_head[h], the "heads" of `patterns` (batch 1).
SparseIndex SharePatterns(SparseIndex patterns, const AttentionProblem& problem,
                          const std::vector<int32_t>& pattern_of_head);

// A decode step in which every KV head attends the same tokens (disjoint, ascending ranges) and nothing else.
// elements_moved per KV head: K and V of the tokens, and the new token's K and V written.
DecodeSelection SelectSameTokens(const AttentionProblem& problem, const std::vector<ColumnRange>& ranges);

}  // namespace headscope::kernels::internal
