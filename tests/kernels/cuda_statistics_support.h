// SPDX-License-Identifier: Apache-2.0
// What the tests of the GPU's statistics share.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <limits>

#include "device_array.h"
#include "support/gpu.h"

namespace headscope::kernels::testing {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The largest error over what is allowed for it; at most 1 passes.
class WorstError {
 public:
  void Add(double measured, double expected, double absolute, double relative) {
    const double allowed = absolute + relative * std::abs(expected);
    const double error = std::abs(measured - expected) / allowed;
    if (!(error <= worst_)) {  // NaN is the worst
      worst_ = std::isnan(error) ? kInfinity : error;
      measured_ = measured;
      expected_ = expected;
    }
  }
  void Check(const char* what) const {
    EXPECT_LE(worst_, 1.0) << what << ": measured " << measured_ << ", expected " << expected_;
    std::printf("    %-12s worst error %.3f of what is allowed (at %g)\n", what, worst_, expected_);
  }

 private:
  double worst_ = 0, measured_ = 0, expected_ = 0;
};

}  // namespace headscope::kernels::testing
