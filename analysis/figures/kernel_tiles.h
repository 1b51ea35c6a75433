// SPDX-License-Identifier: Apache-2.0
// What a kernel computes that takes 64 rows at a time and gathers the keys which any of them keeps in groups of 64.
#pragma once

#include "analysis/head_tensors.h"
#include "kernels/sparse_index.h"

namespace headscope::analysis {

// Of the pairs that it computes for dense attention of the head, inside a model's own window. `index`: of the head
// alone.
double ComputedShare(const HeadTensors& head, const kernels::SparseIndexView& index);

}  // namespace headscope::analysis
