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
  row_end = std::min(row_end, head.num_rows);
  end = std::min(end, head.num_tokens);
  if (row_begin >= row_end || begin >= end) return 0;
  const int64_t first = head.row_positions.front() + row_begin;
  const int64_t last = head.row_positions.front() + row_end;
  const int64_t causal = CausalPairs(first, last, begin, end);
  return head.window > 0 ? causal - CausalPairs(first - head.window, last - head.window, begin, end) : causal;
}

}  // namespace

bool AccumulateOnGpu(const HeadTensors& head, const TexelEdges& edges, TileReduction reduction, TexelGrid* grid) {
  const int64_t step = StepOf(edges.rows);
  if (!IsTileGrid(edges, step)) return false;
  kernels::TexelRequest request;
  request.value = reduction == TileReduction::kMax ? kernels::TexelValue::kMaxLog2 : kernels::TexelValue::kSum;
  request.level = std::countr_zero(static_cast<uint64_t>(step));
  request.row_begin = edges.rows.front();
  request.column_begin = edges.columns.front();
  request.num_rows = static_cast<int32_t>(edges.NumRows());
  request.num_columns = static_cast<int32_t>(edges.NumColumns());
  std::vector<float> texels(grid->pairs.size());
  if (!head.gpu->Texels(request, texels.data()).ok()) return false;
  for (int64_t row = 0; row < grid->num_rows; ++row) {
    for (int64_t column = 0; column < grid->num_columns; ++column) {
      grid->pairs[static_cast<size_t>(row * grid->num_columns + column)] =
          AttendedPairs(head, edges.rows[static_cast<size_t>(row)], edges.rows[static_cast<size_t>(row + 1)],
                        edges.columns[static_cast<size_t>(column)], edges.columns[static_cast<size_t>(column + 1)]);
    }
  }
  if (reduction == TileReduction::kMax) {
    grid->max_log2_p = std::move(texels);
  } else {
    grid->sum_p.assign(texels.begin(), texels.end());
  }
  return true;
}

}  // namespace headscope::analysis
