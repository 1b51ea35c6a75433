// SPDX-License-Identifier: Apache-2.0
// Work over every head of the trace: one method measured with its present parameters, or one or several tuned to a
// target. In the trace's order; it can be stopped, and goes on where it stopped.
#pragma once

#include <QElapsedTimer>
#include <QObject>
#include <QString>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "head_store.h"
#include "kept_tuning.h"
#include "method_trial.h"

namespace headscope::ui {

class HeadSweep : public QObject {
  Q_OBJECT

 public:
  enum class Kind { kMeasure, kTune };

  // All of them outlive the sweep.
  HeadSweep(Workbench* workbench, const MethodTrial* trial, HeadStore* heads, QObject* parent = nullptr);

  // Begins anew with the trial's method, parameters and target, over the heads that the filter lets pass. A sweep under
  // way ends. Does nothing without a trace, or when a method without budgets is to be tuned.
  void Start(Kind kind);
  // Measures each head's own method, in place of the trial's; the others are left out.
  void Measure(const std::vector<HeadSetting>& settings, const QString& title);
  // The same with methods and a target of their own.
  void Tune(const TuneSettings& settings);
  // What Start(kTune) would tune: each head by itself. No methods without a trial's.
  TuneSettings TrialsTuning() const;
  // The settings as Tune begins with them: decode methods on the trace's steps and, where heads are measured in their
  // group and the target is judged there, in it.
  TuneSettings OnTrace(TuneSettings settings) const;
  void Stop();    // what is done stays
  void Resume();  // goes on with the heads that are not done
  void Clear();   // another trace
  // A tuning of the open trace as it was when it stopped, in the place of what is here; Resume goes on with it.
  void Restore(const KeptTuning& tuning);

  bool CanTune() const;
  bool running() const { return running_; }
  bool CanResume() const { return !running_ && done_.size() < chosen_.size(); }
  Kind kind() const { return kind_; }
  const std::vector<analysis::HeadId>& chosen() const { return chosen_; }
  size_t num_chosen() const { return chosen_.size(); }
  size_t num_done() const { return done_.size(); }
  const TuneSettings& tuning() const { return tuning_; }  // that it began with
  // What a tuning has found so far, in the trace's order, of a head by rising lengths.
  std::vector<TunedSetting> Tuned() const;
  // The same for the open trace's heads, as a configuration.
  std::vector<HeadSetting> TunedHeads() const;
  // Sentences of heads that failed; the sweep went on.
  QStringList failures() const;
  const std::vector<FailedHead>& failed() const { return failed_; }
  // How many heads have what a tuning has found for them in no file since; 0 where none was tuned.
  size_t NumUnsaved() const { return has_unsaved_ ? tuned_.size() : 0; }
  void MarkSaved();
  // "SampleAttention tuned at 0.95 on 80 heads: 78 reach it, keeping 31.2 % on average."
  QString Summary() const;

 Q_SIGNALS:
  void Began();
  void Progressed(const headscope::ui::ProgressReport& report);
  void Ended();  // finished, or stopped
  void Measured(const headscope::analysis::MethodResult& run);
  void Finished();  // every chosen head is done
  // Of a tuning.
  void Found(const headscope::ui::TunedSetting& setting);
  void Saved();
  void Restored();
  void Clearing();  // all that is here is about to go

 private:
  template <typename T>
  HeadsReplies<T> Replies(std::function<void(const T&)> one);
  void Done(analysis::HeadId head, const HeadResult& result);
  void Take(const TunedSetting& setting);
  void Failed(analysis::HeadId head, const std::string& sentence);
  void Name();  // what is tuned
  void Begin(Kind kind);
  // Of the heads that share a setting, all are to be done where one is.
  std::vector<analysis::HeadId> Missing() const;
  std::string SettingText(const TunedSetting& setting) const;
  QString OnHeldOut() const;  // the part of the summary
  void Finish();
  void Report(ProgressReport report);  // of the heads that were not done when it started or went on

  Workbench* const workbench_;
  const MethodTrial* const trial_;
  HeadStore* const heads_;
  Kind kind_ = Kind::kMeasure;
  std::string method_, title_;                            // of what is measured, or tuned if it is one
  kernels::ParameterValues values_;                       // of what is measured
  std::map<analysis::HeadId, TuneSettings::Method> own_;  // the same, where each head has its own
  TuneSettings tuning_;
  bool running_ = false, has_unsaved_ = false;
  int64_t number_ = 0;  // raised whenever it starts or stops: an answer of another one is dropped
  std::vector<analysis::HeadId> chosen_;
  std::map<analysis::HeadId, HeadResult> done_;
  std::map<analysis::HeadId, TunedSetting> tuned_;  // for prompts as long as the open trace's
  std::map<analysis::HeadId, std::vector<TunedSetting>> other_lengths_;
  std::vector<FailedHead> failed_;
  size_t done_before_ = 0;  // when it started or went on
  QElapsedTimer since_began_;
};

}  // namespace headscope::ui
