#include "progress_line.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>

namespace headscope::app {

using Clock = std::chrono::steady_clock;

ProgressLine::ProgressLine(bool quiet) : quiet_(quiet), terminal_(::isatty(STDERR_FILENO) == 1) {}

ProgressLine::~ProgressLine() {
  if (width_ > 0) std::fputc('\n', stderr);
}

void ProgressLine::Show(const capture::Progress& progress) {
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
  if (!terminal_ && new_stage && !last) return;  // a log gets a stage's first line when it has something to say
  shown_ = now;

  std::string line = progress.stage;
  char text[160];
  if (progress.total > 0) {
    std::snprintf(text, sizeof text, ": %lld of %lld %s (%.0f %%)", static_cast<long long>(progress.done),
                  static_cast<long long>(progress.total), progress.unit.c_str(),
                  100.0 * static_cast<double>(progress.done) / static_cast<double>(progress.total));
    line += text;
  }
  if (progress.rate > 0) {
    std::snprintf(text, sizeof text, ", %.0f %s/s", progress.rate, progress.unit.c_str());
    line += text;
  }
  if (!last && progress.remaining_s >= 0) line += ", " + FormatDuration(progress.remaining_s) + " left";
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

void ProgressLine::Show(const std::string& stage, int64_t done, int64_t total, const std::string& unit) {
  capture::Progress progress;
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

std::string FormatBytes(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  char text[48];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.2f %s", value, kUnits[unit]);
  return text;
}

}  // namespace headscope::app
