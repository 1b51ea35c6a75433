#include "bench/statistics.h"

#include "analysis/types/timing.h"

namespace headscope::app::bench {

Figure Summarize(const std::vector<double>& values) {
  const analysis::Timing timing = analysis::SummariseTimes(values);
  return {timing.median_ms, timing.mad_ms, timing.repeats};
}

}  // namespace headscope::app::bench
