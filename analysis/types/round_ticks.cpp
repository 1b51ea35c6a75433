// SPDX-License-Identifier: Apache-2.0
#include "analysis/types/round_ticks.h"

#include <algorithm>
#include <cmath>

namespace headscope::analysis {
namespace {

// Of a step: what sums and quotients of doubles, and ends that were fp32 once, are off by.
constexpr double kSlack = 1e-6;

}  // namespace

double RoundStep(double least) {
  const double decade = std::pow(10.0, std::floor(std::log10(least)));
  for (const double multiple : {1.0, 2.0, 5.0}) {
    if (multiple * decade >= least * (1 - 1e-9)) return multiple * decade;
  }
  return 10 * decade;
}

std::vector<double> Multiples(double step, double begin, double end) {
  std::vector<double> values;
  for (double multiple = std::ceil(begin / step - kSlack); multiple <= end / step + kSlack; ++multiple)
    values.push_back(multiple * step + 0.0);  // zero is not -0, which would be written so
  return values;
}

std::vector<double> RoundTicks(double begin, double end, int32_t most, bool whole) {
  double step = RoundStep(std::max(end - begin, 1e-12) / most);
  if (whole) step = std::max(1.0, step);
  while (true) {
    std::vector<double> ticks = Multiples(step, begin, end);
    if (ticks.size() <= static_cast<size_t>(std::max(1, most))) return ticks;
    step = RoundStep(1.5 * step);
  }
}

}  // namespace headscope::analysis
