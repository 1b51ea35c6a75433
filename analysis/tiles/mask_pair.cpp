// SPDX-License-Identifier: Apache-2.0
#include "analysis/mask_pair.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "base/stop.h"
#include "kernels/parallel.h"
#include "tiles/map_texels.h"
#include "tiles/texel_counts.h"

namespace headscope::analysis {
namespace {

using kernels::ColumnRange;
using Ranges = std::vector<ColumnRange>;

struct RowSpan {
  int64_t begin = 0, end = 0;
};

RowSpan RowsOf(const KeptMask& mask) {
  if (mask.steps) return {mask.steps->first_row, mask.steps->end_row()};
  return {0, mask.index->View().seq_q};
}

RowSpan RowsOf(const MaskLists& lists) {
  if (lists.steps != nullptr) return {lists.steps->first_row, lists.steps->end_row()};
  return {0, lists.index->seq_q};
}

RowSpan Common(const RowSpan& a, const RowSpan& b) {
  const int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

// One mask, read row by row.
class MaskRows {
 public:
  explicit MaskRows(const KeptMask& mask) : window_(mask.window), steps_(mask.steps.get()) {
    if (mask.index) index_ = mask.index->View();
  }
  MaskRows(const MaskLists& lists, int32_t window) : window_(window), steps_(lists.steps) {
    if (lists.index != nullptr) index_ = *lists.index;
  }

  const Ranges& Kept(int64_t row) {
    if (steps_ != nullptr) return StepOf(row).kept;
    kept_.clear();
    kernels::AppendKeptRanges(index_, 0, 0, static_cast<int32_t>(row), &kept_);
    return kept_;
  }

  ColumnRange Attended(int64_t row) const {
    if (steps_ != nullptr) return StepOf(row).attended;
    if (index_.rule.kind == kernels::MaskKind::kNone) return {0, index_.seq_k};
    const int64_t end = std::min<int64_t>(index_.first_position + row + 1, index_.seq_k);
    const int64_t begin = window_ > 0 ? std::max<int64_t>(end - window_, 0) : 0;
    return {static_cast<int32_t>(begin), static_cast<int32_t>(end)};
  }

 private:
  const KeptStep& StepOf(int64_t row) const { return steps_->steps[static_cast<size_t>(row - steps_->first_row)]; }

  kernels::SparseIndexView index_{};
  int32_t window_ = 0;
  const KeptSteps* steps_ = nullptr;
  Ranges kept_;
};

// Calls add(by, begin, end) for the columns that either keeps, in ascending order. Both are sorted and disjoint.
template <typename Add>
void SweepKept(const Ranges& first, const Ranges& second, const Add& add) {
  size_t a = 0, b = 0;
  int64_t at = 0;
  while (a < first.size() || b < second.size()) {
    if (b == second.size() || (a < first.size() && first[a].end <= std::max<int64_t>(at, second[b].begin))) {
      const int64_t begin = std::max<int64_t>(at, first[a].begin);
      if (begin < first[a].end) add(KeptBy::kFirstAlone, begin, int64_t{first[a].end});
      at = std::max<int64_t>(at, first[a++].end);
      continue;
    }
    if (a == first.size() || second[b].end <= std::max<int64_t>(at, first[a].begin)) {
      const int64_t begin = std::max<int64_t>(at, second[b].begin);
      if (begin < second[b].end) add(KeptBy::kSecondAlone, begin, int64_t{second[b].end});
      at = std::max<int64_t>(at, second[b++].end);
      continue;
    }
    // They meet: first what lies before the meeting, then the meeting itself.
    const int64_t a_begin = std::max<int64_t>(at, first[a].begin), b_begin = std::max<int64_t>(at, second[b].begin);
    const int64_t meet = std::max(a_begin, b_begin);
    if (a_begin < meet) add(KeptBy::kFirstAlone, a_begin, meet);
    if (b_begin < meet) add(KeptBy::kSecondAlone, b_begin, meet);
    at = std::min<int64_t>(first[a].end, second[b].end);
    add(KeptBy::kBoth, meet, at);
    if (first[a].end == at) ++a;
    if (second[b].end == at) ++b;
  }
}

}  // namespace

MaskPairTilePtr ComputeMaskPairTile(const KeptMask& first, const KeptMask& second, const TileKey& key,
                                    const std::stop_token& stop) {
  const RowSpan rows = Common(RowsOf(first), RowsOf(second));
  MaskRows of_first(first), of_second(second);
  const int64_t texel_rows = int64_t{1} << key.level;
  const int64_t first_column = int64_t{key.x} * kTileSize * texel_rows;
  auto tile = std::make_shared<MaskPairTile>();
  tile->key = key;
  tile->kept.assign(size_t{kTileSize} * kTileSize * kNumKeptBy, 0);
  for (int64_t y = 0; y < kTileSize; ++y) {
    StopIfAsked(stop);
    const int64_t row = (int64_t{key.y} * kTileSize + y) * texel_rows;
    const int64_t begin = std::max(row, rows.begin), end = std::min(row + texel_rows, rows.end);
    if (begin >= end) continue;
    std::array<TexelCounts, kNumKeptBy> kept{};
    TexelCounts attended_pairs{};
    for (int64_t i = begin; i < end; ++i) {
      const ColumnRange attended = of_first.Attended(i);
      AddColumns(attended.begin, attended.end, first_column, key.level, &attended_pairs);
      SweepKept(of_first.Kept(i), of_second.Kept(i), [&](KeptBy by, int64_t from, int64_t to) {
        AddColumns(from, to, first_column, key.level, &kept[static_cast<size_t>(by)]);
      });
    }
    for (size_t x = 0; x < kTileSize; ++x) {
      const size_t texel = (static_cast<size_t>(y) * kTileSize + x) * kNumKeptBy;
      for (size_t by = 0; by < kNumKeptBy; ++by) tile->kept[texel + by] = KeptByte(kept[by][x], attended_pairs[x]);
    }
  }
  return tile;
}

MaskPairTexels CountMaskPairTexels(const MaskLists& first, const MaskLists& second, int32_t window,
                                   const TexelEdges& edges) {
  const auto columns = static_cast<size_t>(edges.NumColumns());
  MaskPairTexels texels;
  texels.kept.resize(static_cast<size_t>(edges.NumRows()) * columns);
  texels.pairs.resize(texels.kept.size());
  const RowSpan of_both = Common(RowsOf(first), RowsOf(second));
  MaskRows of_first(first, window), of_second(second, window);
  for (size_t line = 0; line + 1 < edges.rows.size(); ++line) {
    const int64_t end = std::min(edges.rows[line + 1], of_both.end);
    for (int64_t row = std::max(edges.rows[line], of_both.begin); row < end; ++row) {
      const ColumnRange attended = of_first.Attended(row);
      ForTexels(edges.columns, attended.begin, attended.end, [&](size_t texel, int64_t from, int64_t until) {
        texels.pairs[line * columns + texel] += until - from;
      });
      SweepKept(of_first.Kept(row), of_second.Kept(row), [&](KeptBy by, int64_t from, int64_t to) {
        ForTexels(edges.columns, from, to, [&](size_t texel, int64_t begin, int64_t until) {
          texels.kept[line * columns + texel][static_cast<size_t>(by)] += until - begin;
        });
      });
    }
  }
  return texels;
}

MaskOverlap CountMaskOverlap(const KeptMask& first, const KeptMask& second, int32_t num_threads,
                             const std::stop_token& stop) {
  constexpr int64_t kRowsAtOnce = 64;  // of one worker: the lists of a tile of an index stay in its cache
  const RowSpan rows = Common(RowsOf(first), RowsOf(second));
  MaskOverlap overlap;
  std::mutex mutex;
  const int64_t count = (rows.end - rows.begin + kRowsAtOnce - 1) / kRowsAtOnce;
  const bool finished = kernels::ParallelFor(count, num_threads, stop, [&](int64_t part, int32_t) {
    MaskRows of_first(first), of_second(second);
    std::array<int64_t, kNumKeptBy> kept{};
    int64_t pairs = 0;
    const int64_t begin = rows.begin + part * kRowsAtOnce;
    for (int64_t row = begin; row < std::min(begin + kRowsAtOnce, rows.end); ++row) {
      const ColumnRange attended = of_first.Attended(row);
      pairs += attended.end - attended.begin;
      SweepKept(of_first.Kept(row), of_second.Kept(row),
                [&](KeptBy by, int64_t from, int64_t to) { kept[static_cast<size_t>(by)] += to - from; });
    }
    const std::lock_guard lock(mutex);
    overlap.first_alone += kept[static_cast<size_t>(KeptBy::kFirstAlone)];
    overlap.second_alone += kept[static_cast<size_t>(KeptBy::kSecondAlone)];
    overlap.both += kept[static_cast<size_t>(KeptBy::kBoth)];
    overlap.pairs += pairs;
  });
  StopUnless(finished);
  return overlap;
}

}  // namespace headscope::analysis
