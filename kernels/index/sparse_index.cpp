// SPDX-License-Identifier: Apache-2.0
#include "kernels/sparse_index.h"

#include <algorithm>

namespace headscope::kernels {
namespace {

// Rows of one tile: [begin, end), and the first row of its lower half (== end when the ragged last tile has none).
struct TileRows {
  int32_t begin;
  int32_t middle;
  int32_t end;
};

TileRows RowsOfTile(const SparseIndexView& index, int32_t tile) {
  const int32_t begin = tile * index.tile_rows;
  const int32_t end = begin + std::min(index.tile_rows, index.seq_q - begin);
  return {begin, std::min(begin + index.tile_rows / 2, end), end};
}

// Columns [columns.begin, columns.end) and the positions [first, last) of the rows that look at them.
struct PartialRun {
  int64_t begin;
  int64_t end;
  int64_t first_position;
  int64_t end_position;
};

// Sum over t < x of clamp(t, 0, limit).
int64_t SumOfClamped(int64_t x, int64_t limit) {
  if (x <= 0) return 0;
  if (x <= limit + 1) return x * (x - 1) / 2;
  return limit * (limit + 1) / 2 + (x - 1 - limit) * limit;
}

// Pairs (p, c) with c <= p - lag: a trapezoid.
int64_t PairsUpTo(const PartialRun& run, int64_t lag) {
  if (run.end <= run.begin) return 0;
  const int64_t length = run.end - run.begin;
  return SumOfClamped(run.end_position - lag + 1 - run.begin, length) -
         SumOfClamped(run.first_position - lag + 1 - run.begin, length);
}

int64_t PairsOfRun(const PartialRun& run, const ElementRule& rule, bool partial) {
  if (!partial || rule.kind == MaskKind::kNone) {
    return (run.end - run.begin) * (run.end_position - run.first_position);
  }
  if (rule.kind == MaskKind::kCausal) return PairsUpTo(run, 0);
  PartialRun sinks = run;
  sinks.end = std::min<int64_t>(run.end, rule.num_sinks);
  PartialRun others = run;
  others.begin = std::max<int64_t>(run.begin, rule.num_sinks);
  return PairsUpTo(sinks, 0) + PairsUpTo(others, 0) - PairsUpTo(others, rule.window);
}

int64_t DensePairsPerHead(const SparseIndexView& index) {
  if (index.rule.kind == MaskKind::kNone) return int64_t{index.seq_q} * index.seq_k;
  const int64_t first = index.first_position;
  return PairsUpTo({0, index.seq_k, first, first + index.seq_q}, 0);
}

// Appends [begin, end), joined to the last interval when that one belongs to the same row and touches.
void AppendInterval(int64_t begin, int64_t end, size_t row_begin, std::vector<ColumnRange>* ranges) {
  if (begin >= end) return;
  if (ranges->size() > row_begin && ranges->back().end == begin) {
    ranges->back().end = static_cast<int32_t>(end);
  } else {
    ranges->push_back({static_cast<int32_t>(begin), static_cast<int32_t>(end)});
  }
}

}  // namespace

SparseIndexView SparseIndex::View() const {
  SparseIndexView view;
  view.batch = batch;
  view.num_qo_heads = num_qo_heads;
  view.seq_q = seq_q;
  view.seq_k = seq_k;
  view.first_position = first_position;
  view.tile_rows = tile_rows;
  view.rule = rule;
  view.run_begin = run_begin.data();
  view.run_count = run_count.data();
  view.column_begin = column_begin.data();
  view.column_count = column_count.data();
  view.runs = runs.data();
  view.columns = columns.data();
  view.runs_size = static_cast<int64_t>(runs.size());
  view.columns_size = static_cast<int64_t>(columns.size());
  return view;
}

bool KeepsEverything(const SparseIndexView& index) {
  if (index.rule.kind == MaskKind::kCausalWindow) return false;
  const int32_t num_tiles = index.NumRowTiles();
  for (int64_t list = 0; list < index.NumLists(); ++list) {
    const int64_t last_row = std::min<int64_t>((list % num_tiles + 1) * index.tile_rows, index.seq_q) - 1;
    const int64_t end = index.rule.kind == MaskKind::kNone
                            ? index.seq_k
                            : std::min<int64_t>(index.first_position + last_row + 1, index.seq_k);
    int64_t kept = 0;  // of the first keys
    for (int32_t i = 0; i < index.run_count[list]; ++i) {
      const KeyRun run = index.runs[index.run_begin[list] + i];
      if (run.start != kept || (run.Flags() & (kRunUpperHalf | kRunLowerHalf)) != 0) return false;
      kept = run.End();
    }
    if (kept < end) return false;
  }
  return true;
}

void AppendKeptRanges(const SparseIndexView& index, int32_t sequence, int32_t head, int32_t row,
                      std::vector<ColumnRange>* ranges) {
  const int32_t tile = row / index.tile_rows;
  const int64_t list = index.ListId(sequence, head, tile);
  const uint32_t other_half = row - tile * index.tile_rows < index.tile_rows / 2 ? kRunLowerHalf : kRunUpperHalf;
  const int64_t position = int64_t{index.first_position} + row;
  const int32_t* column = index.columns + index.column_begin[list];
  const int32_t* const columns_end = column + index.column_count[list];
  const KeyRun* const runs = index.runs + index.run_begin[list];
  const size_t row_begin = ranges->size();

  for (int32_t i = 0; i < index.run_count[list]; ++i) {
    const KeyRun run = runs[i];
    if ((run.Flags() & other_half) != 0) continue;
    for (; column != columns_end && *column < run.start; ++column) {
      AppendInterval(*column, *column + 1, row_begin, ranges);
    }
    const ElementRule& rule = index.rule;
    if (!run.Partial() || rule.kind == MaskKind::kNone) {
      AppendInterval(run.start, run.End(), row_begin, ranges);
      continue;
    }
    const int64_t end = std::min<int64_t>(run.End(), position + 1);
    if (rule.kind == MaskKind::kCausal) {
      AppendInterval(run.start, end, row_begin, ranges);
    } else {
      const int64_t window_begin = position - rule.window + 1;
      AppendInterval(run.start, std::min<int64_t>(end, rule.num_sinks), row_begin, ranges);
      AppendInterval(std::max<int64_t>({run.start, rule.num_sinks, window_begin}), end, row_begin, ranges);
    }
  }
  for (; column != columns_end; ++column) AppendInterval(*column, *column + 1, row_begin, ranges);
}

PairCount CountPairs(const SparseIndexView& index, int32_t sequence, int32_t head) {
  PairCount count;
  count.dense = DensePairsPerHead(index);
  const int64_t first_position = index.first_position;
  for (int32_t tile = 0; tile < index.NumRowTiles(); ++tile) {
    const TileRows rows = RowsOfTile(index, tile);
    const int64_t list = index.ListId(sequence, head, tile);
    const KeyRun* const runs = index.runs + index.run_begin[list];
    for (int32_t i = 0; i < index.run_count[list]; ++i) {
      const KeyRun run = runs[i];
      const int32_t begin = (run.Flags() & kRunLowerHalf) != 0 ? rows.middle : rows.begin;
      const int32_t end = (run.Flags() & kRunUpperHalf) != 0 ? rows.middle : rows.end;
      const PartialRun pairs{run.start, run.End(), first_position + begin, first_position + end};
      count.kept += PairsOfRun(pairs, index.rule, run.Partial());
    }
    count.kept += int64_t{index.column_count[list]} * (rows.end - rows.begin);
  }
  return count;
}

PairCount CountPairs(const SparseIndexView& index) {
  PairCount total;
  for (int32_t sequence = 0; sequence < index.batch; ++sequence) {
    for (int32_t head = 0; head < index.num_qo_heads; ++head) {
      const PairCount count = CountPairs(index, sequence, head);
      total.kept += count.kept;
      total.dense += count.dense;
    }
  }
  return total;
}

}  // namespace headscope::kernels
