// Turns counts into Progress reports with a rate and an estimate of the remaining time, at most ten times a second.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>

#include "capture/progress.h"

namespace headscope::capture {

class ProgressMeter {
 public:
  ProgressMeter(std::string stage, std::string unit, int64_t total, const ProgressFunction& report);
  void Report(int64_t done);

 private:
  using Clock = std::chrono::steady_clock;
  struct Sample {
    Clock::time_point time;
    int64_t done;
  };
  Progress progress_;
  const ProgressFunction& report_;
  std::deque<Sample> recent_;  // of the last seconds
  Clock::time_point last_report_;
};

}  // namespace headscope::capture
