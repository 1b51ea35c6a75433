// SPDX-License-Identifier: Apache-2.0
// One score of a head, as the pointer on the map asks for it: immediate, one dot product.
#pragma once

#include <cstdint>

#include "analysis/head_tensors.h"
#include "ui/workbench.h"

namespace headscope::app {

// NaN without a head, and outside of it.
ui::Exact ExactScoreOf(const analysis::HeadTensorsPtr& head, int64_t row, int64_t column);

}  // namespace headscope::app
