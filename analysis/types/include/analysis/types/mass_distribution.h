// SPDX-License-Identifier: Apache-2.0
// How the mass that a mask keeps is spread over the query rows: the histogram of the window and the numbers beside it.
// Pure; one definition of bins, percentile and share for everybody.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace headscope::analysis {

// A statistic over the rows that a target can be set for.
enum class MassStatistic { kMinimum, kFifthPercentile, kMean };

// Of fewer rows the fifth percentile is the minimum, and is called that.
inline constexpr int64_t kLeastQuantileRows = 20;

// The fifth percentile of so many rows as tables say it: "0.9512", or "min of 8" beside the column of the minimum.
std::string FifthPercentileText(int64_t num_rows, double fifth_percentile);

struct MassDistribution {
  // Bin i counts the rows whose mass is in [i, i + 1) / kNumBins. Rounding may take a mass a hair outside 0..1: the
  // first and the last bin hold those, and the last one holds 1.
  static constexpr int32_t kNumBins = 100;
  std::array<int64_t, kNumBins> bins{};
  int64_t num_rows = 0;
  double minimum = 0, mean = 0;
  // The mass at place ceil(num_rows / 20) in ascending order: it reaches a target exactly when fewer than 5 % of the
  // rows lie below that target.
  double fifth_percentile = 0;
  double first_percentile = 0, first_quartile = 0, median = 0;  // likewise, at num_rows / 100, / 4 and / 2
  int64_t worst_row = -1;  // index of the first row with the minimum; -1 without rows

  double Value(MassStatistic statistic) const {
    switch (statistic) {
      case MassStatistic::kMinimum:
        return minimum;
      case MassStatistic::kFifthPercentile:
        return fifth_percentile;
      case MassStatistic::kMean:
        break;
    }
    return mean;
  }
  friend bool operator==(const MassDistribution&, const MassDistribution&) = default;
};

// Of the kept mass of every row, each about 0 to 1; NaN counts as 0. All zero without rows. Linear in the rows.
MassDistribution DistributeMass(std::span<const float> kept_mass);

// Share of the rows whose mass is below the target; NaN counts as 0. 0 without rows.
double ShareBelow(std::span<const float> kept_mass, double target);

}  // namespace headscope::analysis
