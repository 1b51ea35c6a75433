// SPDX-License-Identifier: Apache-2.0
// Where an axis is marked, and how.
#pragma once

#include <string>
#include <vector>

namespace headscope::analysis {

struct AxisTick {
  double value = 0;
  std::string text;
};

// At most about `most_ticks` round numbers in [least, most]: 1, 2 or 5 times a power of ten; on a logarithmic axis
// (least > 0) powers of ten, or of two where there are fewer than three decades.
std::vector<AxisTick> AxisTicks(double least, double most, bool logarithmic, int most_ticks);

}  // namespace headscope::analysis
