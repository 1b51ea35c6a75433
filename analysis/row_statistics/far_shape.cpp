// SPDX-License-Identifier: Apache-2.0
// Where the mass outside sinks and local window lies: on single far keys ("middle spikes"), or on many ("uniform
// scatter"). With sink and local mass these are the four descriptors of S2-Attention ("Efficient LLM Training and
// Serving with Heterogeneous Context Sharding among Attention Heads", section 3), which names them and gives no rule.
#include "row_statistic_list.h"

namespace headscope::analysis {
namespace {

// A spike holds this many times what an even spread would give it.
constexpr double kSpike = 32;

struct FarShape {
  double spikes = 0, scatter = 0;
};

FarShape ShapeOf(const RowView& row) {
  double sum = 0;
  for (const float p : row.far_p) sum += static_cast<double>(p);
  const auto least = static_cast<float>(kSpike * sum / static_cast<double>(row.far_p.size()));
  FarShape shape;
  for (const float p : row.far_p) {
    if (p >= least && p > 0) shape.spikes += static_cast<double>(p);
  }
  shape.scatter = sum - shape.spikes;
  return shape;
}

class FarShapeStatistic : public RowStatistic {
 public:
  FarShapeStatistic(MetricInfo info, double FarShape::*part) : info_(std::move(info)), part_(part) {}
  const MetricInfo& info() const override { return info_; }
  bool reads_probabilities() const override { return true; }
  bool samples_rows() const override { return true; }
  double OfRow(const RowView& row) const override { return row.far_p.empty() ? 0 : ShapeOf(row).*part_; }

 private:
  const MetricInfo info_;
  double FarShape::*part_;
};

}  // namespace

const RowStatistic& SpikeMass() {
  static const FarShapeStatistic statistic(
      {.name = "spike_mass",
       .title = "Middle-spike mass",
       .unit = "share",
       .help = "mass of far keys that hold at least 32 times an even share, mean over rows",
       .maximum = 1,
       .mass_part = "middle spikes"},
      &FarShape::spikes);
  return statistic;
}

const RowStatistic& ScatterMass() {
  static const FarShapeStatistic statistic({.name = "scatter_mass",
                                            .title = "Scattered mass",
                                            .unit = "share",
                                            .help = "mass of the other far keys, mean over rows",
                                            .maximum = 1,
                                            .mass_part = "scatter"},
                                           &FarShape::scatter);
  return statistic;
}

}  // namespace headscope::analysis
