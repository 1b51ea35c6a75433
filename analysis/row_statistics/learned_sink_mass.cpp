// SPDX-License-Identifier: Apache-2.0
// What a head's learned logit takes of a row's mass (gpt-oss and others): no token gets it, so a head that gives much
// of it to the sink does little in that row.
#include <limits>

#include "row_statistic_list.h"

namespace headscope::analysis {
namespace {

class LearnedSinkMassStatistic : public RowStatistic {
 public:
  const MetricInfo& info() const override {
    static const MetricInfo info = {
        "learned_sink_mass",
        "Learned sink mass",
        "share",
        "mass that the head's learned logit takes and no token gets, mean over rows; 0 without one",
        false,
        0,
        1,
        /*alarm=*/std::numeric_limits<double>::infinity(),
        /*of_sinks=*/true};
    return info;
  }
  bool reads_probabilities() const override { return false; }
  double OfRow(const RowView& row) const override { return row.learned_sink_mass; }
};

}  // namespace

const RowStatistic& LearnedSinkMass() {
  static const LearnedSinkMassStatistic statistic;
  return statistic;
}

}  // namespace headscope::analysis
