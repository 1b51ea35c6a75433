// SPDX-License-Identifier: Apache-2.0
// Turns counts into Progress reports with a rate and an estimate of the remaining time, at most ten times a second.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>

#include "base/progress.h"

namespace headscope {

class ProgressMeter {
 public:
  // What the rate is taken over: the last seconds suits work that slows down as it grows, the whole stage suits work of
  // fast and slow parts that alternate.
  enum class RateOver { kLastSeconds, kWholeStage };
  ProgressMeter(std::string stage, ProgressUnit unit, int64_t total, const ProgressFunction& report,
                RateOver rate_over = RateOver::kLastSeconds);
  void Report(int64_t done);

 private:
  using Clock = std::chrono::steady_clock;
  struct Sample {
    Clock::time_point time;
    int64_t done;
  };
  Progress progress_;
  const ProgressFunction& report_;
  RateOver rate_over_;
  std::deque<Sample> recent_;  // what the rate is taken over, oldest first
  Clock::time_point last_report_;
};

}  // namespace headscope
