// SPDX-License-Identifier: Apache-2.0
// How heavy the tails of q's components are: where a few of them are large, SparQ finds the best keys from those alone
// (SparQ Attention, section 3).
#include <limits>

#include "row_statistic_list.h"

namespace headscope::analysis {
namespace {

// m4 / m2^2 - 3 of the components (biased moments); none when they are all equal.
double KurtosisOf(std::span<const float> q) {
  const auto count = static_cast<double>(q.size());
  double mean = 0;
  for (const float value : q) mean += static_cast<double>(value);
  mean /= count;
  double second = 0, fourth = 0;
  for (const float value : q) {
    const double square = (static_cast<double>(value) - mean) * (static_cast<double>(value) - mean);
    second += square;
    fourth += square * square;
  }
  if (second == 0) return std::numeric_limits<double>::quiet_NaN();
  return fourth * count / (second * second) - 3.0;
}

class QueryKurtosisStatistic : public RowStatistic {
 public:
  const MetricInfo& info() const override {
    static const MetricInfo info = {
        .name = "kurtosis",
        .title = "Kurtosis of q",
        .unit = "",
        .help = "excess (Fisher) kurtosis of q's components, mean over rows; 0 for a Gaussian",
        .diverging = true,
        .shown = MetricShown::kAlways,
        .in_report = true,
        .clearest_of = HeadClass::kUnknown};
    return info;
  }
  bool reads_probabilities() const override { return false; }
  double OfRow(const RowView& row) const override { return KurtosisOf(row.q); }
};

// RoPE turns pairs of components and so mixes large ones with small ones: what the projection made is seen before it.
class QueryKurtosisPreRopeStatistic : public RowStatistic {
 public:
  const MetricInfo& info() const override {
    static const MetricInfo info = {
        "kurtosis_pre_rope",
        "Kurtosis of q before RoPE",
        "",
        "excess (Fisher) kurtosis of the components of q before RoPE, mean over rows; only in traces that record it",
        true,
        0,
        0};
    return info;
  }
  bool reads_probabilities() const override { return false; }
  double OfRow(const RowView& row) const override {
    return row.q_pre_rope.empty() ? without_rows() : KurtosisOf(row.q_pre_rope);
  }
  double without_rows() const override { return std::numeric_limits<double>::quiet_NaN(); }
};

}  // namespace

const RowStatistic& QueryKurtosis() {
  static const QueryKurtosisStatistic statistic;
  return statistic;
}

const RowStatistic& QueryKurtosisPreRope() {
  static const QueryKurtosisPreRopeStatistic statistic;
  return statistic;
}

}  // namespace headscope::analysis
