// SPDX-License-Identifier: Apache-2.0
// Tiles of a head's map, computed when looked at from Q, K and LSE; nothing of size rows x columns is held.
#pragma once

#include <span>
#include <stop_token>
#include <vector>

#include "analysis/head_tensors.h"
#include "analysis/types/kept_steps.h"
#include "analysis/types/tile.h"
#include "kernels/sparse_index.h"

namespace headscope::analysis {

// Exact: every causal score of the tile is evaluated (cost 2^level squared x 65,536 scores). Throws CancelledError, as
// the pyramids do.
TilePtr ComputeTile(const HeadTensors& head, const TileKey& key, int32_t num_threads, const std::stop_token& stop);
// All tiles of `level` and coarser of one head in a single pass over the scores, which are most of the work whether one
// reduction is made of them or both (no more than one of each): for the first look at a head.
std::vector<TilePtr> ComputePyramid(const HeadTensors& head, std::span<const TileReduction> reductions, int32_t level,
                                    int32_t num_threads, const std::stop_token& stop);
// The same from every `row_step`-th row alone (the last of so many each), in about that share of the time: what is
// shown while the pass over all rows is under way. row_step: a power of two, at most 2^level, so that every texel has a
// row. The tiles say that they are previews. On the CPU.
std::vector<TilePtr> PreviewPyramid(const HeadTensors& head, std::span<const TileReduction> reductions, int32_t level,
                                    int64_t row_step, int32_t num_threads, const std::stop_token& stop);
// The step at which a preview of that level takes a fraction of a second on two cores; 1 where the whole pass takes
// little more, or is done on the GPU, and no preview is worth its time.
int64_t PreviewRowStep(const HeadTensors& head, int32_t level);
// `window` is the head's own (0: none); the index lies inside it.
MaskTilePtr ComputeMaskTile(const kernels::SparseIndexView& index, int32_t window, const TileKey& key);
// What a decode method keeps on some rows. The other rows, which are no steps, lose nothing: 255.
MaskTilePtr ComputeMaskTile(const KeptSteps& steps, const TileKey& key);
// Scaled (and capped) logit of one pair, in float64; no mask. row < num_rows, column < num_tokens.
double Score(const HeadTensors& head, int64_t row, int64_t column);
// Probability of one pair; row is a recorded row. 0 for a masked one.
double Probability(const HeadTensors& head, int64_t row, int64_t column);

}  // namespace headscope::analysis
