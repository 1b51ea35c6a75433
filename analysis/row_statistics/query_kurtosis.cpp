// SPDX-License-Identifier: Apache-2.0
// How heavy the tails of q's components are: where a few of them are large, SparQ finds the best keys from those alone
// (SparQ Attention, section 3).
#include <limits>

#include "row_statistic_list.h"

namespace headscope::analysis {
namespace {

class QueryKurtosisStatistic : public RowStatistic {
 public:
  const MetricInfo& info() const override {
    static const MetricInfo info = {
        "kurtosis", "Kurtosis of q",
        "",         "excess (Fisher) kurtosis of q's components, mean over rows; 0 for a Gaussian",
        true,       0,
        0};
    return info;
  }
  bool reads_probabilities() const override { return false; }

  // m4 / m2^2 - 3 of the components (biased moments); none when they are all equal.
  double OfRow(const RowView& row) const override {
    const auto count = static_cast<double>(row.q.size());
    double mean = 0;
    for (const float value : row.q) mean += static_cast<double>(value);
    mean /= count;
    double second = 0, fourth = 0;
    for (const float value : row.q) {
      const double square = (static_cast<double>(value) - mean) * (static_cast<double>(value) - mean);
      second += square;
      fourth += square * square;
    }
    if (second == 0) return std::numeric_limits<double>::quiet_NaN();
    return fourth * count / (second * second) - 3.0;
  }
};

}  // namespace

const RowStatistic& QueryKurtosis() {
  static const QueryKurtosisStatistic statistic;
  return statistic;
}

}  // namespace headscope::analysis
