// SPDX-License-Identifier: Apache-2.0
#include "tiles/map_texels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/stop.h"
#include "kernels/cpu_scores.h"
#include "kernels/parallel.h"
#include "tiles/gpu_texels.h"

namespace headscope::analysis {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
// Rows and columns of one ScoreBlock call: 128 KiB of scores, which stay in the L2 cache until they are reduced.
constexpr int64_t kScoredRows = 32;
constexpr int64_t kScoredColumns = 1024;

// Texel rows [first, last) that one task reduces together: at least one, and more while they have few rows, because
// ScoreBlock is fast only for several rows at a time.
struct Band {
  int64_t first = 0, last = 0;
};

std::vector<Band> CutBands(const std::vector<int64_t>& row_edges, int64_t row_step) {
  std::vector<Band> bands;
  const auto count = static_cast<int64_t>(row_edges.size()) - 1;
  for (int64_t first = 0; first < count;) {
    int64_t last = first + 1;
    while (last < count &&
           row_edges[static_cast<size_t>(last + 1)] - row_edges[static_cast<size_t>(first)] <= kScoredRows * row_step)
      ++last;
    bands.push_back({first, last});
    first = last;
  }
  return bands;
}

class Accumulator {
 public:
  // What is reduced: the arrays that the grid has.
  Accumulator(const HeadTensors& head, const TexelEdges& edges, int64_t row_step, TexelGrid* grid)
      : head_(head),
        edges_(edges),
        by_max_(!grid->max_log2_p.empty()),
        by_mean_(!grid->sum_p.empty()),
        row_step_(row_step),
        grid_(*grid) {
    column_begin_ = std::clamp<int64_t>(edges.columns.front(), 0, head.num_tokens);
    column_end_ = std::clamp<int64_t>(edges.columns.back(), column_begin_, head.num_tokens);
    if (column_end_ > column_begin_) {
      keys_ = kernels::PackedKeys(head.k.data() + column_begin_ * head.head_dim, kernels::DType::kFloat32,
                                  head.head_dim, static_cast<int32_t>(column_end_ - column_begin_), head.head_dim);
    }
  }

  struct Workspace {
    std::vector<float> scores;
    // [texel rows of the band, width], over the texel's rows: maximum of score - lse, sum of p. Empty where not wanted.
    std::vector<float> largest, sums;
  };

  void RunBand(const Band& band, Workspace* workspace) const {
    const int64_t width = column_end_ - column_begin_;
    workspace->scores.resize(static_cast<size_t>(kScoredRows * kScoredColumns));
    const auto values = static_cast<size_t>((band.last - band.first) * width);
    workspace->largest.assign(by_max_ ? values : 0, kMinusInfinity);
    workspace->sums.assign(by_mean_ ? values : 0, 0.0f);
    const int64_t row_begin = std::clamp<int64_t>(edges_.rows[static_cast<size_t>(band.first)], 0, head_.num_rows);
    const int64_t row_end = std::clamp<int64_t>(edges_.rows[static_cast<size_t>(band.last)], row_begin, head_.num_rows);
    for (int64_t row = FirstSample(row_begin); row < row_end; row += kScoredRows * row_step_) {
      ReduceRows(band, row, std::min(row + kScoredRows * row_step_, row_end), workspace);
    }
    for (int64_t texel_row = band.first; texel_row < band.last; ++texel_row) {
      ReduceColumns(texel_row, (texel_row - band.first) * width, *workspace);
    }
  }

 private:
  // The first row that counts at or after `row`.
  int64_t FirstSample(int64_t row) const { return row + (row_step_ - 1 - row % row_step_); }
  // Of rows [first, end), the first of which counts.
  int64_t NumSamples(int64_t first, int64_t end) const {
    return std::max<int64_t>(0, (end - first + row_step_ - 1) / row_step_);
  }
  // Columns of `row` inside the region, relative to column_begin_.
  kernels::ColumnRange Inside(int64_t row) const {
    const kernels::ColumnRange range = head_.AttendedColumns(row);
    const auto begin = static_cast<int32_t>(std::max<int64_t>(range.begin, column_begin_) - column_begin_);
    const auto end = static_cast<int32_t>(std::min<int64_t>(range.end, column_end_) - column_begin_);
    return {begin, std::max(begin, end)};
  }

  // At most kScoredRows rows that count, from the first of them on, folded into the rows of their texels.
  void ReduceRows(const Band& band, int64_t row_begin, int64_t row_end, Workspace* workspace) const {
    const int64_t width = column_end_ - column_begin_;
    kernels::ColumnRange any{static_cast<int32_t>(width), 0};
    for (int64_t row = row_begin; row < row_end; row += row_step_) {
      const kernels::ColumnRange range = Inside(row);
      if (range.begin == range.end) continue;
      any = {std::min(any.begin, range.begin), std::max(any.end, range.end)};
    }
    for (int64_t begin = any.begin; begin < any.end; begin += kScoredColumns) {
      const int64_t end = std::min<int64_t>(begin + kScoredColumns, any.end);
      kernels::ScoreBlock(head_.q.data() + row_begin * head_.head_dim, row_step_ * head_.head_dim,
                          static_cast<int32_t>(NumSamples(row_begin, row_end)), keys_, static_cast<int32_t>(begin),
                          static_cast<int32_t>(end), head_.scale, head_.soft_cap, workspace->scores.data(),
                          kScoredColumns);
      int64_t texel_row = band.first;
      for (int64_t row = row_begin; row < row_end; row += row_step_) {
        while (row >= edges_.rows[static_cast<size_t>(texel_row + 1)]) ++texel_row;
        const kernels::ColumnRange range = Inside(row);
        const int64_t from = std::max<int64_t>(range.begin, begin);
        const int64_t count = std::min<int64_t>(range.end, end) - from;
        if (count <= 0) continue;
        float* scores = workspace->scores.data() + (row - row_begin) / row_step_ * kScoredColumns + (from - begin);
        Fold(scores, count, head_.lse[static_cast<size_t>(row)], (texel_row - band.first) * width + from, workspace);
      }
    }
  }

  void Fold(float* scores, int64_t count, float lse, int64_t place, Workspace* workspace) const {
    if (by_max_) {  // before the scores become probabilities
      float* const largest = workspace->largest.data() + place;
      for (int64_t j = 0; j < count; ++j) largest[j] = std::max(largest[j], scores[j] - lse);
    }
    if (by_mean_) {
      float* const sums = workspace->sums.data() + place;
      kernels::ExpInPlace(scores, count, lse);
      for (int64_t j = 0; j < count; ++j) sums[j] += scores[j];
    }
  }

  // `place`: where the texel row's columns begin in the workspace.
  void ReduceColumns(int64_t texel_row, int64_t place, const Workspace& workspace) const {
    const int64_t first_row = std::clamp<int64_t>(edges_.rows[static_cast<size_t>(texel_row)], 0, head_.num_rows);
    const int64_t row_end =
        std::clamp<int64_t>(edges_.rows[static_cast<size_t>(texel_row + 1)], first_row, head_.num_rows);
    const int64_t row_begin = FirstSample(first_row);
    // Columns that all rows of the texel attend to: texels inside need no look at single rows.
    kernels::ColumnRange common{0, static_cast<int32_t>(column_end_ - column_begin_)};
    for (int64_t row = row_begin; row < row_end; row += row_step_) {
      const kernels::ColumnRange range = Inside(row);
      common = {std::max(common.begin, range.begin), std::min(common.end, range.end)};
    }
    for (int64_t texel_column = 0; texel_column < grid_.num_columns; ++texel_column) {
      const int64_t begin =
          std::clamp(edges_.columns[static_cast<size_t>(texel_column)], column_begin_, column_end_) - column_begin_;
      const int64_t end =
          std::clamp(edges_.columns[static_cast<size_t>(texel_column + 1)], column_begin_, column_end_) - column_begin_;
      int64_t pairs = 0;
      if (begin >= common.begin && end <= common.end) {
        pairs = NumSamples(row_begin, row_end) * (end - begin);
      } else {
        for (int64_t row = row_begin; row < row_end; row += row_step_) {
          const kernels::ColumnRange range = Inside(row);
          pairs += std::max<int64_t>(0, std::min<int64_t>(range.end, end) - std::max<int64_t>(range.begin, begin));
        }
      }
      const auto texel = static_cast<size_t>(texel_row * grid_.num_columns + texel_column);
      grid_.pairs[texel] = pairs;
      if (by_mean_) {
        const float* const sums = workspace.sums.data() + place;
        double sum = 0;
        for (int64_t j = begin; j < end; ++j) sum += static_cast<double>(sums[j]);
        grid_.sum_p[texel] = sum;
      }
      if (by_max_) {
        const float* const maxima = workspace.largest.data() + place;
        float largest = kMinusInfinity;
        for (int64_t j = begin; j < end; ++j) largest = std::max(largest, maxima[j]);
        grid_.max_log2_p[texel] = largest * std::numbers::log2e_v<float>;
      }
    }
  }

  const HeadTensors& head_;
  const TexelEdges& edges_;
  const bool by_max_, by_mean_;
  const int64_t row_step_;
  TexelGrid& grid_;
  int64_t column_begin_ = 0, column_end_ = 0;
  kernels::PackedKeys keys_;
};

}  // namespace

float TexelGrid::Log2P(TileReduction reduction, int64_t texel) const {
  const auto i = static_cast<size_t>(texel);
  if (pairs[i] == 0) return kMinusInfinity;
  if (reduction == TileReduction::kMax) return max_log2_p[i];
  return static_cast<float>(std::log2(sum_p[i] / static_cast<double>(pairs[i])));
}

std::vector<int64_t> EvenEdges(int64_t begin, int64_t step, int64_t count) {
  std::vector<int64_t> edges(static_cast<size_t>(count + 1));
  for (int64_t i = 0; i <= count; ++i) edges[static_cast<size_t>(i)] = begin + i * step;
  return edges;
}

void AccumulateTexels(const HeadTensors& head, const TexelEdges& edges, std::span<const TileReduction> reductions,
                      int32_t num_threads, const std::stop_token& stop, TexelGrid* grid, int64_t row_step) {
  grid->num_rows = edges.NumRows();
  grid->num_columns = edges.NumColumns();
  const auto texels = static_cast<size_t>(grid->num_rows * grid->num_columns);
  grid->pairs.assign(texels, 0);
  grid->on_gpu = false;
  grid->sum_p.clear();
  grid->max_log2_p.clear();
  for (const TileReduction reduction : reductions) {
    if (reduction == TileReduction::kMean) {
      grid->sum_p.assign(texels, 0.0);
    } else {
      grid->max_log2_p.assign(texels, kMinusInfinity);
    }
  }
  StopIfAsked(stop);
  if (head.gpu != nullptr && row_step == 1) {
    grid->on_gpu = std::all_of(reductions.begin(), reductions.end(),
                               [&](TileReduction reduction) { return AccumulateOnGpu(head, edges, reduction, grid); });
    if (grid->on_gpu) return;
  }
  const Accumulator accumulator(head, edges, row_step, grid);
  const std::vector<Band> bands = CutBands(edges.rows, row_step);
  const auto num_bands = static_cast<int64_t>(bands.size());
  std::vector<Accumulator::Workspace> workspaces(static_cast<size_t>(kernels::NumWorkers(num_threads, num_bands)));
  // The last bands are the longest under causality: they go first.
  const bool finished = kernels::ParallelFor(num_bands, num_threads, stop, [&](int64_t index, int32_t worker) {
    accumulator.RunBand(bands[static_cast<size_t>(num_bands - 1 - index)], &workspaces[static_cast<size_t>(worker)]);
  });
  StopUnless(finished);
}

}  // namespace headscope::analysis
