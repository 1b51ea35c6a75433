// SPDX-License-Identifier: Apache-2.0
#include "bench/figure.h"

#include <algorithm>

#include "analysis/types/timing.h"

namespace headscope::app::bench {

Figure Summarize(const std::vector<double>& values) {
  const analysis::Timing timing = analysis::SummariseTimes(values);
  const double least = values.empty() ? 0 : *std::min_element(values.begin(), values.end());
  return {timing.median_ms, timing.mad_ms, timing.repeats, least};
}

}  // namespace headscope::app::bench
