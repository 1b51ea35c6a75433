#include "value_scale.h"

#include <algorithm>
#include <cmath>

namespace headscope::ui {

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

}  // namespace headscope::ui
