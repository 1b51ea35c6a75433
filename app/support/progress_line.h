// SPDX-License-Identifier: Apache-2.0
// One line of progress on stderr: redrawn in place on a terminal, a plain line every few seconds in a log.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/progress.h"

namespace headscope::app {

class ProgressLine {
 public:
  explicit ProgressLine(bool quiet = false);
  ~ProgressLine();  // ends the line
  void Show(const Progress& progress);
  // For work without a rate of its own: rate and remaining time are taken from the calls.
  void Show(const std::string& stage, int64_t done, int64_t total, ProgressUnit unit);
  // Takes the line off a terminal, so that what is printed next stands alone; the next Show draws it again.
  void Clear();

 private:
  bool quiet_;
  bool terminal_;
  size_t width_ = 0;
  std::string stage_;
  std::chrono::steady_clock::time_point stage_begin_, shown_;
};

// "loading model: 12.5 of 36.8 MiB (34 %), 120 MiB/s, 2 s left". Bytes are told in the unit that suits the total, a
// percentage without a rate.
std::string ProgressText(const Progress& progress);
// "2 m 05 s", "12 s".
std::string FormatDuration(double seconds);

}  // namespace headscope::app
