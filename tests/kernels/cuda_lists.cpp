// SPDX-License-Identifier: Apache-2.0
#include "cuda_lists.h"

#include <algorithm>

namespace headscope::kernels::testing {
namespace {

class ListMaker {
 public:
  ListMaker(const ListShape& shape, Pattern pattern, uint32_t seed) : shape_(shape), pattern_(pattern), random_(seed) {}

  void AppendList(int64_t list, int32_t tile, SparseIndex* index) {
    index->run_begin.push_back(static_cast<int64_t>(index->runs.size()));
    index->column_begin.push_back(static_cast<int64_t>(index->columns.size()));
    const int32_t first_row = tile * shape_.tile_rows;
    const int32_t rows = std::min(shape_.tile_rows, shape_.seq_q - first_row);
    const int32_t first = shape_.first_position + first_row;
    causal_ = shape_.rule.kind != MaskKind::kNone;
    first_position_ = first;
    half_position_ = first + shape_.tile_rows / 2;
    end_ = causal_ ? std::min(shape_.seq_k, first + rows) : shape_.seq_k;
    has_lower_ = rows > shape_.tile_rows / 2;
    Fill(list, index);
    index->run_count.push_back(static_cast<int32_t>(index->runs.size()) -
                               static_cast<int32_t>(index->run_begin.back()));
    index->column_count.push_back(static_cast<int32_t>(index->columns.size()) -
                                  static_cast<int32_t>(index->column_begin.back()));
  }

 private:
  int32_t Below(int32_t bound) { return static_cast<int32_t>(random_() % static_cast<uint32_t>(std::max(bound, 1))); }

  // A run that reaches past the first position of its rows must be partial, and so may any other.
  void AddRun(int32_t start, int32_t length, uint32_t half, bool partial, SparseIndex* index) {
    const int32_t first = half == kRunLowerHalf ? half_position_ : first_position_;
    if (causal_ && start + length > first + 1) partial = true;
    index->runs.push_back(KeyRun::Make(start, length, half | (partial ? kRunPartial : 0u)));
  }

  void Fill(int64_t list, SparseIndex* index) {
    switch (pattern_) {
      case Pattern::kEmpty:
        return;
      case Pattern::kSomeEmpty:
        if (list % 2 == 0) return;
        FillRandom(300, 40, 0, index);
        return;
      case Pattern::kDense: {
        const bool windowed = shape_.rule.kind == MaskKind::kCausalWindow;
        const int32_t full = windowed ? 0 : causal_ ? std::min(first_position_, shape_.seq_k) : shape_.seq_k;
        if (full > 0) AddRun(0, full, 0, false, index);
        if (end_ > full) AddRun(full, end_ - full, 0, true, index);
        return;
      }
      case Pattern::kRandom:
        FillRandom(400, 60, 3, index);
        return;
      case Pattern::kShortRuns:
        FillRandom(100, 30, 0, index);
        return;
      case Pattern::kHalves:
        FillRandom(200, 30, 1, index, true);
        return;
      case Pattern::kHoles:
        FillWithHoles(index);
        return;
      case Pattern::kOverhang:
        FillWithOverhang(index);
        return;
      case Pattern::kColumns:
        for (int32_t c = Below(4); c < LastFree(); c += 1 + Below(7)) index->columns.push_back(c);
        return;
      case Pattern::kAllColumns:
        for (int32_t c = 0; c < LastFree(); ++c) index->columns.push_back(c);
        if (end_ > LastFree()) AddRun(LastFree(), end_ - LastFree(), 0, true, index);
        return;
      case Pattern::kOneKey: {
        const int32_t column = Below(LastFree());
        if (list % 2 == 0) {
          index->columns.push_back(column);
        } else {
          AddRun(column, 1, 0, false, index);
        }
        return;
      }
    }
  }

  // Columns below this are kept by every row of the tile.
  int32_t LastFree() const { return causal_ ? std::min(first_position_ + 1, shape_.seq_k) : shape_.seq_k; }

  // Runs of 1 to max_length keys, gaps of up to max_gap with `columns_per_gap` columns in them.
  void FillRandom(int32_t max_length, int32_t max_gap, int32_t columns_per_gap, SparseIndex* index,
                  bool halves = false) {
    int32_t at = 0;
    while (at < end_) {
      const int32_t gap = Below(max_gap + 1);
      int32_t column = at;
      for (int32_t i = 0; i < columns_per_gap; ++i) {
        column += Below(gap / std::max(columns_per_gap, 1));
        if (column >= std::min(at + gap, LastFree())) break;
        index->columns.push_back(column++);
      }
      at += gap;
      const int32_t length = std::min(1 + Below(max_length), end_ - at);
      if (length <= 0) return;
      if (halves) {
        const int32_t kind = Below(has_lower_ ? 4 : 2);
        if (kind == 3) {
          // Both halves over overlapping keys.
          AddRun(at, length, kRunUpperHalf, false, index);
          AddRun(at + length / 2, std::max(1, length / 3), kRunLowerHalf, false, index);
        } else {
          AddRun(at, length, kind == 0 ? 0u : kind == 1 ? kRunUpperHalf : kRunLowerHalf, false, index);
        }
        at += length;
      } else {
        AddRun(at, length, 0, Below(8) == 0, index);
      }
      at += length;
    }
  }

  // The same keys are in no list: each with a chance of one in nine, so that few stretches of 128 keys are whole and
  // the gaps are of one or two keys. What is between them belongs to both halves, to one, or to nobody.
  static bool NamedByNone(int32_t key) { return static_cast<uint32_t>(key) * 2654435761u % 9u == 0; }
  void FillWithHoles(SparseIndex* index) {
    for (int32_t at = 0; at < end_;) {
      if (NamedByNone(at)) {
        ++at;
        continue;
      }
      int32_t end = at + 1;
      while (end < end_ && !NamedByNone(end) && Below(16) != 0) ++end;
      const int32_t kind = Below(8);
      if (kind < 5 || (kind == 6 && !has_lower_)) {
        AddRun(at, end - at, 0, Below(8) == 0, index);
      } else if (kind < 7) {
        AddRun(at, end - at, kind == 5 ? kRunUpperHalf : kRunLowerHalf, false, index);
      }
      at = end;
    }
  }

  // Runs that reach behind their rows' last position, in front of their rows' windows, and into rows that there are
  // not.
  void FillWithOverhang(SparseIndex* index) {
    for (int32_t at = Below(40); at < shape_.seq_k;) {
      const int32_t length = std::min(1 + Below(300), shape_.seq_k - at);
      const int32_t kind = Below(5);
      if (kind == 4 && length > 1) {
        AddRun(at, length - 1, kRunUpperHalf, true, index);
        AddRun(at + length / 2, length - length / 2, kRunLowerHalf, true, index);
      } else {
        AddRun(at, length, kind % 3 == 1 ? kRunUpperHalf : kind % 3 == 2 ? kRunLowerHalf : 0u, true, index);
      }
      at += length + Below(30);
    }
  }

  ListShape shape_;
  Pattern pattern_;
  std::mt19937 random_;
  bool causal_ = true;
  bool has_lower_ = true;
  int32_t first_position_ = 0;
  int32_t half_position_ = 0;
  int32_t end_ = 0;
};

}  // namespace

SparseIndex MakeLists(const ListShape& shape, Pattern pattern, uint32_t seed) {
  SparseIndex index;
  index.batch = shape.batch;
  index.num_qo_heads = shape.num_qo_heads;
  index.seq_q = shape.seq_q;
  index.seq_k = shape.seq_k;
  index.first_position = shape.first_position;
  index.tile_rows = shape.tile_rows;
  index.rule = shape.rule;
  ListMaker maker(shape, pattern, seed);
  const int64_t lists = index.View().NumLists();
  for (int64_t list = 0; list < lists; ++list) {
    maker.AppendList(list, static_cast<int32_t>(list % index.View().NumRowTiles()), &index);
  }
  return index;
}

}  // namespace headscope::kernels::testing
