// SPDX-License-Identifier: Apache-2.0
// How much of q lies far out: the share of components more than three standard deviations from the mean, by that of a
// Gaussian (SparQ Attention, figure E1 below, and appendix E).
#include <cmath>
#include <limits>
#include <utility>

#include "head_statistic_list.h"

namespace headscope::analysis {
namespace {

constexpr double kFarOut = 3;

// Of all components of all rows together, about their common mean (biased deviation).
double OutliersOf(std::span<const float> q) {
  double sum = 0, variance = 0;
  for (const float value : q) sum += static_cast<double>(value);
  const double mean = sum / static_cast<double>(q.size());
  for (const float value : q) {
    const double off = static_cast<double>(value) - mean;
    variance += off * off;
  }
  variance /= static_cast<double>(q.size());
  if (q.empty() || variance == 0) return std::numeric_limits<double>::quiet_NaN();
  const double bound = kFarOut * std::sqrt(variance);
  int64_t outliers = 0;
  for (const float value : q) outliers += std::fabs(static_cast<double>(value) - mean) > bound ? 1 : 0;
  const double of_gaussian = std::erfc(kFarOut / std::sqrt(2.0));
  return static_cast<double>(outliers) / static_cast<double>(q.size()) / of_gaussian;
}

class OutlierStatistic : public HeadStatistic {
 public:
  OutlierStatistic(MetricInfo info, std::span<const float> HeadView::*queries)
      : info_(std::move(info)), queries_(queries) {}
  const MetricInfo& info() const override { return info_; }
  double OfHead(const HeadView& head) const override { return OutliersOf(head.*queries_); }

 private:
  const MetricInfo info_;
  std::span<const float> HeadView::*queries_;
};

}  // namespace

const HeadStatistic& QueryOutliers() {
  static const OutlierStatistic statistic(
      {"query_outliers", "Outliers of q", "",
       "share of q's components more than 3 standard deviations from the mean, relative to a Gaussian's"},
      &HeadView::q);
  return statistic;
}

const HeadStatistic& QueryOutliersPreRope() {
  static const OutlierStatistic statistic({"query_outliers_pre_rope", "Outliers of q, before RoPE", "",
                                           "the same for q before RoPE; only in traces that record it"},
                                          &HeadView::q_pre_rope);
  return statistic;
}

}  // namespace headscope::analysis
