// SPDX-License-Identifier: Apache-2.0
// A head's map reduced to a grid of texels with any edges: the core of tiles, pyramids and rendered pictures.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "analysis/head_tensors.h"
#include "analysis/types/kept_steps.h"
#include "analysis/types/mask_overlap.h"
#include "analysis/types/tile.h"
#include "kernels/sparse_index.h"

namespace headscope::analysis {

// Texel (i, j) covers recorded rows [row_edges[i], row_edges[i + 1]) and key columns [column_edges[j], column_edges[j +
// 1]). Edges are increasing (equal ones make an empty texel); what lies outside the map counts nothing.
struct TexelEdges {
  std::vector<int64_t> rows, columns;
  int64_t NumRows() const { return static_cast<int64_t>(rows.size()) - 1; }
  int64_t NumColumns() const { return static_cast<int64_t>(columns.size()) - 1; }
};

struct TexelGrid {
  int64_t num_rows = 0, num_columns = 0;
  // kMax: the largest log2 p of the texel (-inf without attended pairs). kMean: the sum of p. Empty where not asked
  // for.
  std::vector<float> max_log2_p;
  std::vector<double> sum_p;
  std::vector<int64_t> pairs;  // attended pairs of the texel
  bool on_gpu = false;         // where it was computed

  // log2 of the texel's maximum or mean, which the grid has; -inf where there are no pairs.
  float Log2P(TileReduction reduction, int64_t texel) const;
};

// Edges begin, begin + step, .. of `count` texels.
std::vector<int64_t> EvenEdges(int64_t begin, int64_t step, int64_t count);

// Evaluates every attended score inside the edges once, for one reduction or both (no more than one of each). Cost: 2 *
// head_dim FLOPs per score. Throws CancelledError.
// With a `row_step` above 1 only rows row_step - 1, 2 * row_step - 1, .. count, and `pairs` are theirs.
void AccumulateTexels(const HeadTensors& head, const TexelEdges& edges, std::span<const TileReduction> reductions,
                      int32_t num_threads, const std::stop_token& stop, TexelGrid* grid, int64_t row_step = 1);

// Pairs of the index's region (causal for a causal rule, and inside the head's window unless it is 0) and kept pairs,
// per texel; closed form per run, no scores. The index lies inside the window.
struct MaskTexels {
  std::vector<int64_t> kept, pairs;
};
MaskTexels CountMaskTexels(const kernels::SparseIndexView& index, int32_t window, const TexelEdges& edges);
// Of the rows that are steps alone: the others count nothing.
MaskTexels CountMaskTexels(const KeptSteps& steps, const TexelEdges& edges);

// What a mask is read from, row by row: one of the two.
struct MaskLists {
  const kernels::SparseIndexView* index = nullptr;  // of a prefill method
  const KeptSteps* steps = nullptr;                 // of a decode method, which is about these rows alone
};

// The same of two masks, over the rows that both are about: by who keeps a pair. Row by row.
struct MaskPairTexels {
  std::vector<std::array<int64_t, kNumKeptBy>> kept;
  std::vector<int64_t> pairs;
};
MaskPairTexels CountMaskPairTexels(const MaskLists& first, const MaskLists& second, int32_t window,
                                   const TexelEdges& edges);

// A share of pairs as mask tiles hold it. 0 and 255 are exact, "nothing kept" and "everything kept"; whatever lies
// between stays visible as such. 0 without pairs.
uint8_t KeptByte(int64_t kept, int64_t pairs);

}  // namespace headscope::analysis
