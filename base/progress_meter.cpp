// SPDX-License-Identifier: Apache-2.0
#include "base/progress_meter.h"

#include <utility>

namespace headscope {
namespace {

constexpr std::chrono::milliseconds kBetweenReports{100};
constexpr std::chrono::seconds kRateWindow{5};
constexpr double kLeastSeconds = 0.05;  // below this a rate is noise

double Seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

std::string_view NameOf(ProgressUnit unit) {
  switch (unit) {
    case ProgressUnit::kPercent:
      return "%";
    case ProgressUnit::kTokens:
      return "tokens";
    case ProgressUnit::kBytes:
      return "bytes";
    case ProgressUnit::kHeads:
      return "heads";
    case ProgressUnit::kRuns:
      return "runs";
  }
  return {};
}

ProgressMeter::ProgressMeter(std::string stage, ProgressUnit unit, int64_t total, const ProgressFunction& report,
                             RateOver rate_over)
    : report_(report), rate_over_(rate_over) {
  progress_.stage = std::move(stage);
  progress_.unit = unit;
  progress_.total = total;
  recent_.push_back({Clock::now(), 0});
}

void ProgressMeter::Report(int64_t done) {
  if (!report_) return;
  const Clock::time_point now = Clock::now();
  if (rate_over_ == RateOver::kLastSeconds) {
    recent_.push_back({now, done});
    // One sample older than the window stays, so that the rate is over the whole of it.
    while (recent_.size() > 2 && now - recent_[1].time > kRateWindow) recent_.pop_front();
  }
  if (done < progress_.total && now - last_report_ < kBetweenReports) return;
  last_report_ = now;
  progress_.done = done;
  const double elapsed = Seconds(now - recent_.front().time);
  if (elapsed > kLeastSeconds && done > recent_.front().done) {
    progress_.rate = static_cast<double>(done - recent_.front().done) / elapsed;
    progress_.remaining_s = static_cast<double>(progress_.total - done) / progress_.rate;
  }
  report_(progress_);
}

}  // namespace headscope
