// SPDX-License-Identifier: Apache-2.0
// A statistic as an extension adds it: how many keys a row looks at, as 1 / sum of p^2 (the inverse Simpson index).
#include <limits>

#include "row_statistics/row_statistic_list.h"

namespace headscope::analysis {
namespace {

class EffectiveKeysStatistic : public RowStatistic {
 public:
  const MetricInfo& info() const override {
    static const MetricInfo info = {"effective_keys",
                                    "Effective keys",
                                    "keys",
                                    "1 / (sum of a row's squared probabilities), mean over rows",
                                    false,
                                    0,
                                    0};
    return info;
  }
  bool reads_probabilities() const override { return true; }
  double OfRow(const RowView& row) const override {
    double squares = 0;
    for (const float p : row.p) squares += static_cast<double>(p) * static_cast<double>(p);
    return squares == 0 ? std::numeric_limits<double>::quiet_NaN() : 1 / squares;
  }
};

}  // namespace

const RowStatistic& EffectiveKeys() {
  static const EffectiveKeysStatistic statistic;
  return statistic;
}

}  // namespace headscope::analysis
