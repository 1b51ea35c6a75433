// SPDX-License-Identifier: Apache-2.0
// Some heads of an index.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/sparse_index.h"

namespace headscope::kernels {

// The lists of `heads`, each 0 to num_qo_heads - 1, in that order, of every sequence. Of runs and columns it has those
// from the first to the last that these lists name. Cost: linear in them.
SparseIndex TakeHeads(const SparseIndex& index, std::span<const int32_t> heads);

}  // namespace headscope::kernels
