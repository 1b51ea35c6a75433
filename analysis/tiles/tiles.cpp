// SPDX-License-Identifier: Apache-2.0
#include "analysis/tiles.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tiles/map_texels.h"

namespace headscope::analysis {
namespace {

constexpr int64_t kTexels = int64_t{kTileSize} * kTileSize;

int64_t TilesAcross(int64_t length, int32_t level) {
  const int64_t covered = int64_t{kTileSize} << level;
  return std::max<int64_t>(1, (length + covered - 1) / covered);
}

// The next coarser grid: each texel joins two by two.
TexelGrid Halve(const TexelGrid& fine) {
  TexelGrid coarse;
  coarse.num_rows = (fine.num_rows + 1) / 2;
  coarse.num_columns = (fine.num_columns + 1) / 2;
  const auto texels = static_cast<size_t>(coarse.num_rows * coarse.num_columns);
  const bool by_mean = !fine.sum_p.empty(), by_max = !fine.max_log2_p.empty();
  coarse.pairs.assign(texels, 0);
  coarse.sum_p.assign(by_mean ? texels : 0, 0.0);
  coarse.max_log2_p.assign(by_max ? texels : 0, -std::numeric_limits<float>::infinity());
  for (int64_t row = 0; row < fine.num_rows; ++row) {
    for (int64_t column = 0; column < fine.num_columns; ++column) {
      const auto from = static_cast<size_t>(row * fine.num_columns + column);
      const auto into = static_cast<size_t>((row / 2) * coarse.num_columns + column / 2);
      coarse.pairs[into] += fine.pairs[from];
      if (by_mean) coarse.sum_p[into] += fine.sum_p[from];
      if (by_max) coarse.max_log2_p[into] = std::max(coarse.max_log2_p[into], fine.max_log2_p[from]);
    }
  }
  return coarse;
}

void AppendTiles(const TexelGrid& grid, HeadId id, TileReduction reduction, int32_t level, bool preview,
                 std::vector<TilePtr>* tiles) {
  const int64_t tiles_down = (grid.num_rows + kTileSize - 1) / kTileSize;
  const int64_t tiles_across = (grid.num_columns + kTileSize - 1) / kTileSize;
  for (int64_t y = 0; y < tiles_down; ++y) {
    for (int64_t x = 0; x < tiles_across; ++x) {
      auto tile = std::make_shared<TileData>();
      tile->key = {id, reduction, level, static_cast<int32_t>(x), static_cast<int32_t>(y)};
      tile->preview = preview;
      tile->log2_p.assign(kTexels, -std::numeric_limits<float>::infinity());
      const int64_t rows = std::min<int64_t>(kTileSize, grid.num_rows - y * kTileSize);
      const int64_t columns = std::min<int64_t>(kTileSize, grid.num_columns - x * kTileSize);
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; ++j) {
          tile->log2_p[static_cast<size_t>(i * kTileSize + j)] =
              grid.Log2P(reduction, (y * kTileSize + i) * grid.num_columns + x * kTileSize + j);
        }
      }
      tiles->push_back(std::move(tile));
    }
  }
}

TexelEdges TileEdges(const TileKey& key) {
  const int64_t step = int64_t{1} << key.level;
  return {EvenEdges(int64_t{key.y} * kTileSize * step, step, kTileSize),
          EvenEdges(int64_t{key.x} * kTileSize * step, step, kTileSize)};
}

std::vector<TilePtr> PyramidOfRows(const HeadTensors& head, std::span<const TileReduction> reductions, int32_t level,
                                   int64_t row_step, int32_t num_threads, const std::stop_token& stop) {
  const int64_t step = int64_t{1} << level;
  const TexelEdges edges = {EvenEdges(0, step, TilesAcross(head.num_rows, level) * kTileSize),
                            EvenEdges(0, step, TilesAcross(head.num_tokens, level) * kTileSize)};
  TexelGrid grid;
  AccumulateTexels(head, edges, reductions, num_threads, stop, &grid, row_step);
  std::vector<TilePtr> tiles;
  const int32_t coarsest = std::max(level, MaxLevel(head.num_rows, head.num_tokens));
  while (true) {
    for (const TileReduction reduction : reductions)
      AppendTiles(grid, head.id, reduction, level, /*preview=*/row_step > 1, &tiles);
    if (level == coarsest) return tiles;
    grid = Halve(grid);
    ++level;
  }
}

}  // namespace

uint8_t KeptByte(int64_t kept, int64_t pairs) {
  if (kept == 0) return 0;
  if (kept == pairs) return 255;
  const double share = static_cast<double>(kept) / static_cast<double>(pairs);
  return static_cast<uint8_t>(std::clamp(std::lround(255 * share), 1L, 254L));
}

TilePtr ComputeTile(const HeadTensors& head, const TileKey& key, int32_t num_threads, const std::stop_token& stop) {
  TexelGrid grid;
  AccumulateTexels(head, TileEdges(key), {&key.reduction, 1}, num_threads, stop, &grid);
  auto tile = std::make_shared<TileData>();
  tile->key = key;
  tile->log2_p.resize(kTexels);
  for (int64_t texel = 0; texel < kTexels; ++texel)
    tile->log2_p[static_cast<size_t>(texel)] = grid.Log2P(key.reduction, texel);
  return tile;
}

std::vector<TilePtr> ComputePyramid(const HeadTensors& head, std::span<const TileReduction> reductions, int32_t level,
                                    int32_t num_threads, const std::stop_token& stop) {
  return PyramidOfRows(head, reductions, level, 1, num_threads, stop);
}

std::vector<TilePtr> PreviewPyramid(const HeadTensors& head, std::span<const TileReduction> reductions, int32_t level,
                                    int64_t row_step, int32_t num_threads, const std::stop_token& stop) {
  return PyramidOfRows(head, reductions, level, row_step, num_threads, stop);
}

int64_t PreviewRowStep(const HeadTensors& head, int32_t level) {
  constexpr int64_t kPreviewPairs = int64_t{1} << 29;  // of rows and tokens, half of which are causal
  constexpr int64_t kLeastStep = 4;                    // below, the preview would cost a third of the pass and more
  if (head.gpu != nullptr) return 1;
  int64_t step = 1;
  while (step < int64_t{1} << level && head.num_rows / step * head.num_tokens > kPreviewPairs) step *= 2;
  return step < kLeastStep ? 1 : step;
}

MaskTilePtr ComputeMaskTile(const kernels::SparseIndexView& index, int32_t window, const TileKey& key) {
  const MaskTexels texels = CountMaskTexels(index, window, TileEdges(key));
  auto tile = std::make_shared<MaskTile>();
  tile->key = key;
  tile->kept.resize(kTexels);
  for (size_t texel = 0; texel < tile->kept.size(); ++texel)
    tile->kept[texel] = KeptByte(texels.kept[texel], texels.pairs[texel]);
  return tile;
}

double Probability(const HeadTensors& head, int64_t row, int64_t column) {
  if (row < 0 || row >= head.num_rows) return 0;
  const kernels::ColumnRange attended = head.AttendedColumns(row);
  if (column < attended.begin || column >= attended.end) return 0;
  return std::exp(Score(head, row, column) - static_cast<double>(head.lse[static_cast<size_t>(row)]));
}

double Score(const HeadTensors& head, int64_t row, int64_t column) {
  const float* q = head.q.data() + row * head.head_dim;
  const float* k = head.k.data() + column * head.head_dim;
  double dot = 0;
  for (int32_t i = 0; i < head.head_dim; ++i) dot += static_cast<double>(q[i]) * static_cast<double>(k[i]);
  const double score = dot * static_cast<double>(head.scale);
  const auto cap = static_cast<double>(head.soft_cap);
  return cap > 0 ? cap * std::tanh(score / cap) : score;
}

}  // namespace headscope::analysis
