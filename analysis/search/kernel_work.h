// SPDX-License-Identifier: Apache-2.0
// What a block kernel computes of an index: MInference's FLOPs in kernel, which count whole tiles and not the pairs
// that an index names.
#pragma once

#include <cstdint>

#include "kernels/sparse_index.h"

namespace headscope::analysis {

// Pairs of the tiles that cover the index of all heads. A block of 64 rows, or what there is of it, is computed whole:
// each of its connected ranges of keys in blocks of 64 from the range's start on, and its single columns 64 at a time.
// Positions ahead of a row count where its tile reaches them. Source: MInference 1.0, Algorithms 4 and 5, section 3.2.
int64_t PairsInKernel(const kernels::SparseIndexView& index);

}  // namespace headscope::analysis
