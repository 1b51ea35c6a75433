// One line of progress on stderr: redrawn in place on a terminal, a plain line every few seconds in a log.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "capture/progress.h"

namespace headscope::app {

class ProgressLine {
 public:
  explicit ProgressLine(bool quiet = false);
  ~ProgressLine();  // ends the line
  void Show(const capture::Progress& progress);
  // For work without a rate of its own: rate and remaining time are taken from the calls.
  void Show(const std::string& stage, int64_t done, int64_t total, const std::string& unit);

 private:
  bool quiet_;
  bool terminal_;
  size_t width_ = 0;
  std::string stage_;
  std::chrono::steady_clock::time_point stage_begin_, shown_;
};

// "2 m 05 s", "12 s".
std::string FormatDuration(double seconds);
// "1.25 MiB".
std::string FormatBytes(int64_t bytes);

}  // namespace headscope::app
