// SPDX-License-Identifier: Apache-2.0
#include "analysis/types/value_scale.h"

#include <algorithm>
#include <cmath>

namespace headscope::analysis {

float ScalePosition(float log2_p, const ValueRange& range, bool logarithmic) {
  float position = 0;
  if (logarithmic) {
    position = (log2_p - range.minimum_log2) / (range.maximum_log2 - range.minimum_log2);
  } else {
    const float low = std::exp2(range.minimum_log2);
    position = (std::exp2(log2_p) - low) / (std::exp2(range.maximum_log2) - low);
  }
  return std::isnan(position) ? 0.0f : std::clamp(position, 0.0f, 1.0f);
}

float ScaleValue(float position, const ValueRange& range, bool logarithmic) {
  if (logarithmic) return range.minimum_log2 + position * (range.maximum_log2 - range.minimum_log2);
  const float low = std::exp2(range.minimum_log2);
  return std::log2(low + position * (std::exp2(range.maximum_log2) - low));
}

namespace {

// The first multiple of the step that is not below `low`; 0 where that is as good as 0 beside the step.
double FirstMultiple(double low, double step) {
  return low < 0.01 * step ? 0.0 : std::ceil(low / step - 1e-9);
}

// Multiples of 1, 2 or 5 times a power of ten from low to high, about `most` of them.
std::vector<double> RoundSteps(double low, double high, int most) {
  double step = std::pow(10.0, std::floor(std::log10((high - low) / most)));
  for (const double factor : {2.0, 2.5, 2.0, 2.0}) {
    if (std::floor(high / step + 1e-9) - FirstMultiple(low, step) + 1 <= most) break;
    step *= factor;
  }
  std::vector<double> values;
  for (double multiple = FirstMultiple(low, step); multiple * step <= high * (1 + 1e-9); ++multiple)
    values.push_back(multiple * step);
  return values;
}

}  // namespace

std::vector<double> RoundValues(const ValueRange& range, bool logarithmic, int most) {
  const double low = std::exp2(static_cast<double>(range.minimum_log2)),
               high = std::exp2(static_cast<double>(range.maximum_log2));
  if (!logarithmic) return RoundSteps(low, high, most);
  const double first = std::ceil(std::log10(low) - 1e-9), last = std::floor(std::log10(high) + 1e-9);
  const double powers = last - first + 1;
  std::vector<double> values;
  if (powers >= 2) {
    const double every = std::max(1.0, std::ceil(powers / most));
    for (double exponent = last; exponent >= first; exponent -= every) values.push_back(std::pow(10.0, exponent));
    return values;
  }
  // Less than two powers of ten: with the values between them.
  for (double exponent = first - 1; exponent <= last + 1; ++exponent) {
    for (const double digit : {1.0, 2.0, 5.0}) {
      const double value = digit * std::pow(10.0, exponent);
      if (value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9)) values.push_back(value);
    }
  }
  return values.size() >= 2 ? values : RoundSteps(low, high, most);
}

}  // namespace headscope::analysis
