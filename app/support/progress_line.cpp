// SPDX-License-Identifier: Apache-2.0
#include "support/progress_line.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "analysis/types/printable.h"
#include "base/byte_text.h"

namespace headscope::app {

using Clock = std::chrono::steady_clock;

namespace {

// Rates below ten a second would lose what matters as whole numbers.
std::string Rate(const Progress& progress) {
  if (progress.unit == ProgressUnit::kBytes) return ByteText(std::llround(progress.rate)) + "/s";
  char text[32];
  std::snprintf(text, sizeof text, progress.rate < 10 ? "%.1f " : "%.0f ", progress.rate);
  return std::string(text).append(NameOf(progress.unit)).append("/s");
}

}  // namespace

ProgressLine::ProgressLine(bool quiet) : quiet_(quiet), terminal_(::isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() {
  if (width_ > 0) std::fputc('\n', stderr);
}

void ProgressLine::Show(const Progress& progress) {
  if (quiet_) return;
  const Clock::time_point now = Clock::now();
  const bool new_stage = progress.stage != stage_;
  if (new_stage) {
    stage_ = progress.stage;
    stage_begin_ = now;
  }
  const bool last = progress.total > 0 && progress.done >= progress.total;
  const std::chrono::milliseconds pause(terminal_ ? 100 : 5000);
  if (!last && !new_stage && now - shown_ < pause) return;
  shown_ = now;
  if (!terminal_ && new_stage && !last) return;  // a log gets a stage's first line when it has something to say

  const std::string line = ProgressText(progress);
  if (terminal_) {
    const size_t padding = width_ > line.size() ? width_ - line.size() : 0;
    std::fprintf(stderr, "\r%s%*s", line.c_str(), static_cast<int>(padding), "");
    width_ = line.size();
    if (last) {
      std::fputc('\n', stderr);
      width_ = 0;
    }
  } else {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
  std::fflush(stderr);
}

void ProgressLine::Clear() {
  if (width_ == 0) return;
  std::fprintf(stderr, "\r%*s\r", static_cast<int>(width_), "");
  std::fflush(stderr);
  width_ = 0;
}

void ProgressLine::Show(const std::string& stage, int64_t done, int64_t total, ProgressUnit unit) {
  Progress progress;
  progress.stage = stage;
  progress.done = done;
  progress.total = total;
  progress.unit = unit;
  const double seconds = stage == stage_ ? std::chrono::duration<double>(Clock::now() - stage_begin_).count() : 0.0;
  if (done > 0 && seconds > 0.2) {
    progress.rate = static_cast<double>(done) / seconds;
    progress.remaining_s = static_cast<double>(total - done) / progress.rate;
  }
  Show(progress);
}

std::string ProgressText(const Progress& progress) {
  std::string line = analysis::Printable(progress.stage);
  const bool percent = progress.unit == ProgressUnit::kPercent;
  if (progress.total > 0) {
    const double share = 100.0 * static_cast<double>(progress.done) / static_cast<double>(progress.total);
    char share_text[32];
    std::snprintf(share_text, sizeof share_text, "%.0f %%", share);
    if (percent) {
      line.append(": ").append(share_text);
    } else {
      const std::string counts = progress.unit == ProgressUnit::kBytes
                                     ? ByteText(progress.done, progress.total)
                                     : std::to_string(progress.done) + " of " + std::to_string(progress.total) + " " +
                                           std::string(NameOf(progress.unit));
      line.append(": ").append(counts).append(" (").append(share_text).append(")");
    }
  }
  if (progress.rate > 0 && !percent) line.append(", ").append(Rate(progress));
  const bool last = progress.total > 0 && progress.done >= progress.total;
  if (!last && progress.remaining_s >= 0)
    line.append(", ").append(FormatDuration(progress.remaining_s)).append(" left");
  return line;
}

std::string FormatDuration(double seconds) {
  char text[48];
  const auto whole = static_cast<long long>(std::llround(seconds));
  if (whole >= 3600) {
    std::snprintf(text, sizeof text, "%lld h %02lld m", whole / 3600, whole / 60 % 60);
  } else if (whole >= 60) {
    std::snprintf(text, sizeof text, "%lld m %02lld s", whole / 60, whole % 60);
  } else {
    std::snprintf(text, sizeof text, "%lld s", whole);
  }
  return text;
}

}  // namespace headscope::app
