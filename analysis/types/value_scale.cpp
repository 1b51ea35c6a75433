// SPDX-License-Identifier: Apache-2.0
#include "analysis/types/value_scale.h"

#include <algorithm>
#include <cmath>

#include "analysis/types/round_ticks.h"

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

std::vector<double> RoundValues(const ValueRange& range, bool logarithmic, int most) {
  const double low = std::exp2(static_cast<double>(range.minimum_log2)),
               high = std::exp2(static_cast<double>(range.maximum_log2));
  // A linear scale begins at 0 where its lowest value is as good as that.
  const auto linear = [&] { return RoundTicks(low < 0.001 * high ? 0 : low, high, most, /*whole=*/false); };
  if (!logarithmic) return linear();
  constexpr double kSlack = 1e-6;  // the range is one of fp32 numbers
  const double first = std::ceil(std::log10(low) - kSlack), last = std::floor(std::log10(high) + kSlack);
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
      if (value >= low * (1 - kSlack) && value <= high * (1 + kSlack)) values.push_back(value);
    }
  }
  return values.size() >= 2 ? values : linear();
}

}  // namespace headscope::analysis
