// SPDX-License-Identifier: Apache-2.0
// What heads that share a layer's context out among themselves keep together.
#pragma once

#include <string>

#include "analysis/measured_heads.h"
#include "kernels/method_spec.h"
#include "kernels/sparse_index.h"

namespace headscope::analysis {

// Of a method that goes by place and gives heads different keys: one sentence where some causal pair is kept by none of
// the heads in `index`; empty: none is missing, or there is nothing to share out (one pattern for all), the index is
// not of the whole layer, or the model's own window hides pairs. S2-Attention's premise is that the union of its shards
// is the full context, which takes as many heads as the stride. Looks at the last row of every 64. Cost: these rows'
// lists of all heads. The sentence names the method with what of `values` is not the default.
std::string IncompleteUnion(const kernels::MethodSpec& spec, const kernels::ParameterValues& values,
                            const MeasuredHeads& heads, const kernels::SparseIndexView& index);

}  // namespace headscope::analysis
