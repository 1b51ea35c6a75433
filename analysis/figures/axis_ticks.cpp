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

// Ticks of thousands in full: 10240 is not 1.024e+04.
std::string LinearTickText(double value) {
  const double size = std::fabs(value);
  return FormatNumber(size >= 1e4 && size < 1e6 ? "%.0f" : "%.4g", value);
}

// 1, 2 and 5 times the powers of ten.
std::vector<AxisTick> DecimalTicks(double least, double most) {
  std::vector<AxisTick> ticks;
  for (int exponent = static_cast<int>(std::floor(std::log10(least))); std::pow(10.0, exponent) <= most; ++exponent) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double value = factor * std::pow(10.0, exponent);
      if (value >= least * (1 - 1e-9) && value <= most * (1 + 1e-9)) ticks.push_back({value, TickText(value)});
    }
  }
  return ticks;
}

// Powers of two, such as tokens, over a short range; of shares, decimal numbers.
std::vector<AxisTick> LogarithmicTicks(double least, double most, int most_ticks) {
  const bool is_short = most / least < 1e3, are_shares = most <= 2 && least < 0.5;
  if (is_short && are_shares) {
    std::vector<AxisTick> ticks = DecimalTicks(least, most);
    if (std::ssize(ticks) <= 2 * most_ticks && ticks.size() >= 2) return ticks;
  }
  const double base = is_short && !are_shares ? 2 : 10;
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
    ticks.push_back({value, LinearTickText(value)});
  return ticks;
}

}  // namespace headscope::analysis
