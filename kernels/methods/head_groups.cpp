// SPDX-License-Identifier: Apache-2.0
#include "head_groups.h"

#include <utility>

#include "internal/parallel_for.h"
#include "kernels/step_elements.h"
#include "kernels/stop_status.h"

namespace headscope::kernels::internal {
namespace {

void AppendLists(const SparseIndex& part, SparseIndex* whole) {
  const int64_t runs = static_cast<int64_t>(whole->runs.size());
  const int64_t columns = static_cast<int64_t>(whole->columns.size());
  for (const int64_t begin : part.run_begin) whole->run_begin.push_back(runs + begin);
  for (const int64_t begin : part.column_begin) whole->column_begin.push_back(columns + begin);
  whole->run_count.insert(whole->run_count.end(), part.run_count.begin(), part.run_count.end());
  whole->column_count.insert(whole->column_count.end(), part.column_count.begin(), part.column_count.end());
  whole->runs.insert(whole->runs.end(), part.runs.begin(), part.runs.end());
  whole->columns.insert(whole->columns.end(), part.columns.begin(), part.columns.end());
}

}  // namespace

SparseIndexBuilder::Shape IndexShape(const AttentionProblem& problem, ElementRule rule) {
  SparseIndexBuilder::Shape shape;
  shape.batch = problem.batch;
  shape.num_qo_heads = problem.num_qo_heads;
  shape.seq_q = problem.seq_q;
  shape.seq_k = problem.seq_k;
  shape.first_position = problem.first_position;
  shape.tile_rows = 128;
  shape.rule = rule;
  return shape;
}

Status SelectByHead(const AttentionProblem& problem, const RunOptions& options, const SelectGroup& select,
                    SparseIndex* index) {
  const int64_t num_kv_groups = int64_t{problem.batch} * problem.num_kv_heads;
  const int64_t num_heads = int64_t{problem.batch} * problem.num_qo_heads;
  const bool whole_groups = num_kv_groups >= NumWorkers(options, num_heads);
  const int32_t heads_per_group = whole_groups ? problem.GroupSize() : 1;

  std::vector<SparseIndex> parts(static_cast<size_t>(num_heads / heads_per_group));
  Status status = ParallelFor(static_cast<int64_t>(parts.size()), 1, options, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t part = begin; part < end; ++part) {
      HeadGroup group;
      group.sequence = static_cast<int32_t>(part * heads_per_group / problem.num_qo_heads);
      group.first_head = static_cast<int32_t>(part * heads_per_group % problem.num_qo_heads);
      group.num_heads = heads_per_group;
      group.kv_head = group.first_head / problem.GroupSize();
      SparseIndexBuilder::Shape shape = IndexShape(problem);
      shape.batch = 1;
      shape.num_qo_heads = heads_per_group;
      SparseIndexBuilder builder(shape);
      select(group, &builder);
      if (!options.stop.stop_requested()) parts[static_cast<size_t>(part)] = builder.Build();
    }
  });
  if (!status.ok()) return status;
  if (options.stop.stop_requested()) return Stopped();

  SparseIndex whole = std::move(parts.front());
  whole.batch = problem.batch;
  whole.num_qo_heads = problem.num_qo_heads;
  for (size_t part = 1; part < parts.size(); ++part) {
    AppendLists(parts[part], &whole);
    parts[part] = {};
  }
  *index = std::move(whole);
  return {};
}

Status SelectByKvHead(const AttentionProblem& problem, const RunOptions& options, const SelectKvHead& select,
                      SparseIndex* index) {
  AttentionProblem one_each = problem;  // every KV head with one query head; no tensor is looked at
  one_each.num_qo_heads = problem.num_kv_heads;
  SparseIndex chosen;
  Status status = SelectByHead(
      one_each, options,
      [&](const HeadGroup& group, SparseIndexBuilder* builder) { select(group.sequence, group.kv_head, builder); },
      &chosen);
  if (!status.ok()) return status;
  SparseIndex shared = chosen;
  shared.num_qo_heads = problem.num_qo_heads;
  const auto tiles = static_cast<size_t>(chosen.View().NumRowTiles());
  const auto repeat = [&](const auto& of_lists, auto* repeated) {
    repeated->clear();
    for (size_t begin = 0; begin < of_lists.size(); begin += tiles) {
      for (int32_t i = 0; i < problem.GroupSize(); ++i) {
        repeated->insert(repeated->end(), of_lists.begin() + static_cast<int64_t>(begin),
                         of_lists.begin() + static_cast<int64_t>(begin + tiles));
      }
    }
  };
  repeat(chosen.run_begin, &shared.run_begin);
  repeat(chosen.run_count, &shared.run_count);
  repeat(chosen.column_begin, &shared.column_begin);
  repeat(chosen.column_count, &shared.column_count);
  *index = std::move(shared);
  return {};
}

SparseIndex IndexOfRule(const AttentionProblem& problem, ElementRule rule) {
  SparseIndexBuilder::Shape shape = IndexShape(problem, rule);
  shape.batch = 1;
  shape.num_qo_heads = 1;
  SparseIndexBuilder builder(shape);
  for (int32_t row = 0; row < problem.seq_q; row += shape.tile_rows) {
    builder.AddRange(0, problem.seq_k);
    builder.FinishList();
  }
  const std::vector<int32_t> pattern_of_head(static_cast<size_t>(problem.num_qo_heads), 0);
  return SharePatterns(builder.Build(), problem, pattern_of_head);
}

SparseIndex SharePatterns(SparseIndex patterns, const AttentionProblem& problem,
                          const std::vector<int32_t>& pattern_of_head) {
  SparseIndex shared;
  const int32_t num_tiles = patterns.View().NumRowTiles();
  for (int32_t sequence = 0; sequence < problem.batch; ++sequence) {
    for (const int32_t pattern : pattern_of_head) {
      for (int32_t tile = 0; tile < num_tiles; ++tile) {
        const size_t list = static_cast<size_t>(patterns.View().ListId(0, pattern, tile));
        shared.run_begin.push_back(patterns.run_begin[list]);
        shared.run_count.push_back(patterns.run_count[list]);
        shared.column_begin.push_back(patterns.column_begin[list]);
        shared.column_count.push_back(patterns.column_count[list]);
      }
    }
  }
  shared.batch = problem.batch;
  shared.num_qo_heads = problem.num_qo_heads;
  shared.seq_q = patterns.seq_q;
  shared.seq_k = patterns.seq_k;
  shared.first_position = patterns.first_position;
  shared.tile_rows = patterns.tile_rows;
  shared.rule = patterns.rule;
  shared.runs = std::move(patterns.runs);
  shared.columns = std::move(patterns.columns);
  return shared;
}

DecodeSelection SelectSameTokens(const AttentionProblem& problem, const std::vector<ColumnRange>& ranges) {
  DecodeSelection selection;
  selection.batch = problem.batch;
  selection.num_qo_heads = problem.num_qo_heads;
  selection.num_kv_heads = problem.num_kv_heads;
  selection.page_begin.push_back(0);
  int64_t tokens_per_head = 0;
  for (int64_t list = 0; list < int64_t{problem.batch} * problem.num_kv_heads; ++list) {
    for (const ColumnRange& range : ranges) {
      for (int32_t token = range.begin; token < range.end; ++token) selection.pages.push_back(token);
    }
    selection.page_begin.push_back(static_cast<int64_t>(selection.pages.size()));
    tokens_per_head = selection.page_begin.back() - selection.page_begin[static_cast<size_t>(list)];
  }
  selection.elements_moved = ElementsOfTokens(problem, tokens_per_head);
  return selection;
}

}  // namespace headscope::kernels::internal
