// SPDX-License-Identifier: Apache-2.0
#include "run_queue.h"

#include <algorithm>
#include <utility>

#include "while_alive.h"

namespace headscope::ui {
namespace {

constexpr int32_t kRepeatsOfAll = 3;

}  // namespace

bool HasBudget(const kernels::MethodSpec& method) {
  return method.phase == kernels::Phase::kPrefill &&
         std::any_of(method.parameters.begin(), method.parameters.end(),
                     [](const auto& parameter) { return parameter.role != kernels::ParameterRole::kOther; });
}

RunQueue::RunQueue(Workbench* workbench, MethodTrial* trial, const HeadStore* heads, QObject* parent)
    : QObject(parent), workbench_(workbench), trial_(trial), heads_(heads) {
  connect(trial, &MethodTrial::RunStarted, this, &RunQueue::BeginTrialRun);
  connect(trial, &MethodTrial::RunProgressed, this,
          [this](const ProgressReport& report) { Q_EMIT Progressed(Work::kRun, report); });
  connect(trial, &MethodTrial::RunFinished, this, [this](const analysis::MethodResult& run) {
    EndTrialRun();
    Q_EMIT Measured(run);
  });
  connect(trial, &MethodTrial::RunFailed, this, [this](const QString& sentence) {
    EndTrialRun();
    Q_EMIT Failed(sentence);
  });
  connect(trial, &MethodTrial::Changed, this, [this] {
    if (!trial_->running()) EndTrialRun();  // it was cancelled
  });
}

void RunQueue::BeginTrialRun() {
  StopRuns();
  trial_runs_ = true;
  Q_EMIT Began(Work::kRun);
  ProgressReport report;
  report.stage = "Measuring " + trial_->method()->name;
  report.fraction = 0;  // known: an unknown one is an animation, whose frames the run would be measured beside
  Q_EMIT Progressed(Work::kRun, report);
}

void RunQueue::EndTrialRun() {
  if (std::exchange(trial_runs_, false)) Q_EMIT Ended(Work::kRun);
}

void RunQueue::RunAll() {
  if (!heads_->selected()) return;
  StopSearch();
  StopRuns();
  trial_->CancelRun();
  // The dense baseline comes with every run.
  for (const kernels::MethodSpec& method : trial_->methods()) {
    if (!method.baseline) pending_runs_.push_back({*heads_->selected(), method.name, trial_->ValuesOf(method)});
  }
  BeginRuns();
}

void RunQueue::BeginRuns() {
  num_runs_ = pending_runs_.size();
  since_runs_began_.start();
  measuring_all_ = true;
  Q_EMIT Began(Work::kRunAll);
  RunNextMethod();
}

void RunQueue::RunNextMethod() {
  if (pending_runs_.empty()) {
    StopRuns();
    return;
  }
  const PendingRun run = pending_runs_.front();
  pending_runs_.pop_front();
  const size_t done = num_runs_ - pending_runs_.size() - 1;
  workbench_->RunMethod(run.head, run.method, run.values, kRepeatsOfAll,
                        WhileAlive(this,
                                   [this](const analysis::MethodResult& result) {
                                     Q_EMIT Measured(result);
                                     RunNextMethod();
                                   }),
                        WhileAlive(this,
                                   [this](const std::string& sentence) {
                                     Q_EMIT Failed(QString::fromStdString(sentence));
                                     RunNextMethod();
                                   }),
                        WhileAlive(this, [this, done](ProgressReport report) {
                          const auto all = static_cast<double>(num_runs_), finished = static_cast<double>(done);
                          report.stage += tr(" (%1 of %2)").arg(done + 1).arg(num_runs_).toStdString();
                          report.fraction = finished / all;
                          if (done > 0) {
                            const double seconds = static_cast<double>(since_runs_began_.elapsed()) / 1000;
                            report.rate = finished / seconds;
                            report.unit = tr("methods").toStdString();
                            report.remaining_s = (all - finished) * seconds / finished;
                          }
                          Q_EMIT Progressed(Work::kRunAll, report);
                        }));
}

void RunQueue::StopRuns() {
  pending_runs_.clear();
  if (std::exchange(measuring_all_, false)) Q_EMIT Ended(Work::kRunAll);
}

void RunQueue::StopAll() {
  StopSearch();
  StopRuns();
}

void RunQueue::Cancel(Work work) {
  switch (work) {
    case Work::kRun:
      trial_->CancelRun();
      EndTrialRun();
      break;
    case Work::kRunAll:
      workbench_->CancelRun();
      StopRuns();
      break;
    case Work::kSearch:
      StopSearch();
      break;
  }
}

bool RunQueue::CanSearch() const {
  return heads_->selected() && trial_->method() != nullptr && HasBudget(*trial_->method());
}

void RunQueue::MeetTarget() {
  if (!CanSearch()) return;
  BeginSearch();
  const kernels::MethodSpec* const method = trial_->method();
  Search(
      method->name, trial_->values(), {},
      [this, method](const kernels::ParameterValues& values) {
        StopSearch();
        if (trial_->method() == method) trial_->SelectMethod(method->name, values);  // one step back undoes it
      },
      [this](const std::string& sentence) {
        StopSearch();
        Q_EMIT Failed(QString::fromStdString(sentence));
      });
}

void RunQueue::RunAllAtTarget() {
  if (!heads_->selected()) return;
  StopRuns();
  trial_->CancelRun();
  BeginSearch();
  // All searches come before the first run: what is measured has the machine to itself, and no longer depends on what
  // the window shows.
  for (const kernels::MethodSpec& method : trial_->methods()) {
    if (HasBudget(method)) pending_searches_.push_back(method);
  }
  num_searches_ = pending_searches_.size();
  SearchNextMethod();
}

void RunQueue::SearchNextMethod() {
  if (pending_searches_.empty()) {
    const QString unreached = unreached_.join(u' ');
    pending_runs_.swap(found_runs_);
    StopSearch();
    if (!unreached.isEmpty()) Q_EMIT Failed(unreached);
    BeginRuns();
    return;
  }
  const kernels::MethodSpec method = pending_searches_.front();
  pending_searches_.pop_front();
  const QString place = tr(" (%1 of %2)").arg(num_searches_ - pending_searches_.size()).arg(num_searches_);
  Search(
      method.name, trial_->ValuesOf(method), place,
      [this, head = *heads_->selected(), name = method.name](const kernels::ParameterValues& values) {
        found_runs_.push_back({head, name, values});
        SearchNextMethod();
      },
      [this](const std::string& sentence) {
        unreached_.append(QString::fromStdString(sentence));
        SearchNextMethod();
      });
}

void RunQueue::Search(const std::string& method, const kernels::ParameterValues& values, const QString& place,
                      Reply<kernels::ParameterValues> done, ErrorReply failed) {
  // An answer may be on its way when its search is stopped.
  const auto while_searched = [this, number = search_number_](auto reply) {
    return WhileAlive(this, [this, number, reply = std::move(reply)](const auto& answer) {
      if (number == search_number_) reply(answer);
    });
  };
  workbench_->MeetTarget(*heads_->selected(), method, values, trial_->target(), while_searched(std::move(done)),
                         while_searched(std::move(failed)), WhileAlive(this, [this, place](ProgressReport report) {
                           report.stage += place.toStdString();
                           Q_EMIT Progressed(Work::kSearch, report);
                         }));
}

void RunQueue::BeginSearch() {
  StopSearch();
  searching_ = true;
  Q_EMIT SearchingChanged();
  Q_EMIT Began(Work::kSearch);
}

void RunQueue::StopSearch() {
  if (!searching_) return;
  searching_ = false;
  ++search_number_;
  pending_searches_.clear();
  found_runs_.clear();
  unreached_.clear();
  workbench_->CancelSearch();
  Q_EMIT SearchingChanged();
  Q_EMIT Ended(Work::kSearch);
}

}  // namespace headscope::ui
