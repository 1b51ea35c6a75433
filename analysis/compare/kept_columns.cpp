// SPDX-License-Identifier: Apache-2.0
#include "compare/kept_columns.h"

#include <algorithm>

namespace headscope::analysis {
namespace {

using kernels::ColumnRange;

void AppendRange(int64_t begin, int64_t end, std::vector<ColumnRange>* ranges) {
  if (begin < end) ranges->push_back({static_cast<int32_t>(begin), static_cast<int32_t>(end)});
}

void SortAndMerge(std::vector<ColumnRange>* ranges) {
  std::sort(ranges->begin(), ranges->end(),
            [](const ColumnRange& a, const ColumnRange& b) { return a.begin < b.begin; });
  size_t size = 0;
  for (const ColumnRange& range : *ranges) {
    if (size > 0 && (*ranges)[size - 1].end >= range.begin) {
      (*ranges)[size - 1].end = std::max((*ranges)[size - 1].end, range.end);
    } else {
      (*ranges)[size++] = range;
    }
  }
  ranges->resize(size);
}

// Splits a run under a window rule, for rows at positions [first, last].
void AppendWindowRun(const kernels::KeyRun& run, const kernels::ElementRule& rule, int64_t first, int64_t last,
                     RowSpanColumns* span) {
  const int64_t sinks_end = std::clamp<int64_t>(rule.num_sinks, run.start, run.End());
  AppendRange(run.start, sinks_end, &span->plain);
  // A column is inside the window of a row at position p from p - window + 1 on: before `none` for no row, from `all`
  // on for every row.
  const int64_t none = std::clamp<int64_t>(first - rule.window + 1, sinks_end, run.End());
  const int64_t all = std::clamp<int64_t>(last - rule.window + 1, none, run.End());
  AppendRange(none, all, &span->checked);
  AppendRange(all, run.End(), &span->plain);
}

RowSpanColumns CollectSpan(const kernels::SparseIndexView& index, size_t list, int32_t row_begin, int32_t row_end,
                           uint32_t other_half) {
  RowSpanColumns span;
  span.row_begin = row_begin;
  span.row_end = row_end;
  for (int32_t i = 0; i < index.run_count[list]; ++i) {
    const kernels::KeyRun& run = index.runs[index.run_begin[list] + i];
    if ((run.Flags() & other_half) != 0) continue;
    if (run.Partial() && index.rule.kind == kernels::MaskKind::kCausalWindow) {
      AppendWindowRun(run, index.rule, int64_t{index.first_position} + row_begin,
                      int64_t{index.first_position} + row_end - 1, &span);
    } else {
      AppendRange(run.start, run.End(), &span.plain);
    }
  }
  for (int32_t i = 0; i < index.column_count[list]; ++i) {
    const int32_t column = index.columns[index.column_begin[list] + i];
    AppendRange(column, int64_t{column} + 1, &span.plain);
  }
  SortAndMerge(&span.plain);
  SortAndMerge(&span.checked);
  return span;
}

}  // namespace

std::vector<RowSpanColumns> CollectKeptColumns(const kernels::SparseIndexView& index, int32_t tile) {
  const auto list = static_cast<size_t>(index.ListId(0, 0, tile));
  const int32_t begin = tile * index.tile_rows;
  const int32_t end = std::min(begin + index.tile_rows, index.seq_q);
  const int32_t middle = std::min(begin + index.tile_rows / 2, end);
  bool halves = false;
  for (int32_t i = 0; i < index.run_count[list]; ++i) {
    halves |= (index.runs[index.run_begin[list] + i].Flags() & (kernels::kRunUpperHalf | kernels::kRunLowerHalf)) != 0;
  }
  if (!halves) return {CollectSpan(index, list, begin, end, 0)};
  std::vector<RowSpanColumns> spans = {CollectSpan(index, list, begin, middle, kernels::kRunLowerHalf)};
  if (middle < end) spans.push_back(CollectSpan(index, list, middle, end, kernels::kRunUpperHalf));
  return spans;
}

}  // namespace headscope::analysis
