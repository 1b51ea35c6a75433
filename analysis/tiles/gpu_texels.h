// SPDX-License-Identifier: Apache-2.0
// Texels of a head that lies on the GPU.
#pragma once

#include "analysis/head_tensors.h"
#include "analysis/types/tile.h"
#include "tiles/map_texels.h"

namespace headscope::analysis {

// Fills the array of one reduction in a grid whose arrays have been sized, as AccumulateTexels does, and the pairs.
// False, with the grid as it was, when the GPU fails (its memory is taken by others, say): the CPU then computes it. A
// tile's edges (steps of one power of two, the same both ways, from a multiple of it) have a kernel of their own, which
// needs no memory.
bool AccumulateOnGpu(const HeadTensors& head, const TexelEdges& edges, TileReduction reduction, TexelGrid* grid);

}  // namespace headscope::analysis
