// SPDX-License-Identifier: Apache-2.0
#include "head_sweep.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "run_queue.h"
#include "while_alive.h"

namespace headscope::ui {
namespace {

constexpr int32_t kRepeats = 3;

}  // namespace

HeadSweep::HeadSweep(Workbench* workbench, const MethodTrial* trial, HeadStore* heads, QObject* parent)
    : QObject(parent), workbench_(workbench), trial_(trial), heads_(heads) {
  connect(heads, &HeadStore::TraceChanged, this, &HeadSweep::Clear);
}

bool HeadSweep::CanTune() const {
  return heads_->HasTrace() && trial_->method() != nullptr && HasBudget(*trial_->method());
}

void HeadSweep::Start(Kind kind) {
  const kernels::MethodSpec* const spec = trial_->method();
  if (!heads_->HasTrace() || spec == nullptr || (kind == Kind::kTune && !CanTune())) return;
  Clear();
  kind_ = kind;
  method_ = spec->name;
  title_ = spec->title;
  values_ = trial_->values();
  target_ = trial_->target();
  for (const analysis::HeadId& head : heads_->trace().heads) {
    if (heads_->Passes(head)) chosen_.push_back(head);
  }
  heads_->ClearResults();
  Resume();
}

void HeadSweep::Resume() {
  if (!CanResume()) return;
  running_ = true;
  ++number_;
  done_before_ = done_.size();
  since_began_.start();
  Q_EMIT Began();
  Next();
}

void HeadSweep::Stop() {
  if (!running_) return;
  running_ = false;
  ++number_;
  if (kind_ == Kind::kMeasure) {
    workbench_->CancelRun();
  } else {
    workbench_->CancelTuning();
  }
  Q_EMIT Ended();
}

void HeadSweep::Clear() {
  Stop();
  chosen_.clear();
  done_.clear();
  tuned_.clear();
  failures_.clear();
}

void HeadSweep::Next() {
  const auto next =
      std::find_if(chosen_.begin(), chosen_.end(), [this](analysis::HeadId head) { return !done_.contains(head); });
  if (next == chosen_.end()) {
    running_ = false;
    ++number_;
    Q_EMIT Ended();
    Q_EMIT Finished();
    return;
  }
  const analysis::HeadId head = *next;
  const auto while_running = [this](auto reply) {
    return WhileAlive(this, [this, number = number_, reply = std::move(reply)](const auto& answer) {
      if (running_ && number == number_) reply(answer);
    });
  };
  const auto failed = while_running([this, head](const std::string& sentence) { Failed(head, sentence); });
  const auto progress =
      while_running([this](const ProgressReport& report) { Report(report.stage, std::max(report.fraction, 0.0)); });
  if (kind_ == Kind::kTune) {
    Report("Tuning " + method_, 0);
    workbench_->TuneHead(head, method_, values_, target_, while_running([this, head](const TunedSetting& tuned) {
                           tuned_[head] = tuned;
                           done_[head] = {tuned.kept_fraction, tuned.mass.fifth_percentile};
                           HeadDone(head);
                         }),
                         failed, progress);
  } else {
    Report("Measuring " + method_, 0);
    workbench_->RunMethod(head, method_, values_, kRepeats,
                          while_running([this, head](const analysis::MethodResult& run) {
                            done_[head] = {run.kept_fraction, run.cra_p5, run.speedup, run.relative_error};
                            Q_EMIT Measured(run);
                            HeadDone(head);
                          }),
                          failed, progress);
  }
}

void HeadSweep::HeadDone(analysis::HeadId head) {
  heads_->SetResult(head, done_[head]);
  Next();
}

void HeadSweep::Failed(analysis::HeadId head, const std::string& sentence) {
  failures_.append(QStringLiteral("%1:%2: %3").arg(head.layer).arg(head.head).arg(QString::fromStdString(sentence)));
  done_[head] = {};
  Next();
}

void HeadSweep::Report(const std::string& stage, double of_head) {
  ProgressReport report;
  const auto all = static_cast<double>(chosen_.size()), finished = static_cast<double>(done_.size());
  report.stage = stage + tr(" (head %1 of %2)").arg(done_.size() + 1).arg(chosen_.size()).toStdString();
  report.fraction = (finished + std::min(of_head, 1.0)) / all;
  const double seconds = static_cast<double>(since_began_.elapsed()) / 1000;
  if (done_.size() > done_before_ && seconds > 0) {
    report.rate = (finished - static_cast<double>(done_before_)) / seconds;
    report.unit = tr("heads").toStdString();
    report.remaining_s = (all - finished) / report.rate;
  }
  Q_EMIT Progressed(report);
}

std::vector<TunedSetting> HeadSweep::Tuned() const {
  std::vector<TunedSetting> tuned;
  for (const auto& [head, setting] : tuned_) tuned.push_back(setting);
  return tuned;
}

QString HeadSweep::Summary() const {
  double kept = 0;
  qsizetype counted = 0, reached = 0;
  for (const auto& [head, result] : done_) {
    if (std::isnan(result.kept_fraction)) continue;
    kept += result.kept_fraction;
    ++counted;
  }
  for (const auto& [head, tuned] : tuned_) reached += tuned.reached ? 1 : 0;
  const QString title = QString::fromStdString(title_);
  const QString heads = counted == 1 ? tr("1 head") : tr("%1 heads").arg(counted);
  const QString average = counted == 0
                              ? QStringLiteral("–")
                              : QStringLiteral("%1 %").arg(100 * kept / static_cast<double>(counted), 0, 'f', 1);
  QString text = kind_ == Kind::kTune
                     ? tr("%1 tuned at %2 on %3: %4 of them reach it, keeping %5 of the pairs on average.")
                           .arg(title)
                           .arg(target_)
                           .arg(heads)
                           .arg(reached)
                           .arg(average)
                     : tr("%1 measured on %2: it keeps %3 of the pairs on average.").arg(title, heads, average);
  if (!failures_.isEmpty()) text += tr(" %1 failed: %2").arg(failures_.size()).arg(failures_.first());
  return text;
}

}  // namespace headscope::ui
