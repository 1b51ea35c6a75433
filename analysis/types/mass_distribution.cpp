// SPDX-License-Identifier: Apache-2.0
#include "analysis/types/mass_distribution.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "analysis/types/number_text.h"

namespace headscope::analysis {
namespace {

float WithoutNaN(float mass) {
  return std::isnan(mass) ? 0.0f : mass;
}

}  // namespace

MassDistribution DistributeMass(std::span<const float> kept_mass) {
  MassDistribution result;
  result.num_rows = static_cast<int64_t>(kept_mass.size());
  if (kept_mass.empty()) return result;
  std::vector<float> masses(kept_mass.size());
  std::transform(kept_mass.begin(), kept_mass.end(), masses.begin(), WithoutNaN);
  double sum = 0;
  for (const float value : masses) {
    const auto mass = static_cast<double>(value);
    sum += mass;
    // In double, where the edges of the bins are the doubles nearest to i / kNumBins: a row lies in a bin left of a
    // target on an edge exactly when its mass is below that target.
    const double bin = std::clamp(std::floor(mass * MassDistribution::kNumBins), 0.0, MassDistribution::kNumBins - 1.0);
    ++result.bins[static_cast<size_t>(bin)];
  }
  result.mean = sum / static_cast<double>(kept_mass.size());
  const auto worst = std::min_element(masses.begin(), masses.end());
  result.minimum = static_cast<double>(*worst);
  result.worst_row = worst - masses.begin();
  // Rising, so that each is looked for behind the last.
  auto from = masses.begin();
  for (const auto& [part, value] : {std::pair(100, &result.first_percentile), std::pair(20, &result.fifth_percentile),
                                    std::pair(4, &result.first_quartile), std::pair(2, &result.median)}) {
    const auto place = masses.begin() + (std::ssize(masses) + part - 1) / part - 1;
    std::nth_element(from, place, masses.end());
    *value = static_cast<double>(*place);
    from = place;
  }
  return result;
}

double ShareBelow(std::span<const float> kept_mass, double target) {
  if (kept_mass.empty()) return 0;
  const auto below = std::count_if(kept_mass.begin(), kept_mass.end(),
                                   [target](float mass) { return static_cast<double>(WithoutNaN(mass)) < target; });
  return static_cast<double>(below) / static_cast<double>(kept_mass.size());
}

std::string FifthPercentileText(int64_t num_rows, double fifth_percentile) {
  return num_rows < kLeastQuantileRows ? "min of " + std::to_string(num_rows) : FormatNumber("%.4f", fifth_percentile);
}

}  // namespace headscope::analysis
