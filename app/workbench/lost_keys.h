// SPDX-License-Identifier: Apache-2.0
// The keys that a mask leaves out of one query's attention.
#pragma once

#include <vector>

#include "analysis/head_tensors.h"
#include "tile_source.h"
#include "ui/workbench.h"

namespace headscope::app {

// Of a recorded row, the most probable first, at most `most`; none of a row that the mask says nothing of. One dot
// product a key that is left out.
std::vector<ui::LostKey> LostKeys(const analysis::HeadTensors& head, const analysis::KeptMask& mask, int64_t row,
                                  size_t most);

}  // namespace headscope::app
