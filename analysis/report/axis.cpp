// SPDX-License-Identifier: Apache-2.0
#include "report/axis.h"

#include <algorithm>
#include <cmath>

namespace headscope::analysis {

std::vector<double> RoundTicks(double begin, double end, int32_t most, bool whole) {
  const double span = std::max(end - begin, 1e-12);
  double step = std::pow(10.0, std::floor(std::log10(span / most)));
  for (const double factor : {2.0, 2.5, 2.0}) {  // 1, 2, 5, 10
    if (span / step <= most) break;
    step *= factor;
  }
  if (whole) step = std::max(1.0, step);
  std::vector<double> ticks;
  for (double tick = std::ceil(begin / step - 1e-9) * step; tick <= end + 1e-9 * span; tick += step)
    ticks.push_back(tick + 0.0);  // zero is not -0, which would be written so
  return ticks;
}

std::string GroupThousands(int64_t value) {
  std::string text = std::to_string(value < 0 ? -value : value);
  for (auto place = static_cast<int64_t>(text.size()) - 3; place > 0; place -= 3)
    text.insert(static_cast<size_t>(place), ",");
  return value < 0 ? "-" + text : text;
}

}  // namespace headscope::analysis
