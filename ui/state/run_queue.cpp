// SPDX-License-Identifier: Apache-2.0
#include "run_queue.h"

#include <algorithm>
#include <utility>

#include "while_alive.h"

namespace headscope::ui {
namespace {

constexpr int32_t kRepeatsOfAll = 3;

// A sentence as a part of another one: it names its method once, and has no full stop.
QString WithoutEnd(QString sentence, const QString& method) {
  while (sentence.endsWith(u'.')) sentence.chop(1);
  return sentence.contains(method) ? sentence : QStringLiteral("%1: %2").arg(method, sentence);
}

}  // namespace

bool HasBudget(const kernels::MethodSpec& method) {
  const auto budgets = std::count_if(method.parameters.begin(), method.parameters.end(), [](const auto& parameter) {
    return parameter.role != kernels::ParameterRole::kOther;
  });
  return method.phase == kernels::Phase::kDecode ? budgets == 1 : budgets > 0;
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
  aim_timer_.setSingleShot(true);
  aim_timer_.setInterval(kAimRestMs);
  connect(&aim_timer_, &QTimer::timeout, this, &RunQueue::AimNow);
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
  CancelRuns();
  trial_->CancelRun();
  left_out_.clear();
  // The dense baseline comes with every run.
  for (const kernels::MethodSpec& method : trial_->methods()) {
    if (!method.baseline) pending_runs_.push_back({*heads_->selected(), method.name, trial_->ValuesOf(method)});
  }
  BeginRuns();
}

void RunQueue::BeginRuns() {
  num_runs_ = pending_runs_.size();
  ++series_;
  since_runs_began_.start();
  measuring_all_ = true;
  Q_EMIT Began(Work::kRunAll);
  RunNextMethod();
}

void RunQueue::RunNextMethod() {
  if (pending_runs_.empty()) {
    const QStringList left_out = std::exchange(left_out_, {});
    StopRuns();
    if (!left_out.isEmpty()) Q_EMIT LeftOut(tr("Left out: %1.").arg(left_out.join(QStringLiteral("; "))));
    return;
  }
  const PendingRun run = pending_runs_.front();
  pending_runs_.pop_front();
  const size_t done = num_runs_ - pending_runs_.size() - 1;
  const auto of_this_series = [this](auto reply) {
    return WhileAlive(this, [this, series = series_, reply = std::move(reply)](const auto& answer) {
      if (series == series_) reply(answer);
    });
  };
  workbench_->RunMethod(run.head, run.method, run.values, kRepeatsOfAll,
                        of_this_series([this](const analysis::MethodResult& result) {
                          Q_EMIT Measured(result);
                          RunNextMethod();
                        }),
                        of_this_series([this, method = run.method](const Refusal& refusal) {
                          const QString why = QString::fromStdString(refusal.sentence);
                          if (refusal.unsupported) {
                            left_out_.append(WithoutEnd(why, QString::fromStdString(method)));
                          } else {
                            Q_EMIT Failed(why);
                          }
                          RunNextMethod();
                        }),
                        of_this_series([this, done](ProgressReport report) {
                          const auto all = static_cast<double>(num_runs_), finished = static_cast<double>(done);
                          report.stage += tr(" (%1 of %2)").arg(done + 1).arg(num_runs_).toStdString();
                          report.fraction = finished / all;
                          if (done > 0) {
                            const double seconds = static_cast<double>(since_runs_began_.elapsed()) / 1000;
                            report.rate = finished / seconds;
                            report.unit = ProgressUnit::kRuns;
                            report.remaining_s = (all - finished) * seconds / finished;
                          }
                          Q_EMIT Progressed(Work::kRunAll, report);
                        }));
}

void RunQueue::StopRuns() {
  pending_runs_.clear();
  ++series_;
  if (std::exchange(measuring_all_, false)) Q_EMIT Ended(Work::kRunAll);
}

void RunQueue::StopAll() {
  aim_timer_.stop();
  aim_error_.clear();
  StopSearch();
  CancelRuns();
}

void RunQueue::CancelRuns() {
  if (measuring_all_) workbench_->CancelRun();
  StopRuns();
}

void RunQueue::Cancel(Work work) {
  switch (work) {
    case Work::kRun:
      trial_->CancelRun();
      EndTrialRun();
      break;
    case Work::kRunAll:
      CancelRuns();
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
  SearchForTarget(/*aimed=*/false, [this](const Refusal& refusal) {
    StopSearch();
    Q_EMIT Failed(QString::fromStdString(refusal.sentence));
  });
}

void RunQueue::ShowFirstMethod(std::function<void()> shown) {
  const std::vector<kernels::MethodSpec>& methods = trial_->methods();
  const auto found = std::find_if(methods.begin(), methods.end(), [](const kernels::MethodSpec& spec) {
    return spec.phase == kernels::Phase::kPrefill && !spec.IsStatic() && HasBudget(spec);
  });
  if (found == methods.end() || !heads_->selected()) return;
  BeginSearch();
  Search(
      found->name, trial_->ValuesOf(*found), {},
      [this, name = found->name, before = Present(), shown = std::move(shown)](const kernels::ParameterValues& values) {
        StopSearch();
        if (Present() != before) return;  // somebody has chosen meanwhile
        if (trial_->SelectMethod(name, values)) shown();
      },
      [this](const Refusal&) { StopSearch(); });
}

void RunQueue::SearchForTarget(bool aimed, Reply<Refusal> failed) {
  BeginSearch();
  const kernels::MethodSpec* const method = trial_->method();
  Search(
      method->name, trial_->values(), {},
      [this, method, aimed](const kernels::ParameterValues& values) {
        StopSearch();
        if (trial_->method() != method || values == trial_->values()) return;
        if (aimed) Q_EMIT AimFollowed();
        trial_->SelectMethod(method->name, values);  // one step back undoes it
      },
      std::move(failed));
}

RunQueue::AimKind RunQueue::aim_kind() const {
  const kernels::MethodSpec* const method = trial_->method();
  if (method == nullptr) return AimKind::kNothing;
  const bool has_share = std::any_of(method->parameters.begin(), method->parameters.end(), [](const auto& parameter) {
    return parameter.role == kernels::ParameterRole::kMassShare;
  });
  return has_share ? AimKind::kShares : CanSearch() ? AimKind::kSearch : AimKind::kNothing;
}

void RunQueue::Aim(double target) {
  aim_error_.clear();
  aim_timer_.stop();
  if (aim_kind() == AimKind::kShares) return trial_->AimAt(target);
  if (target == trial_->target()) return;
  StopSearch();
  trial_->SetTarget(target);
  if (aim_kind() == AimKind::kSearch) {
    aimed_ = Present();
    aim_timer_.start();
  }
  Q_EMIT SearchingChanged();
}

RunQueue::Aimed RunQueue::Present() const {
  return {heads_->selected().value_or(analysis::HeadId{}), trial_->method(), trial_->target()};
}

QString RunQueue::aim_error() const {
  return aimed_ == Present() ? aim_error_ : QString();
}

void RunQueue::AimNow() {
  // A search beside a run would be measured with it.
  if (aim_kind() != AimKind::kSearch || aimed_ != Present() || measuring_all_ || trial_->running()) return;
  SearchForTarget(/*aimed=*/true, [this](const Refusal& refusal) {
    aim_error_ = QString::fromStdString(refusal.sentence);
    StopSearch();
  });
}

void RunQueue::RunAllAtTarget() {
  if (!heads_->selected()) return;
  CancelRuns();
  trial_->CancelRun();
  BeginSearch();
  left_out_.clear();
  // All searches come before the first run: what is measured has the machine to itself, and no longer depends on what
  // the window shows.
  for (const kernels::MethodSpec& method : trial_->methods()) {
    // What the two phases keep is about other rows.
    const bool is_decode = method.phase == kernels::Phase::kDecode;
    if (HasBudget(method) && is_decode == trial_->is_decode()) pending_searches_.push_back(method);
  }
  num_searches_ = pending_searches_.size();
  SearchNextMethod();
}

void RunQueue::SearchNextMethod() {
  if (pending_searches_.empty()) {
    pending_runs_.swap(found_runs_);
    StopSearch();
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
      [this, name = QString::fromStdString(method.name)](const Refusal& refusal) {
        const QString why = QString::fromStdString(refusal.sentence);
        if (refusal.unsupported) {
          left_out_.append(WithoutEnd(why, name));
        } else {
          Q_EMIT Failed(why);
        }
        SearchNextMethod();
      });
}

void RunQueue::Search(const std::string& method, const kernels::ParameterValues& values, const QString& place,
                      Reply<kernels::ParameterValues> done, Reply<Refusal> failed) {
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
  workbench_->CancelSearch();
  Q_EMIT SearchingChanged();
  Q_EMIT Ended(Work::kSearch);
}

}  // namespace headscope::ui
