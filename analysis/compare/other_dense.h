// SPDX-License-Identifier: Apache-2.0
// Another implementation's dense decode beside headscope's.
#pragma once

#include "analysis/compare.h"
#include "analysis/measured_heads.h"

namespace headscope::analysis {

// Whether there is one and it computes what the model does on these heads.
inline bool Takes(const OtherDense& other, const MeasuredHeads& heads) {
  return !other.name.empty() && heads.soft_cap == 0 && heads.sinks.empty() && heads.ValueDim() == heads.head_dim;
}

}  // namespace headscope::analysis
