// SPDX-License-Identifier: Apache-2.0
// What a colour map is called where people choose one.
#pragma once

#include <string>

#include "analysis/types/color_map.h"

namespace headscope::analysis {

// Its name. A sequential one whose lightness does not rise or fall all the way does not survive grey printing and
// colour blindness, and is called so.
std::string ColorMapLabel(const ColorMap& map);

}  // namespace headscope::analysis
