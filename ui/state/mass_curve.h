// SPDX-License-Identifier: Apache-2.0
// The kept mass (CRA) of every query as a curve no wider than a screen, and the steps of the target line across it.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace headscope::ui {

enum class CurveOrder {
  kByQuery,  // as the prompt goes on
  kSorted,   // ascending: left of where the curve crosses the target are the queries below it
};

// What lies under one pixel column: [begin, end) of the queries in the curve's order.
struct CurveBin {
  int64_t begin = 0, end = 0;
  float least = 0, most = 0;
  int64_t worst = 0;  // index into the masses of the least one, the first of equals
};

// At most `most_bins` bins of as equal a number of queries as can be, in the curve's order; none of no masses. Time is
// that of a sort. NaN masses count as 0.
std::vector<CurveBin> MakeMassCurve(const std::vector<float>& kept_mass, CurveOrder order, size_t most_bins);

// How far a target moves at a time.
inline constexpr double kTargetStep = 0.01, kFineTargetStep = 0.001, kBigTargetStep = 0.05;
// That of an arrow key: with Ctrl finer, with Shift larger.
constexpr double TargetStep(bool with_control, bool with_shift) {
  return with_control ? kFineTargetStep : with_shift ? kBigTargetStep : kTargetStep;
}
// The nearest multiple of kTargetStep, or of kFineTargetStep, within 0..kGreatestMassTarget.
double SnappedTarget(double target, bool fine);

}  // namespace headscope::ui
