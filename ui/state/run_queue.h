// SPDX-License-Identifier: Apache-2.0
// Measured runs and the searches before them: of the method under trial, of every method, and of every method at equal
// kept mass. One at a time, and none beside another: what is measured has the machine to itself.
#pragma once

#include <QElapsedTimer>
#include <QObject>
#include <QStringList>
#include <QTimer>
#include <deque>
#include <string>

#include "head_store.h"
#include "method_trial.h"

namespace headscope::ui {

// A prefill method with a parameter that a search can move.
bool HasBudget(const kernels::MethodSpec& method);

class RunQueue : public QObject {
  Q_OBJECT

 public:
  enum class Work { kRun, kRunAll, kSearch };
  Q_ENUM(Work)

  // All of them outlive the queue. Runs of `trial` are told of here, too.
  RunQueue(Workbench* workbench, MethodTrial* trial, const HeadStore* heads, QObject* parent = nullptr);

  // Every method but dense, which comes with each, with the trial's parameters of each. Methods that the head lacks
  // something for are left out.
  void RunAll();
  // Prefill methods, each with the cheapest parameters that keep the target's mass.
  void RunAllAtTarget();
  // The method under trial gets those parameters.
  void MeetTarget();
  // For a first look at a head: the first prefill method that chooses by what the head holds, at the target. Nobody has
  // asked for it, so nothing is said if it cannot reach that.
  // `shown` is called once it is there.
  void ShowFirstMethod(std::function<void()> shown);
  // The target is dragged, and the method's parameters follow it: those that are shares of mass at once
  // (MethodTrial::AimAt), and where there are none the cheapest ones at the target, which are searched for when it has
  // rested for kAimRestMs. A search for a target before is given up. What goes wrong is aim_error(), and no failure:
  // the next drag may mend it.
  void Aim(double target);
  static constexpr int kAimRestMs = 60;
  enum class AimKind { kShares, kSearch, kNothing };  // what of the method follows
  AimKind aim_kind() const;
  // Why nothing followed; empty when something did, or when target, method or head are others by now.
  QString aim_error() const;
  void StopSearch();
  void Cancel(Work work);
  void StopAll();  // another trace is opened

  bool CanSearch() const;  // a head is open, and the method has a budget
  bool searching() const { return searching_; }
  bool measuring_all() const { return measuring_all_; }

 Q_SIGNALS:
  void Began(headscope::ui::RunQueue::Work work);
  void Progressed(headscope::ui::RunQueue::Work work, const headscope::ui::ProgressReport& report);
  void Ended(headscope::ui::RunQueue::Work work);
  void Measured(const headscope::analysis::MethodResult& run);
  void Failed(const QString& sentence);
  void LeftOut(const QString& sentence);  // at the end: which methods, and why
  void SearchingChanged();
  void AimFollowed();  // before the method's parameters follow the target that Aim set

 private:
  struct PendingRun {
    analysis::HeadId head;
    std::string method;
    kernels::ParameterValues values;
  };
  void BeginTrialRun();
  void EndTrialRun();
  void BeginRuns();  // of pending_runs_
  void RunNextMethod();
  void StopRuns();    // of what was left to do
  void CancelRuns();  // the one under way as well
  void AimNow();
  void BeginSearch();
  // Of the method under trial; `aimed`: what it finds belongs to the change of the target.
  void SearchForTarget(bool aimed, Reply<Refusal> failed);
  void SearchNextMethod();
  // `place` is added to what its progress says.
  void Search(const std::string& method, const kernels::ParameterValues& values, const QString& place,
              Reply<kernels::ParameterValues> done, Reply<Refusal> failed);

  Workbench* const workbench_;
  MethodTrial* const trial_;
  const HeadStore* const heads_;
  std::deque<PendingRun> pending_runs_;
  std::deque<kernels::MethodSpec> pending_searches_;
  std::deque<PendingRun> found_runs_;  // of the searches so far
  QStringList left_out_;               // methods of this series, with the reason
  int64_t series_ = 0;                 // raised when one begins or stops: an answer of another one is dropped
  bool trial_runs_ = false, measuring_all_ = false, searching_ = false;
  int64_t search_number_ = 0;  // raised whenever a search is stopped
  size_t num_runs_ = 0, num_searches_ = 0;
  QElapsedTimer since_runs_began_;
  QTimer aim_timer_;
  struct Aimed {
    analysis::HeadId head;
    const kernels::MethodSpec* method = nullptr;
    double target = 0;
    friend bool operator==(const Aimed&, const Aimed&) = default;
  };
  Aimed Present() const;
  Aimed aimed_;
  QString aim_error_;
};

}  // namespace headscope::ui
