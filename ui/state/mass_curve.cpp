// SPDX-License-Identifier: Apache-2.0
#include "mass_curve.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "method_trial.h"

namespace headscope::ui {

std::vector<CurveBin> MakeMassCurve(const std::vector<float>& kept_mass, CurveOrder order, size_t most_bins) {
  const size_t count = kept_mass.size(), num_bins = std::min(count, most_bins);
  const auto mass = [&](int64_t at) {
    const float value = kept_mass[static_cast<size_t>(at)];
    return std::isnan(value) ? 0.0f : value;
  };
  std::vector<int64_t> at(count);
  std::iota(at.begin(), at.end(), int64_t{0});
  if (order == CurveOrder::kSorted)
    std::stable_sort(at.begin(), at.end(), [&](int64_t a, int64_t b) { return mass(a) < mass(b); });
  std::vector<CurveBin> bins;
  bins.reserve(num_bins);
  for (size_t bin = 0; bin < num_bins; ++bin) {
    const size_t begin = bin * count / num_bins, end = (bin + 1) * count / num_bins;
    CurveBin one{static_cast<int64_t>(begin), static_cast<int64_t>(end), mass(at[begin]), mass(at[begin]), at[begin]};
    for (size_t i = begin + 1; i < end; ++i) {
      const float value = mass(at[i]);
      one.most = std::max(one.most, value);
      if (value >= one.least) continue;
      one.least = value;
      one.worst = at[i];
    }
    bins.push_back(one);
  }
  return bins;
}

double SnappedTarget(double target, bool fine) {
  // By division: 95 / 100 is the double that is written 0.95; 95 * 0.01 is not always.
  const double per_one = std::round(1 / (fine ? kFineTargetStep : kTargetStep));
  return std::clamp(std::round(target * per_one) / per_one, 0.0, kGreatestMassTarget);
}

}  // namespace headscope::ui
