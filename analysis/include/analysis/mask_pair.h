// SPDX-License-Identifier: Apache-2.0
// Two masks of one head, compared pair by pair. Both are read by the one definition of what an index keeps.
#pragma once

#include <memory>
#include <stop_token>

#include "analysis/types/kept_steps.h"
#include "analysis/types/mask_overlap.h"
#include "kernels/sparse_index.h"

namespace headscope::analysis {

// What a method keeps on a head, whichever phase it is of.
struct KeptMask {
  std::shared_ptr<const kernels::SparseIndex> index;  // of a prefill method, lying inside `window`
  int32_t window = 0;                                 // the head's own; 0: none
  KeptStepsPtr steps;                                 // of a decode method, which is about these rows alone
};

// Rows that only one of the masks is about (a decode method's are its steps) are left out of both: their texels hold 0.
// Cost: the lists of the tile's rows, and no scores. Throws CancelledError.
MaskPairTilePtr ComputeMaskPairTile(const KeptMask& first, const KeptMask& second, const TileKey& key,
                                    const std::stop_token& stop);
// Over the whole head. Throws CancelledError.
MaskOverlap CountMaskOverlap(const KeptMask& first, const KeptMask& second, int32_t num_threads,
                             const std::stop_token& stop);

}  // namespace headscope::analysis
