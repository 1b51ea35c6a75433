// SPDX-License-Identifier: Apache-2.0
// How much of V's variance its mean over the tokens explains (SparQ Attention, table 1): what the mean value can stand
// in for when keys are left out.
#include <cmath>
#include <limits>

#include "component_means.h"
#include "head_statistic_list.h"

namespace headscope::analysis {
namespace {

class ValueCorrelationStatistic : public HeadStatistic {
 public:
  const MetricInfo& info() const override {
    static const MetricInfo info = {"v_correlation",
                                    "Correlation ratio of V",
                                    "",
                                    "excess correlation ratio of V along the tokens: 0 for independent values",
                                    true,
                                    0,
                                    0};
    return info;
  }

  // sqrt(between / all) - tokens^-1/2, where `between` counts every token with the mean over tokens in its place.
  double OfHead(const HeadView& head) const override {
    const auto dims = static_cast<size_t>(head.v_head_dim);
    const auto tokens = static_cast<double>(head.num_tokens);
    const std::vector<double> means = ComponentMeans(head.v, dims);
    const double mean = MeanOf(means);
    double all = 0, between = 0;
    for (const float value : head.v) all += (static_cast<double>(value) - mean) * (static_cast<double>(value) - mean);
    for (const double of_component : means) between += tokens * (of_component - mean) * (of_component - mean);
    return all == 0 ? std::numeric_limits<double>::quiet_NaN() : std::sqrt(between / all) - 1 / std::sqrt(tokens);
  }
};

}  // namespace

const HeadStatistic& ValueCorrelation() {
  static const ValueCorrelationStatistic statistic;
  return statistic;
}

}  // namespace headscope::analysis
