// SPDX-License-Identifier: Apache-2.0
// How a measured run's repeats are told to the window.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "analysis/compare.h"
#include "ui/workbench.h"

namespace headscope::app {

// Passes the newest report on when the one before has been shown for a while, and drops it otherwise: a frame drawn
// for every repeat would take time from the very run that is measured.
class ReportNowAndThen {
 public:
  explicit ReportNowAndThen(std::function<void(ui::ProgressReport)> pass_on) : pass_on_(std::move(pass_on)) {}

  void operator()(ui::ProgressReport report) {
    if (!IsDue()) return;
    pass_on_(std::move(report));
    last_ = std::chrono::steady_clock::now();  // when it is shown, if passing it on waits for that
  }

  void operator()(const std::string& method, const analysis::RepeatProgress& progress) {
    if (!IsDue()) return;
    ui::ProgressReport report;
    // Beside the method go dense and whatever else it is compared with.
    report.stage = "Measuring " + method;
    if (progress.method != method) report.stage += ": " + std::string(progress.method);
    report.stage += ", ";
    report.stage += progress.repeat == 0
                        ? "warming up"
                        : "repeat " + std::to_string(progress.repeat) + " of " + std::to_string(progress.repeats);
    report.fraction = static_cast<double>(progress.repeat) / (progress.repeats + 1);
    (*this)(std::move(report));
  }

 private:
  bool IsDue() const { return std::chrono::steady_clock::now() - last_ >= kShownFor; }

  static constexpr std::chrono::milliseconds kShownFor{400};
  std::function<void(ui::ProgressReport)> pass_on_;
  // A frame of the window takes as long as a short repeat, so the first report waits like every other.
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace headscope::app
