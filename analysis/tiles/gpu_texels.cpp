// SPDX-License-Identifier: Apache-2.0
#include "tiles/gpu_texels.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include "kernels/cuda_statistics.h"
#include "tiles/pair_counts.h"

namespace headscope::analysis {
namespace {

// The common distance of the edges; 0 when they have none.
int64_t StepOf(const std::vector<int64_t>& edges) {
  if (edges.size() < 2) return 0;
  const int64_t step = edges[1] - edges[0];
  for (size_t i = 1; i < edges.size(); ++i) {
    if (edges[i] - edges[i - 1] != step) return 0;
  }
  return step;
}

bool IsTileGrid(const TexelEdges& edges, int64_t step) {
  return step > 0 && std::has_single_bit(static_cast<uint64_t>(step)) && StepOf(edges.columns) == step &&
         edges.rows.front() >= 0 && edges.rows.front() % step == 0 && edges.columns.front() >= 0 &&
         edges.columns.front() % step == 0 && edges.NumRows() <= std::numeric_limits<int32_t>::max() &&
         edges.NumColumns() <= std::numeric_limits<int32_t>::max();
}

// Attended pairs of recorded rows [row_begin, row_end), which are consecutive, and columns [begin, end).
int64_t AttendedPairs(const HeadTensors& head, int64_t row_begin, int64_t row_end, int64_t begin, int64_t end) {
  row_begin = std::max<int64_t>(row_begin, 0);
  row_end = std::min(row_end, head.num_rows);
  begin = std::max<int64_t>(begin, 0);
  end = std::min(end, head.num_tokens);
  if (row_begin >= row_end || begin >= end) return 0;
  const int64_t first = head.row_positions.front() + row_begin;
  const int64_t last = head.row_positions.front() + row_end;
  const int64_t causal = CausalPairs(first, last, begin, end);
  return head.window > 0 ? causal - CausalPairs(first - head.window, last - head.window, begin, end) : causal;
}

// The grid's largest log2 p, or sums of p, by texel.
bool TexelsOfTiles(const HeadTensors& head, const TexelEdges& edges, int64_t step, kernels::TexelValue value,
                   std::vector<double>* texels) {
  kernels::TexelRequest request;
  request.value = value;
  request.level = std::countr_zero(static_cast<uint64_t>(step));
  request.row_begin = edges.rows.front();
  request.column_begin = edges.columns.front();
  request.num_rows = static_cast<int32_t>(edges.NumRows());
  request.num_columns = static_cast<int32_t>(edges.NumColumns());
  std::vector<float> values(texels->size());
  if (!head.gpu->Texels(request, values.data()).ok()) return false;
  texels->assign(values.begin(), values.end());
  return true;
}

bool TexelsBetween(const HeadTensors& head, const TexelEdges& edges, kernels::TexelValue value,
                   std::vector<double>* texels) {
  const auto inside = [](std::vector<int64_t> values, int64_t length) {
    for (int64_t& edge : values) edge = std::clamp<int64_t>(edge, 0, length);
    return values;
  };
  return head.gpu
      ->TexelsBetween(value, inside(edges.rows, head.num_rows), inside(edges.columns, head.num_tokens), texels->data())
      .ok();
}

}  // namespace

bool AccumulateOnGpu(const HeadTensors& head, const TexelEdges& edges, TileReduction reduction, TexelGrid* grid) {
  const bool by_max = reduction == TileReduction::kMax;
  const auto value = by_max ? kernels::TexelValue::kMaxLog2 : kernels::TexelValue::kSum;
  const int64_t step = StepOf(edges.rows);
  std::vector<double> texels(grid->pairs.size());
  if (!(IsTileGrid(edges, step) ? TexelsOfTiles(head, edges, step, value, &texels)
                                : TexelsBetween(head, edges, value, &texels)))
    return false;
  for (int64_t row = 0; row < grid->num_rows; ++row) {
    for (int64_t column = 0; column < grid->num_columns; ++column) {
      grid->pairs[static_cast<size_t>(row * grid->num_columns + column)] =
          AttendedPairs(head, edges.rows[static_cast<size_t>(row)], edges.rows[static_cast<size_t>(row + 1)],
                        edges.columns[static_cast<size_t>(column)], edges.columns[static_cast<size_t>(column + 1)]);
    }
  }
  if (by_max) {
    grid->max_log2_p.assign(texels.size(), 0.0f);
    std::transform(texels.begin(), texels.end(), grid->max_log2_p.begin(),
                   [](double log2_p) { return static_cast<float>(log2_p); });
  } else {
    grid->sum_p = std::move(texels);
  }
  return true;
}

}  // namespace headscope::analysis
