// SPDX-License-Identifier: Apache-2.0
#include "figures/axis_ticks.h"

#include <algorithm>
#include <cmath>

#include "analysis/types/number_text.h"
#include "analysis/types/round_ticks.h"

namespace headscope::analysis {
namespace {

// 128K as such, small numbers in full, very small ones as powers.
std::string TickText(double value) {
  const double size = std::fabs(value);
  if (size >= 1024 && std::fmod(value, 1024) == 0) return FormatNumber("%.0fK", value / 1024);
  if (size > 0 && (size < 1e-3 || size >= 1e5)) return FormatNumber("%.0e", value);
  return FormatNumber("%.4g", value);
}

std::vector<AxisTick> LogarithmicTicks(double least, double most, int most_ticks) {
  const double base = most / least < 1e3 ? 2 : 10;
  const auto power = [base](double value) { return std::log(value) / std::log(base); };
  const auto first = static_cast<int>(std::ceil(power(least) - 1e-9));
  const auto last = static_cast<int>(std::floor(power(most) + 1e-9));
  const int stride = std::max(1, (last - first + most_ticks) / std::max(1, most_ticks));
  std::vector<AxisTick> ticks;
  for (int exponent = first; exponent <= last; exponent += stride) {
    const double value = std::pow(base, exponent);
    ticks.push_back({value, TickText(value)});
  }
  return ticks;
}

}  // namespace

std::vector<AxisTick> AxisTicks(double least, double most, bool logarithmic, int most_ticks) {
  most_ticks = std::max(2, most_ticks);
  if (logarithmic) return LogarithmicTicks(least, most, most_ticks);
  std::vector<AxisTick> ticks;
  for (const double value : Multiples(RoundStep((most - least) / most_ticks), least, most))
    ticks.push_back({value, FormatNumber("%.4g", value)});
  return ticks;
}

}  // namespace headscope::analysis
