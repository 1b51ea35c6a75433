// SPDX-License-Identifier: Apache-2.0
// The number of keys that, attended evenly, would have a row's entropy: its perplexity.
#include <cmath>

#include "row_statistic_list.h"

namespace headscope::analysis {
namespace {

class NumEffectiveKeysStatistic : public RowStatistic {
 public:
  const MetricInfo& info() const override {
    static const MetricInfo info = {"num_effective_keys",
                                    "Effective number of keys",
                                    "keys",
                                    "exp(entropy of a row's probabilities), mean over rows",
                                    false,
                                    0,
                                    0};
    return info;
  }
  bool reads_probabilities() const override { return false; }
  double OfRow(const RowView& row) const override { return std::exp(row.entropy); }
};

}  // namespace

const RowStatistic& NumEffectiveKeys() {
  static const NumEffectiveKeysStatistic statistic;
  return statistic;
}

}  // namespace headscope::analysis
