// SPDX-License-Identifier: Apache-2.0
// Numbers that have bounds, and that fp32 takes a hair beyond them.
#pragma once

namespace headscope::analysis {

// How far rounding alone takes a share of a row's mass, or an entropy in nats, beyond its bounds: fp32 knows a score to
// some 1e-6 of the largest, and a probability relative to itself as well (docs/analysis.md). Whatever lies further out
// is no rounding (an lse that is not that of its row, say) and stays to be seen.
inline constexpr double kRoundingTolerance = 2e-4;

// A share of a row's mass, 0 to 1.
inline double RoundedShare(double mass) {
  if (mass > 1 && mass <= 1 + kRoundingTolerance) return 1;
  return mass < 0 && mass >= -kRoundingTolerance ? 0 : mass;
}

// A number that is not negative, such as an entropy.
inline double RoundedUpToZero(double value) {
  return value < 0 && value >= -kRoundingTolerance ? 0 : value;
}

}  // namespace headscope::analysis
