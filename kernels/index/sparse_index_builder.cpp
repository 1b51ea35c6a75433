// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cassert>
#include <iterator>
#include <utility>

#include "kernels/sparse_index.h"

namespace headscope::kernels {

SparseIndexBuilder::SparseIndexBuilder(const Shape& shape) : shape_(shape) {
  index_.batch = shape.batch;
  index_.num_qo_heads = shape.num_qo_heads;
  index_.seq_q = shape.seq_q;
  index_.seq_k = shape.seq_k;
  index_.first_position = shape.first_position;
  index_.tile_rows = shape.tile_rows;
  index_.rule = shape.rule;
  num_row_tiles_ = index_.View().NumRowTiles();
  const size_t num_lists = static_cast<size_t>(index_.View().NumLists());
  index_.run_begin.reserve(num_lists);
  index_.run_count.reserve(num_lists);
  index_.column_begin.reserve(num_lists);
  index_.column_count.reserve(num_lists);
}

void SparseIndexBuilder::AddRange(int64_t begin, int64_t end, uint32_t half_flags) {
  assert(half_flags == 0 || half_flags == kRunUpperHalf || half_flags == kRunLowerHalf);
  begin = std::max<int64_t>(begin, 0);
  end = std::min<int64_t>(end, shape_.seq_k);
  if (begin >= end) return;
  std::vector<Interval>& rows = half_flags == kRunUpperHalf   ? upper_rows_
                                : half_flags == kRunLowerHalf ? lower_rows_
                                                              : all_rows_;
  rows.push_back({begin, end});
}

void SparseIndexBuilder::AddColumn(int64_t column) {
  if (column >= 0 && column < shape_.seq_k) columns_.push_back(column);
}

void SparseIndexBuilder::SortAndMerge(std::vector<Interval>* intervals) {
  auto earlier = [](const Interval& a, const Interval& b) { return a.begin < b.begin; };
  if (!std::is_sorted(intervals->begin(), intervals->end(), earlier)) {
    std::sort(intervals->begin(), intervals->end(), earlier);
  }
  size_t merged = 0;
  for (const Interval& interval : *intervals) {
    if (merged > 0 && interval.begin <= (*intervals)[merged - 1].end) {
      (*intervals)[merged - 1].end = std::max((*intervals)[merged - 1].end, interval.end);
    } else {
      (*intervals)[merged++] = interval;
    }
  }
  intervals->resize(merged);
}

bool SparseIndexBuilder::KeptByAllRows(int64_t column, RowSpan rows) const {
  // The rows for which a rule keeps a column are an interval, so the first and the last row decide.
  return shape_.rule.Keeps(rows.first, column) && shape_.rule.Keeps(rows.last, column);
}

void SparseIndexBuilder::PushRun(int64_t begin, int64_t end, uint32_t flags) {
  const size_t list_begin = static_cast<size_t>(index_.run_begin.back());
  if (index_.runs.size() > list_begin && index_.runs.back().Flags() == flags && index_.runs.back().End() == begin) {
    begin = index_.runs.back().start;
    index_.runs.pop_back();
  }
  index_.runs.push_back(KeyRun::Make(static_cast<int32_t>(begin), static_cast<int32_t>(end - begin), flags));
}

void SparseIndexBuilder::EmitRun(Interval columns, RowSpan rows, uint32_t half_flags) {
  const ElementRule& rule = shape_.rule;
  if (rule.kind == MaskKind::kNone) {
    PushRun(columns.begin, columns.end, half_flags);
    return;
  }
  if (rule.kind == MaskKind::kCausal && columns.end <= rows.first + 1) {
    PushRun(columns.begin, columns.end, half_flags);
    return;
  }
  // Between two cuts every column is kept by all rows, by some or by none. The diagonal's own column rows.first is kept
  // by all, but is left to the partial part when the run goes on: the full part then ends where a tile does.
  const int64_t window = rule.kind == MaskKind::kCausalWindow ? rule.window : rows.last + 1;
  const int64_t num_sinks = rule.kind == MaskKind::kCausalWindow ? rule.num_sinks : 0;
  std::array<int64_t, 5> cuts = {num_sinks, rows.first - window + 1, rows.last - window + 1, rows.first, rows.last + 1};
  std::sort(cuts.begin(), cuts.end());
  int64_t begin = columns.begin;
  auto emit_until = [&](int64_t end) {
    end = std::min(end, columns.end);
    if (end <= begin) return;
    if (KeptByAllRows(begin, rows) && KeptByAllRows(end - 1, rows)) {
      PushRun(begin, end, half_flags);
    } else if (begin <= rows.last && (begin < num_sinks || end - 1 > rows.first - window)) {
      PushRun(begin, end, half_flags | kRunPartial);
    }
    begin = end;
  };
  for (const int64_t cut : cuts) emit_until(cut);
  emit_until(columns.end);
}

SparseIndexBuilder::RowSpan SparseIndexBuilder::PositionsOfRows(int32_t begin, int32_t end) const {
  return {int64_t{shape_.first_position} + begin, int64_t{shape_.first_position} + end - 1};
}

void SparseIndexBuilder::SettleColumns(RowSpan rows) {
  std::sort(columns_.begin(), columns_.end());
  columns_.erase(std::unique(columns_.begin(), columns_.end()), columns_.end());
  std::erase_if(columns_, [&](int64_t column) {
    if (KeptByAllRows(column, rows)) return false;
    all_rows_.push_back({column, column + 1});
    return true;
  });
}

void SparseIndexBuilder::EmitWithoutHalves(RowSpan rows) {
  SortAndMerge(&all_rows_);
  for (const Interval& columns : all_rows_) EmitRun(columns, rows, 0);
  auto run = all_rows_.cbegin();
  for (const int64_t column : columns_) {
    while (run != all_rows_.cend() && run->end <= column) ++run;
    const bool covered = run != all_rows_.cend() && run->begin <= column;
    if (!covered) index_.columns.push_back(static_cast<int32_t>(column));
  }
}

void SparseIndexBuilder::EmitHalves(RowSpan rows, RowSpan upper, RowSpan lower) {
  for (std::vector<Interval>* half : {&upper_rows_, &lower_rows_}) {
    half->insert(half->end(), all_rows_.begin(), all_rows_.end());
    SortAndMerge(half);
  }
  // A column that one half covers becomes a run, since a single column may lie in no run of the list.
  auto covers = [](std::vector<Interval>::const_iterator* run, const std::vector<Interval>& runs, int64_t column) {
    while (*run != runs.cend() && (*run)->end <= column) ++*run;
    return *run != runs.cend() && (*run)->begin <= column;
  };
  auto next_upper = upper_rows_.cbegin();
  auto next_lower = lower_rows_.cbegin();
  all_rows_.clear();
  for (const int64_t column : columns_) {
    const bool in_upper = covers(&next_upper, upper_rows_, column);
    const bool in_lower = covers(&next_lower, lower_rows_, column);
    if (!in_upper && !in_lower) {
      index_.columns.push_back(static_cast<int32_t>(column));
    } else if (!in_upper || !in_lower) {
      all_rows_.push_back({column, column + 1});
    }
  }
  if (!all_rows_.empty()) {
    for (std::vector<Interval>* half : {&upper_rows_, &lower_rows_}) {
      half->insert(half->end(), all_rows_.begin(), all_rows_.end());
      SortAndMerge(half);
    }
  }

  // One sweep over both halves' boundaries: columns of both, of the upper, of the lower half.
  auto up = upper_rows_.cbegin();
  auto low = lower_rows_.cbegin();
  int64_t at = 0;
  while (up != upper_rows_.cend() || low != lower_rows_.cend()) {
    const int64_t up_begin = up != upper_rows_.cend() ? std::max(up->begin, at) : shape_.seq_k;
    const int64_t low_begin = low != lower_rows_.cend() ? std::max(low->begin, at) : shape_.seq_k;
    at = std::min(up_begin, low_begin);
    const bool in_upper = up_begin == at;
    const bool in_lower = low_begin == at;
    int64_t end = std::min(in_upper ? up->end : up_begin, in_lower ? low->end : low_begin);
    if (in_upper && in_lower) {
      EmitRun({at, end}, rows, 0);
    } else if (in_upper) {
      EmitRun({at, end}, upper, kRunUpperHalf);
    } else {
      EmitRun({at, end}, lower, kRunLowerHalf);
    }
    at = end;
    if (up != upper_rows_.cend() && up->end == end) ++up;
    if (low != lower_rows_.cend() && low->end == end) ++low;
  }
}

void SparseIndexBuilder::FinishList() {
  assert(list_ < index_.View().NumLists());
  index_.run_begin.push_back(static_cast<int64_t>(index_.runs.size()));
  index_.column_begin.push_back(static_cast<int64_t>(index_.columns.size()));

  const int32_t first_row = static_cast<int32_t>(list_ % num_row_tiles_) * shape_.tile_rows;
  const int32_t end_row = first_row + std::min(shape_.tile_rows, shape_.seq_q - first_row);
  const int32_t middle_row = first_row + shape_.tile_rows / 2;
  const RowSpan rows = PositionsOfRows(first_row, end_row);
  if (end_row <= middle_row) {
    // A ragged last tile without lower rows: its upper rows are all it has.
    all_rows_.insert(all_rows_.end(), upper_rows_.begin(), upper_rows_.end());
    upper_rows_.clear();
    lower_rows_.clear();
  }
  SettleColumns(rows);
  if (upper_rows_.empty() && lower_rows_.empty()) {
    EmitWithoutHalves(rows);
  } else {
    EmitHalves(rows, PositionsOfRows(first_row, middle_row), PositionsOfRows(middle_row, end_row));
  }

  index_.run_count.push_back(static_cast<int32_t>(static_cast<int64_t>(index_.runs.size()) - index_.run_begin.back()));
  index_.column_count.push_back(
      static_cast<int32_t>(static_cast<int64_t>(index_.columns.size()) - index_.column_begin.back()));
  all_rows_.clear();
  upper_rows_.clear();
  lower_rows_.clear();
  columns_.clear();
  ++list_;
}

SparseIndex SparseIndexBuilder::Build() {
  assert(list_ == index_.View().NumLists());
  SparseIndex built = std::move(index_);
  *this = SparseIndexBuilder(shape_);
  return built;
}

}  // namespace headscope::kernels
