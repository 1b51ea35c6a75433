// Texels of a head that lies on the GPU.
#pragma once

#include "analysis/head_tensors.h"
#include "analysis/types/tile.h"
#include "tiles/texels.h"

namespace headscope::analysis {

// Fills a grid whose arrays have been sized, as AccumulateTexels does. False, with the grid as it was, for edges that
// are no tile's (steps of one power of two, the same both ways, from a multiple of it) and when the GPU fails: the CPU
// then computes the grid.
bool AccumulateOnGpu(const HeadTensors& head, const TexelEdges& edges, TileReduction reduction, TexelGrid* grid);

}  // namespace headscope::analysis
