// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tiles/map_texels.h"
#include "tiles/pair_counts.h"
#include "tiles/texel_counts.h"

namespace headscope::analysis {
namespace {

// Pairs that the element rule keeps, over positions [p0, p1) and columns [c0, c1).
int64_t RulePairs(const kernels::ElementRule& rule, int64_t p0, int64_t p1, int64_t c0, int64_t c1) {
  if (rule.kind == kernels::MaskKind::kNone) return (p1 - p0) * (c1 - c0);
  if (rule.kind == kernels::MaskKind::kCausal) return CausalPairs(p0, p1, c0, c1);
  const int64_t sinks_end = std::clamp<int64_t>(rule.num_sinks, c0, c1);
  const int64_t sinks = CausalPairs(p0, p1, c0, sinks_end);
  // Outside the sinks: causal, less what lies at least `window` behind.
  return sinks + CausalPairs(p0, p1, sinks_end, c1) - CausalPairs(p0 - rule.window, p1 - rule.window, sinks_end, c1);
}

class TexelRow {
 public:
  TexelRow(const std::vector<int64_t>& column_edges, int64_t* kept) : edges_(column_edges), kept_(kept) {}

  // Adds pairs(c0, c1) to each texel that columns [begin, end) touch.
  template <typename Pairs>
  void AddRun(int64_t begin, int64_t end, Pairs&& pairs) {
    ForTexels(edges_, begin, end, [&](size_t texel, int64_t c0, int64_t c1) { kept_[texel] += pairs(c0, c1); });
  }

  // Adds `rows` pairs for each single column (sorted).
  void AddColumns(const int32_t* columns, int32_t count, int64_t rows) {
    const int32_t* column = std::lower_bound(columns, columns + count, edges_.front());
    size_t texel = 0;
    for (; column != columns + count && *column < edges_.back(); ++column) {
      while (*column >= edges_[texel + 1]) ++texel;
      kept_[texel] += rows;
    }
  }

 private:
  const std::vector<int64_t>& edges_;
  int64_t* kept_;
};

// Rows of `tile` that a run with `flags` belongs to, cut to [row_begin, row_end).
std::pair<int64_t, int64_t> RowsOfRun(const kernels::SparseIndexView& index, int64_t tile, uint32_t flags,
                                      int64_t row_begin, int64_t row_end) {
  int64_t first = tile * index.tile_rows;
  int64_t last = first + index.tile_rows;
  if ((flags & kernels::kRunUpperHalf) != 0) last = first + index.tile_rows / 2;
  if ((flags & kernels::kRunLowerHalf) != 0) first += index.tile_rows / 2;
  first = std::max(first, row_begin);
  return {first, std::max(first, std::min(last, row_end))};
}

}  // namespace

MaskTexels CountMaskTexels(const kernels::SparseIndexView& index, int32_t window, const TexelEdges& edges) {
  MaskTexels texels;
  const auto count = static_cast<size_t>(edges.NumRows() * edges.NumColumns());
  texels.kept.assign(count, 0);
  texels.pairs.assign(count, 0);
  kernels::ElementRule region{};  // what counts as a pair at all
  if (window > 0) {
    region = {kernels::MaskKind::kCausalWindow, window, 0};
  } else if (index.rule.kind == kernels::MaskKind::kNone) {
    region.kind = kernels::MaskKind::kNone;
  }
  for (int64_t i = 0; i < edges.NumRows(); ++i) {
    const int64_t row_begin = std::clamp<int64_t>(edges.rows[static_cast<size_t>(i)], 0, index.seq_q);
    const int64_t row_end = std::clamp<int64_t>(edges.rows[static_cast<size_t>(i + 1)], row_begin, index.seq_q);
    if (row_begin == row_end) continue;
    const int64_t position = index.first_position;
    TexelRow pairs_row(edges.columns, texels.pairs.data() + i * edges.NumColumns());
    pairs_row.AddRun(0, index.seq_k, [&](int64_t c0, int64_t c1) {
      return RulePairs(region, position + row_begin, position + row_end, c0, c1);
    });
    TexelRow kept_row(edges.columns, texels.kept.data() + i * edges.NumColumns());
    for (int64_t tile = row_begin / index.tile_rows; tile * index.tile_rows < row_end; ++tile) {
      const auto list = static_cast<size_t>(index.ListId(0, 0, static_cast<int32_t>(tile)));
      const kernels::KeyRun* runs = index.runs + index.run_begin[list];
      for (int32_t r = 0; r < index.run_count[list]; ++r) {
        const kernels::KeyRun& run = runs[r];
        const auto [first, last] = RowsOfRun(index, tile, run.Flags(), row_begin, row_end);
        if (first == last) continue;
        const kernels::ElementRule rule =
            run.Partial() ? index.rule : kernels::ElementRule{kernels::MaskKind::kNone, 0, 0};
        kept_row.AddRun(run.start, run.End(), [&, first = first, last = last](int64_t c0, int64_t c1) {
          return RulePairs(rule, position + first, position + last, c0, c1);
        });
      }
      const auto [first, last] = RowsOfRun(index, tile, 0, row_begin, row_end);
      kept_row.AddColumns(index.columns + index.column_begin[list], index.column_count[list], last - first);
    }
  }
  return texels;
}

}  // namespace headscope::analysis
