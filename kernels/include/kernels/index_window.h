// SPDX-License-Identifier: Apache-2.0
// An index inside a model's own sliding window, of which methods know nothing.
#pragma once

#include <cstdint>

#include "kernels/sparse_index.h"

namespace headscope::kernels {

// The part of an index that lies inside a window of `window` >= 1 tokens. `index` is causal and as SparseIndexBuilder
// makes it: its full runs and single columns obey its rule. Cost: linear in its entries, but for sorting each list.
//
// An index has one element rule, so it can cut by one window only. Where an index has sinks and a window of its own
// that is the shorter one, its rule stays, and the model's window is taken for whole row tiles: a sink leaves a tile
// when the window of the tile's last row has passed it, at most tile_rows - 1 rows early. A window shorter than a tile
// leaves such an index no sinks.
SparseIndex CutToWindow(const SparseIndexView& index, int32_t window);

}  // namespace headscope::kernels
