// SPDX-License-Identifier: Apache-2.0
// How far one attention output is from another.
#pragma once

#include <cstdint>

namespace headscope::analysis {

struct OutputError {
  double relative = 0;  // |o - reference| / |reference|, L2 over all rows; 0 when both are zero
  double maximum = 0;   // largest absolute difference
  double cosine = 1;    // mean over rows; a row where both are zero counts 1, where one is zero 0
};

// o, reference [num_rows, head_dim] fp32, contiguous; sums in float64. Where either holds a NaN, all three are NaN: an
// output that was not written must not pass for an exact one.
OutputError MeasureError(const float* o, const float* reference, int64_t num_rows, int32_t head_dim);

}  // namespace headscope::analysis
