// SPDX-License-Identifier: Apache-2.0
// How large a head's logits are: training runs watch the largest one and clip q and k where it passes 100 (QK-clip:
// "Kimi K2: Open Agentic Intelligence"). A row's largest one is log(largest probability) + lse.
#include <cmath>
#include <limits>

#include "row_statistic_list.h"

namespace headscope::analysis {
namespace {

constexpr double kClipAt = 100;

double LargestOf(const RowView& row) {
  return row.max_probability > 0 ? std::log(row.max_probability) + row.lse : std::numeric_limits<double>::quiet_NaN();
}

class LargestLogitStatistic : public RowStatistic {
 public:
  const MetricInfo& info() const override {
    static const MetricInfo info = {
        "largest_logit", "Largest logit", "", "largest scaled score of any row; QK-clip acts above 100", false, 0, 0,
        kClipAt};
    return info;
  }
  bool reads_probabilities() const override { return false; }
  Over over_rows() const override { return Over::kMaximum; }
  double OfRow(const RowView& row) const override { return LargestOf(row); }
};

class RowMaximumStatistic : public RowStatistic {
 public:
  const MetricInfo& info() const override {
    static const MetricInfo info = {
        "row_maximum", "Row maximum", "", "largest scaled score of a row, mean over rows", true, 0, 0};
    return info;
  }
  bool reads_probabilities() const override { return false; }
  double OfRow(const RowView& row) const override { return LargestOf(row); }
};

class LseStatistic : public RowStatistic {
 public:
  const MetricInfo& info() const override {
    static const MetricInfo info = {
        "lse", "Log-sum-exp", "nats", "log-sum-exp of a row's scores, mean over rows", true, 0, 0};
    return info;
  }
  bool reads_probabilities() const override { return false; }
  double OfRow(const RowView& row) const override { return row.lse; }
};

}  // namespace

const RowStatistic& LargestLogit() {
  static const LargestLogitStatistic statistic;
  return statistic;
}

const RowStatistic& RowMaximum() {
  static const RowMaximumStatistic statistic;
  return statistic;
}

const RowStatistic& MeanLse() {
  static const LseStatistic statistic;
  return statistic;
}

}  // namespace headscope::analysis
