// SPDX-License-Identifier: Apache-2.0
#include "head_sweep.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>
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
  if (!heads_->HasTrace() || spec == nullptr) return;
  if (kind == Kind::kTune) {
    if (CanTune()) Tune(TrialsTuning());
    return;
  }
  Clear();
  method_ = spec->name;
  title_ = spec->title;
  values_ = trial_->values();
  Begin(kind);
}

void HeadSweep::Measure(const std::vector<HeadSetting>& settings, const QString& title) {
  if (!heads_->HasTrace() || settings.empty()) return;
  Clear();
  for (const HeadSetting& setting : settings) own_[setting.head] = setting.method;
  method_ = title_ = title.toStdString();
  Begin(Kind::kMeasure);
}

TuneSettings HeadSweep::TrialsTuning() const {
  TuneSettings settings;
  if (trial_->method() != nullptr) settings.methods.push_back({trial_->method()->name, trial_->values()});
  const std::vector<TuneTargetChoice> targets = workbench_->tune_targets();
  if (const auto windows = std::ranges::find(targets, true, &TuneTargetChoice::is_windows); windows != targets.end())
    settings.target = {windows->name, trial_->target()};
  return settings;
}

TuneSettings HeadSweep::OnTrace(TuneSettings settings) const {
  if (settings.methods.empty()) return settings;
  const auto& methods = trial_->methods();
  const auto spec = std::ranges::find(methods, settings.methods.front().name, &kernels::MethodSpec::name);
  if (spec == methods.end() || spec->phase != kernels::Phase::kDecode) return settings;
  settings.decode_rows = heads_->trace().decode_rows;
  const std::vector<TuneTargetChoice> targets = workbench_->tune_targets();
  const auto target = std::ranges::find(targets, settings.target.name, &TuneTargetChoice::name);
  settings.in_group = !workbench_->measures_alone() && settings.unit == TuneSettings::Unit::kHead &&
                      target != targets.end() && target->in_group;
  return settings;
}

void HeadSweep::Tune(const TuneSettings& settings) {
  if (!heads_->HasTrace() || settings.methods.empty()) return;
  Clear();
  tuning_ = OnTrace(settings);
  Name();
  Begin(Kind::kTune);
}

void HeadSweep::Name() {
  const size_t count = tuning_.methods.size();
  method_ = count > 1 ? tr("%1 methods").arg(count).toStdString() : tuning_.methods.front().name;
  title_ = TuningTitle(tuning_, trial_->methods()).toStdString();
}

void HeadSweep::Restore(const KeptTuning& tuning) {
  Clear();
  kind_ = Kind::kTune;
  tuning_ = tuning.settings;
  Name();
  chosen_ = tuning.chosen;
  heads_->ClearResults();
  // Heads that failed are tried again: a disk may be there by now, or a GPU's memory free.
  for (const TunedSetting& setting : tuning.found) Take(setting);
  Q_EMIT Restored();
}

void HeadSweep::Begin(Kind kind) {
  kind_ = kind;
  for (const analysis::HeadId& head : heads_->trace().heads) {
    if (heads_->Passes(head) && (own_.empty() || own_.contains(head))) chosen_.push_back(head);
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
  const std::vector<analysis::HeadId> missing = Missing();
  ProgressReport at_first;
  at_first.fraction = 0;
  Report(std::move(at_first));
  if (kind_ == Kind::kTune) {
    workbench_->TuneHeads(missing, tuning_,
                          Replies<TunedSetting>([this](const TunedSetting& setting) { Take(setting); }));
  } else {
    const auto measured = [this](const analysis::MethodResult& run) {
      Q_EMIT Measured(run);
      Done(run.head, {.kept_fraction = run.kept_fraction,
                      .cra_p5 = run.cra_p5,
                      .speedup = run.speedup,
                      .relative_error = run.relative_error});
    };
    if (own_.empty()) {
      workbench_->MeasureHeads(missing, method_, values_, kRepeats, Replies<analysis::MethodResult>(measured));
    } else {
      std::vector<HeadSetting> settings;
      settings.reserve(missing.size());
      for (const analysis::HeadId& head : missing) settings.push_back({head, own_.at(head)});
      workbench_->MeasureSettings(settings, kRepeats, Replies<analysis::MethodResult>(measured));
    }
  }
}

std::vector<analysis::HeadId> HeadSweep::Missing() const {
  // The heads that share a setting, by one of them.
  const auto unit = [this](analysis::HeadId head) {
    if (kind_ != Kind::kTune || tuning_.unit == TuneSettings::Unit::kHead) return head;
    return tuning_.unit == TuneSettings::Unit::kLayer ? analysis::HeadId{head.layer, 0} : analysis::HeadId{0, 0};
  };
  std::set<analysis::HeadId> open;
  for (const analysis::HeadId& head : chosen_) {
    if (!done_.contains(head)) open.insert(unit(head));
  }
  std::vector<analysis::HeadId> missing;
  std::copy_if(chosen_.begin(), chosen_.end(), std::back_inserter(missing),
               [&](analysis::HeadId head) { return open.contains(unit(head)); });
  return missing;
}

std::string HeadSweep::SettingText(const TunedSetting& setting) const {
  const std::string& name = tuning_.methods[setting.method].name;
  std::string text = name;
  const auto& methods = trial_->methods();
  const auto spec = std::find_if(methods.begin(), methods.end(), [&](const auto& one) { return one.name == name; });
  if (spec == methods.end()) return text;
  for (const kernels::ParameterSpec& parameter : spec->parameters) {
    if (parameter.role == kernels::ParameterRole::kOther) continue;
    text += (text.size() == name.size() ? ":" : ",") + parameter.name + "=" +
            kernels::ValueText(parameter, setting.values.Real(parameter.name));
  }
  return text;
}

template <typename T>
HeadsReplies<T> HeadSweep::Replies(std::function<void(const T&)> one) {
  // An answer may be on its way when the sweep stops.
  const auto while_running = [this](auto reply) {
    return WhileAlive(this, [this, number = number_, reply = std::move(reply)](const auto&... answer) {
      if (running_ && number == number_) reply(answer...);
    });
  };
  return {while_running(std::move(one)),
          while_running([this](const FailedHead& failed) { Failed(failed.head, failed.sentence); }),
          while_running([this] { Finish(); }), while_running([this](const ProgressReport& report) { Report(report); })};
}

void HeadSweep::Finish() {
  running_ = false;
  ++number_;
  Q_EMIT Ended();
  Q_EMIT Finished();
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
  Q_EMIT Clearing();
  chosen_.clear();
  done_.clear();
  tuned_.clear();
  has_unsaved_ = false;
  other_lengths_.clear();
  own_.clear();
  failed_.clear();
}

void HeadSweep::Take(const TunedSetting& setting) {
  has_unsaved_ = true;
  if (!setting.is_open_traces) {
    std::vector<TunedSetting>& others = other_lengths_[setting.head];
    std::erase_if(others, [&](const TunedSetting& one) { return one.lengths == setting.lengths; });
    others.push_back(setting);
  } else {
    tuned_[setting.head] = setting;
    std::erase_if(failed_, [&](const FailedHead& one) { return one.head == setting.head; });
    Done(setting.head, {.kept_fraction = setting.kept_fraction,
                        .cra_p5 = setting.mass.fifth_percentile,
                        .relative_error = setting.relative_error,
                        .method = static_cast<double>(setting.method + 1),
                        .checked_cra_p5 = setting.checked ? setting.checked->mass.fifth_percentile
                                                          : std::numeric_limits<double>::quiet_NaN(),
                        .setting = SettingText(setting)});
  }
  Q_EMIT Found(setting);
}

void HeadSweep::MarkSaved() {
  has_unsaved_ = false;
  Q_EMIT Saved();
}

QStringList HeadSweep::failures() const {
  QStringList sentences;
  for (const auto& [head, sentence] : failed_)
    sentences.append(QStringLiteral("%1:%2: %3").arg(head.layer).arg(head.head).arg(QString::fromStdString(sentence)));
  return sentences;
}

void HeadSweep::Done(analysis::HeadId head, const HeadResult& result) {
  done_[head] = result;
  heads_->SetResult(head, result);
}

void HeadSweep::Failed(analysis::HeadId head, const std::string& sentence) {
  if (!done_.emplace(head, HeadResult()).second) return;
  failed_.push_back({head, sentence});
}

void HeadSweep::Report(ProgressReport report) {
  const auto all = static_cast<double>(chosen_.size()), before = static_cast<double>(done_before_);
  const double now = std::clamp(report.fraction, 0.0, 1.0) * (all - before);  // heads of this stretch
  report.stage = (kind_ == Kind::kTune ? "Tuning " : "Measuring ") + method_ +
                 tr(" (%1 of %2 heads done)").arg(done_.size()).arg(chosen_.size()).toStdString();
  report.fraction = (before + now) / all;
  const double seconds = static_cast<double>(since_began_.elapsed()) / 1000;
  if (now > 0 && seconds > 0) {
    report.rate = now / seconds;
    report.unit = ProgressUnit::kHeads;
    report.remaining_s = (all - before - now) / report.rate;
  }
  Q_EMIT Progressed(report);
}

std::vector<TunedSetting> HeadSweep::Tuned() const {
  std::vector<TunedSetting> tuned;
  for (const auto& [head, setting] : tuned_) {
    const size_t first = tuned.size();
    if (const auto others = other_lengths_.find(head); others != other_lengths_.end())
      tuned.insert(tuned.end(), others->second.begin(), others->second.end());
    tuned.push_back(setting);
    std::sort(
        tuned.begin() + static_cast<std::ptrdiff_t>(first), tuned.end(),
        [](const TunedSetting& a, const TunedSetting& b) { return a.lengths.from_tokens < b.lengths.from_tokens; });
  }
  return tuned;
}

std::vector<HeadSetting> HeadSweep::TunedHeads() const {
  std::vector<HeadSetting> settings;
  for (const auto& [head, setting] : tuned_)
    settings.push_back({head, {tuning_.methods[setting.method].name, setting.values}});
  return settings;
}

QString HeadSweep::OnHeldOut() const {
  qsizetype held = 0, tried = 0;
  double kept = 0, mass = 0, mass_there = 0, error = 0, error_there = 0;
  for (const auto& [head, tuned] : tuned_) {
    if (!tuned.checked) continue;
    ++tried;
    held += tuned.checked->reached ? 1 : 0;
    kept += tuned.checked->kept_fraction;
    mass += tuned.mass.mean;
    mass_there += tuned.checked->mass.mean;
    error += tuned.relative_error;
    error_there += tuned.checked->relative_error;
  }
  const auto count = static_cast<double>(std::max<qsizetype>(1, tried));
  if (tuning_.check_rows.empty())
    return tr("On the held-out traces %1 of them reach it, keeping %2 %.").arg(held).arg(100 * kept / count, 0, 'f', 1);
  // Kept pairs, work and time are of all rows: held-out ones have nothing of their own to say of them.
  const std::vector<TuneTargetChoice> targets = workbench_->tune_targets();
  const auto aimed_at = std::ranges::find(targets, tuning_.target.name, &TuneTargetChoice::name);
  if (aimed_at == targets.end() || aimed_at->is_of_rows)
    return tr("On the held-out rows %1 of them reach it.").arg(held);
  const bool by_error = tuning_.choose != TuneSettings::Choice::kMass && !std::isnan(error + error_there);
  return (by_error ? tr("The mean error of the output is %1 on the held-out rows and %2 on the others.")
                   : tr("The mean kept mass is %1 on the held-out rows and %2 on the others."))
      .arg((by_error ? error_there : mass_there) / count, 0, 'f', 4)
      .arg((by_error ? error : mass) / count, 0, 'f', 4);
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
                           .arg(QString::fromStdString(tuning_.target.Text()))
                           .arg(heads)
                           .arg(reached)
                           .arg(average)
                     : tr("%1 measured on %2: it keeps %3 of the pairs on average.").arg(title, heads, average);
  if (kind_ == Kind::kTune && tuning_.methods.size() > 1) {
    QStringList counts;
    for (size_t i = 0; i < tuning_.methods.size(); ++i) {
      const auto count =
          std::count_if(tuned_.begin(), tuned_.end(), [i](const auto& one) { return one.second.method == i; });
      counts.append(tr("%1 for %2").arg(QString::fromStdString(tuning_.methods[i].name)).arg(count));
    }
    text += u' ' + counts.join(QStringLiteral(", ")) + u'.';
  }
  const auto passed_over =
      std::ranges::find_if(tuned_, [](const auto& one) { return !one.second.passed_over.empty(); });
  if (kind_ == Kind::kTune && passed_over != tuned_.end()) {
    const auto count = std::ranges::count_if(tuned_, [](const auto& one) { return !one.second.passed_over.empty(); });
    text += tr(" %1 had to do without one of the methods: %2.")
                .arg(count == 1 ? tr("1 head") : tr("%1 heads").arg(count),
                     QString::fromStdString(passed_over->second.passed_over.front()));
  }
  const auto noted = std::ranges::find_if(tuned_, [](const auto& one) { return !one.second.note.empty(); });
  if (kind_ == Kind::kTune && noted != tuned_.end()) text += u' ' + QString::fromStdString(noted->second.note) + u'.';
  if (kind_ == Kind::kTune && (!tuning_.checks.empty() || !tuning_.check_rows.empty())) {
    text += u' ' + OnHeldOut();
  }
  if (kind_ == Kind::kTune && !tuning_.ranges.empty() && !tuned_.empty()) {
    const auto others = other_lengths_.find(tuned_.begin()->first);
    const qsizetype ranges = 1 + (others == other_lengths_.end() ? 0 : std::ssize(others->second));
    text += ranges == 1
                ? tr(" All traces fall into one range of lengths.")
                : tr(" These are for the open trace's range of lengths, one of %1 that were tuned.").arg(ranges);
  }
  if (!failed_.empty()) text += tr(" %1 failed: %2").arg(failed_.size()).arg(failures().first());
  return text;
}

}  // namespace headscope::ui
