// SPDX-License-Identifier: Apache-2.0
#include "tuned_heads.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "analysis/compare.h"
#include "analysis/outside_mass.h"
#include "analysis/sweep.h"
#include "analysis/types/number_text.h"
#include "analysis/types/printable.h"
#include "base/check_status.h"
#include "base/errors.h"
#include "choices/head_selection.h"
#include "choices/target_names.h"
#include "choices/tuning.h"
#include "choices/tuning_files.h"
#include "choices/tuning_traces.h"
#include "kernels/cuda_executor.h"
#include "support/output_file.h"

namespace headscope::app {

analysis::BudgetTarget WindowTarget(double share) {
  return {share, analysis::MassStatistic::kFifthPercentile};
}

kernels::NamedMethod SearchedMethod(const std::string& name) {
  const kernels::NamedMethod method = kernels::FindMethod(name);
  if (method.spec() == nullptr) throw UsageError("There is no method " + name + ": choose one from the panel's list.");
  return method;
}

kernels::Status SearchDecode(const OpenedTrace& trace, analysis::HeadId head,
                             const analysis::MeasuredHeadsPtr& measured, const kernels::DecodeMethod& method,
                             const kernels::ParameterValues& values, double target,
                             const analysis::DecodeSearchOptions& options, analysis::BudgetSearchResult* found) {
  const analysis::MeasuredHeadsPtr all =
      analysis::WithLayersBelow(trace.reader, measured, {{kernels::UniqueName(method.spec()), values}});
  analysis::DecodeSearchOptions of_head = options;
  of_head.head = head;
  analysis::DecodeBudgetSearcher searcher({{all}}, of_head);
  std::vector<analysis::BudgetSearchResult> results;
  kernels::Status status = searcher.Search(method, values, WindowTarget(target), &results);
  if (status.ok()) *found = results.front();
  return status;
}

const kernels::ParameterValues& ReachedValues(const kernels::MethodSpec& spec, double target,
                                              const analysis::BudgetSearchResult& found) {
  if (!found.reached) throw FailedError(analysis::UnreachedSentence(spec, WindowTarget(target), found));
  return found.values;
}

std::vector<ui::TuneTargetChoice> TuneTargets() {
  std::vector<ui::TuneTargetChoice> choices;
  for (const TargetName& target : kTargetNames) {
    if (*target.title == '\0') continue;
    using Kind = analysis::BudgetTarget::Kind;
    const bool is_share = target.kind == Kind::kMass || target.kind == Kind::kKept;
    choices.push_back({target.option, target.title, target.usual, is_share,
                       target.kind == Kind::kMass && target.statistic == WindowTarget(0).statistic});
  }
  return choices;
}

std::vector<ui::TuningFile> TuningFiles() {
  std::vector<ui::TuningFile> files;
  for (const TuningFormatInfo& format : TuningFormats())
    files.push_back({format.name, format.title, std::string(ExtensionOf(format.file))});
  return files;
}

bool IsTimed(const ui::TuneSettings& settings) {
  return ParseTarget(settings.target).budget.kind == analysis::BudgetTarget::Kind::kTime;
}

namespace {

TunedUnit UnitOf(ui::TuneSettings::Unit unit) {
  switch (unit) {
    case ui::TuneSettings::Unit::kHead:
      return TunedUnit::kHead;
    case ui::TuneSettings::Unit::kLayer:
      return TunedUnit::kLayer;
    case ui::TuneSettings::Unit::kModel:
      return TunedUnit::kModel;
  }
  return TunedUnit::kHead;
}

MethodChoice ChoiceOf(const ui::TuneSettings::Method& method) {
  const kernels::NamedMethod found = SearchedMethod(method.name);
  return {found.spec(), found.prefill, found.decode, method.values, method.name};
}

// What all units of a tuning share.
struct Search {
  std::vector<MethodChoice> methods;
  analysis::BudgetTarget target;
  TunedCriterion criterion = TunedCriterion::kMass;
  bool in_group = false;    // decode methods, in the group of the unit's one head
  bool shares_out = false;  // with the trade-off that LU-KV's file is made of

  bool is_decode() const { return methods.front().decode != nullptr; }
  bool by_time() const { return target.kind == analysis::BudgetTarget::Kind::kTime; }
};

Search SearchOf(const ui::TuneSettings& settings, bool alone) {
  Search search;
  for (const ui::TuneSettings::Method& method : settings.methods) search.methods.push_back(ChoiceOf(method));
  if (search.methods.empty()) throw UsageError("There is nothing to tune: choose a method.");
  for (const MethodChoice& method : search.methods) {
    if ((method.decode != nullptr) == search.is_decode()) continue;
    throw UsageError("Prefill and decode methods run on different rows: tune " + method.name + " by itself.");
  }
  const TuneTarget target = ParseTarget(settings.target);
  if (target.limit) throw UsageError("A target of " + settings.target + " is only for the command line: give a share.");
  search.target = target.budget;
  search.criterion = UsualCriterion(target.budget, settings.methods.size());
  search.in_group = search.is_decode() && !alone && settings.unit == ui::TuneSettings::Unit::kHead &&
                    target.budget.kind == analysis::BudgetTarget::Kind::kMass;
  std::vector<const kernels::MethodSpec*> specs;
  for (const MethodChoice& method : search.methods) specs.push_back(method.spec);
  search.shares_out = SharesOutBudgets(specs, UnitOf(settings.unit));
  return search;
}

// Traces that a setting is looked for, or tried, on together.
using TunedTraces = std::vector<OpenedTrace*>;

// The searches over one unit's heads.
class UnitSearcher {
 public:
  // recordings: [head][trace].
  UnitSearcher(const TunedTraces& traces, const Search& search,
               const std::vector<std::vector<analysis::HeadTensorsPtr>>& recordings,
               const analysis::BudgetSearchOptions& options) {
    if (!search.is_decode()) {
      prefill_.emplace(recordings, options);
      return;
    }
    std::vector<analysis::AskedMethod> asked;
    for (const MethodChoice& method : search.methods)
      asked.push_back({kernels::UniqueName(*method.spec), method.values});
    std::vector<std::vector<analysis::MeasuredHeadsPtr>> heads;
    for (const std::vector<analysis::HeadTensorsPtr>& head : recordings) {
      heads.emplace_back();
      for (size_t i = 0; i < traces.size(); ++i) {
        const analysis::MeasuredHeadsPtr measured =
            search.in_group ? traces[i]->GroupOf(head[i]->id) : analysis::AloneHead(head[i]);
        heads.back().push_back(analysis::WithLayersBelow(traces[i]->reader, measured, asked));
      }
    }
    analysis::DecodeSearchOptions of_steps{.search = options, .decode_rows = traces.front()->DecodeRows()};
    for (const OpenedTrace* trace : traces) of_steps.decode_rows = std::min(of_steps.decode_rows, trace->DecodeRows());
    if (search.in_group) of_steps.head = recordings.front().front()->id;
    decode_.emplace(std::move(heads), of_steps);
  }

  kernels::Status Run(const MethodChoice& method, const analysis::BudgetTarget& target,
                      std::vector<analysis::BudgetSearchResult>* results) {
    return decode_ ? decode_->Search(*method.decode, method.values, target, results)
                   : prefill_->Search(*method.prefill, method.values, target, results);
  }
  // With these values, whatever they keep.
  kernels::Status Try(const MethodChoice& method, const kernels::ParameterValues& values,
                      const analysis::BudgetTarget& target, std::vector<analysis::BudgetSearchResult>* results) {
    return decode_ ? decode_->Measure(*method.decode, values, target, results)
                   : prefill_->Measure(*method.prefill, values, target, results);
  }

  kernels::Status TradeOff(const MethodChoice& method, int32_t most_points,
                           std::vector<analysis::TradeOffPoint>* points) {
    return decode_ ? decode_->TradeOff(*method.decode, method.values, most_points, points)
                   : prefill_->TradeOff(*method.prefill, method.values, most_points, points);
  }

 private:
  std::optional<analysis::BudgetSearcher> prefill_;
  std::optional<analysis::DecodeBudgetSearcher> decode_;
};

// The settings of a unit's heads on the traces that they were not chosen by.
kernels::Status CheckUnit(const TunedTraces& checks, const Search& search, const analysis::BudgetSearchOptions& options,
                          const Device& device, std::vector<ui::TunedSetting>* tuned) {
  if (checks.empty()) return {};
  analysis::BudgetSearchOptions quiet = options;
  quiet.progress = {};
  for (ui::TunedSetting& setting : *tuned) {
    std::vector<std::vector<analysis::HeadTensorsPtr>> recordings(1);
    for (OpenedTrace* trace : checks) recordings.front().push_back(trace->heads.GetUncached(setting.head, device));
    UnitSearcher searcher(checks, search, recordings, quiet);
    std::vector<analysis::BudgetSearchResult> found;
    const kernels::Status status = searcher.Try(search.methods[setting.method], setting.values, search.target, &found);
    if (!status.ok()) return status;
    const analysis::BudgetSearchResult& result = found.front();
    setting.checked = {result.reached, result.kept_fraction, result.mass, result.relative_error, result.time_share};
  }
  return {};
}

// Opened for a tuning, apart from the window's own.
class CheckedTraces {
 public:
  CheckedTraces(const OpenedTrace& tuned, const std::vector<std::string>& paths,
                const std::vector<analysis::HeadId>& heads) {
    for (const std::string& path : paths) {
      opened_.push_back(std::make_unique<OpenedTrace>(path, memory_));
      traces_.push_back(opened_.back().get());
      std::error_code missing;
      if (std::filesystem::equivalent(path, tuned.reader.path(), missing))
        throw UsageError(path + " is the trace that is tuned, and would agree with itself: choose another one.");
      CheckTunedTogether(traces_.back()->reader, tuned.reader);
      const auto& recorded = traces_.back()->summary.heads;
      for (const analysis::HeadId& head : heads) {
        if (std::find(recorded.begin(), recorded.end(), head) != recorded.end()) continue;
        throw UsageError(path + ": head " + HeadText(head) +
                         " was not recorded there: choose a trace that has it, or filter it out.");
      }
    }
  }
  const TunedTraces& traces() const { return traces_; }

 private:
  const std::shared_ptr<ui::MemoryBudget> memory_ = std::make_shared<ui::MemoryBudget>();
  std::vector<std::unique_ptr<OpenedTrace>> opened_;
  TunedTraces traces_;
};

kernels::Status TuneUnit(OpenedTrace& trace, const TunedTraces& checks, const std::vector<analysis::HeadId>& unit,
                         const Search& search, const analysis::SweepCell& cell, const std::stop_token& stop,
                         std::vector<ui::TunedSetting>* tuned) {
  // Heads that share a setting are in memory together.
  const int64_t bytes = analysis::LargestHeadBytes(trace.reader, unit) * static_cast<int64_t>(unit.size());
  if (unit.size() > 1 && bytes > analysis::MostMeasuredBytes()) {
    return {kernels::StatusCode::kOutOfMemory, std::to_string(unit.size()) + " heads that share a setting take " +
                                                   std::to_string(bytes >> 20) +
                                                   " MiB together: tune each head by itself, or fewer heads"};
  }
  // Past the cache: a pass over all heads would push out what the window shows.
  const Device& device = search.is_decode() || search.by_time() ? kCpu : kWindowsGpu;
  std::vector<std::vector<analysis::HeadTensorsPtr>> recordings;
  for (const analysis::HeadId& head : unit) recordings.push_back({trace.heads.GetUncached(head, device)});
  const size_t num_steps = search.methods.size() + (search.shares_out ? 1 : 0);
  size_t step = 0;
  analysis::BudgetSearchOptions options;
  options.num_threads = cell.num_threads;
  options.stop = stop;
  options.progress = [&](double share) {
    cell.report((static_cast<double>(step) + share) / static_cast<double>(num_steps));
  };
  options.measure_error = search.criterion == TunedCriterion::kError;
  options.measure_point_times = search.by_time();
  options.measure_point_errors =
      search.by_time() || options.measure_error || search.target.kind == analysis::BudgetTarget::Kind::kError;
  UnitSearcher searcher({&trace}, search, recordings, options);
  std::vector<analysis::BudgetSearchResult> best;
  size_t best_method = 0;
  kernels::Status refused;
  for (size_t i = 0; i < search.methods.size(); ++i, ++step) {
    std::vector<analysis::BudgetSearchResult> found;
    kernels::Status status = searcher.Run(search.methods[i], search.target, &found);
    if (status.code() == kernels::StatusCode::kUnsupported) {
      refused = {status.code(), search.methods[i].name + ": " + status.message()};
      continue;
    }
    if (!status.ok()) return status;
    if (!best.empty() && !IsBetter(search.target, search.criterion, found, best)) continue;
    best = std::move(found);
    best_method = i;
  }
  if (best.empty()) return refused;
  std::vector<analysis::TradeOffPoint> trade_off;
  if (search.shares_out) {
    kernels::Status status = searcher.TradeOff(search.methods[best_method], kLuKvPoints, &trade_off);
    if (!status.ok()) return status;
  }
  for (size_t i = 0; i < unit.size(); ++i) {
    const analysis::HeadTensors& recording = *recordings[i].front();
    const analysis::BudgetSearchResult& found = best[i];
    ui::TunedSetting& setting = tuned->emplace_back();
    setting.head = unit[i];
    setting.method = best_method;
    setting.values = found.values;
    setting.reached = found.reached;
    setting.kept_fraction = found.kept_fraction;
    setting.mass = found.mass;
    setting.relative_error = found.relative_error;
    setting.time_share = found.time_share;
    setting.device = recording.WhereComputed().name;
    for (const analysis::TradeOffPoint& point : trade_off) setting.trade_off.push_back({point.values, point.cra_mean});
    if (const auto inside = trace.MassInTrace(recording, stop))
      setting.outside_mass = analysis::MeanOutsideMass(recording, *inside, 0, recording.num_rows);
  }
  return CheckUnit(checks, search, options, device, tuned);
}

}  // namespace

void TuneHeads(OpenedTrace& trace, const std::vector<analysis::HeadId>& heads, const ui::TuneSettings& settings,
               bool alone, const HeadsCalls<ui::TunedSetting>& calls, const std::stop_token& stop) {
  const Search search = SearchOf(settings, alone);
  const CheckedTraces checks(trace, settings.checks, heads);
  std::vector<std::vector<analysis::HeadId>> units;
  for (const std::vector<size_t>& places : UnitsOf(heads, UnitOf(settings.unit))) {
    units.emplace_back();
    for (const size_t place : places) units.back().push_back(heads[place]);
  }
  analysis::SweepOptions options;
  kernels::CudaDeviceInfo gpu;
  const Device device = kernels::QueryCudaDevice(kWindowsGpu.ordinal, &gpu).ok() ? kWindowsGpu : kCpu;
  // Heads beside each other would time each other.
  options.most_at_once = search.by_time() || settings.unit != ui::TuneSettings::Unit::kHead
                             ? 1
                             : analysis::HeadsAtOnce(device, analysis::LargestHeadBytes(trace.reader, heads));
  options.stop = stop;
  options.progress = [&](const analysis::SweepProgress& progress) { calls.progress(progress.share); };
  options.failed = [&](const analysis::SweepCell& cell, const kernels::Status& why) {
    for (const analysis::HeadId& head : units[cell.head]) calls.failed({head, analysis::Printable(why.message())});
  };
  std::mutex mutex;
  const kernels::Status status =
      analysis::SweepCells({.num_heads = units.size()}, options, [&](const analysis::SweepCell& cell) {
        std::vector<ui::TunedSetting> tuned;
        kernels::Status found = TuneUnit(trace, checks.traces(), units[cell.head], search, cell, stop, &tuned);
        const std::lock_guard lock(mutex);
        if (found.ok()) std::ranges::for_each(tuned, calls.one);
        return found;
      });
  if (status.code() != kernels::StatusCode::kCancelled) CheckStatus(status);
}

void ExportTuning(const data::TraceReader& trace, const ui::TuneSettings& settings,
                  const std::vector<ui::TunedSetting>& heads, size_t num_heads_chosen, const std::string& path,
                  const std::string& file) {
  const TuningFormat format = ChooseTuningFormat(file, path);
  Tuning tuning;
  const data::TraceLayout& layout = trace.layout();
  tuning.model = layout.model;
  for (size_t slot = 0; slot < layout.layers.size(); ++slot)
    tuning.layers.push_back({layout.layers[slot], layout.facts[slot].num_qo_heads, layout.facts[slot].num_kv_heads});
  tuning.traces.push_back(
      {trace.path(), trace.layout().prompt_source, trace.num_tokens(), trace.num_rows(), trace.layout().first_token});
  for (const std::string& held_out : settings.checks) {
    const data::TraceReader check(held_out);
    tuning.checks.push_back(
        {held_out, check.layout().prompt_source, check.num_tokens(), check.num_rows(), check.layout().first_token});
  }
  for (const ui::TuneSettings::Method& method : settings.methods) {
    const MethodChoice choice = ChoiceOf(method);
    tuning.methods.push_back({choice, analysis::SearchedGrid(*choice.spec, trace.num_tokens())});
  }
  tuning.target = ParseTarget(settings.target);
  tuning.unit = UnitOf(settings.unit);
  tuning.criterion = UsualCriterion(tuning.target.budget, settings.methods.size());
  tuning.num_heads_chosen = num_heads_chosen;
  for (const ui::TunedSetting& head : heads) {
    TunedHead tuned;
    tuned.id = head.head;
    tuned.method = head.method;
    tuned.found.reached = head.reached;
    tuned.found.values = head.values;
    tuned.found.kept_fraction = head.kept_fraction;
    tuned.found.mass = head.mass;
    tuned.found.relative_error = head.relative_error;
    tuned.found.time_share = head.time_share;
    if (head.checked) {
      tuned.checked = tuned.found;
      tuned.checked->reached = head.checked->reached;
      tuned.checked->kept_fraction = head.checked->kept_fraction;
      tuned.checked->mass = head.checked->mass;
      tuned.checked->relative_error = head.checked->relative_error;
      tuned.checked->time_share = head.checked->time_share;
    }
    tuned.device = head.device;
    tuned.outside_mass = head.outside_mass;
    tuning.heads.push_back(std::move(tuned));
    if (format != TuningFormat::kLuKv || head.trade_off.empty()) continue;
    TunedFront& front = tuning.fronts.emplace_back();
    front.heads = {head.head};
    for (const ui::TunedSetting::Point& point : head.trade_off)
      front.points.push_back({.values = point.values, .cra_mean = point.mass_mean});
  }
  if (!tuning.complete()) {
    throw UsageError("Only " + std::to_string(heads.size()) + " of " + std::to_string(num_heads_chosen) +
                     " heads are tuned, and a configuration holds all of them: resume the tuning first.");
  }
  std::vector<analysis::HeadId> tuned_heads;
  for (const TunedHead& head : tuning.heads) tuned_heads.push_back(head.id);
  CheckTuningFormat(format, tuning, tuned_heads);
  WriteText(TuningFile(tuning, format), path, /*force=*/true);
}

kernels::ParameterValues MeetTarget(OpenedTrace& trace, analysis::HeadId head, const ui::TuneSettings::Method& method,
                                    double target, bool alone, const analysis::BudgetSearchOptions& options,
                                    MassCache* masses, bool* unsupported) {
  const kernels::NamedMethod searched = SearchedMethod(method.name);
  analysis::BudgetSearchResult result;
  kernels::Status status;
  if (searched.decode != nullptr) {
    status = SearchDecode(trace, head, trace.Measured(head, alone), *searched.decode, method.values, target,
                          {.search = options, .decode_rows = trace.DecodeRows()}, &result);
  } else {
    // What is searched is the first map's method.
    const MassCache::MassPtr mass = masses->Get(ui::MapView::kFirst, trace.heads.Get(head), options.stop);
    status = analysis::SearchBudget(*mass, *searched.prefill, method.values, WindowTarget(target), options, &result);
  }
  *unsupported = status.code() == kernels::StatusCode::kUnsupported || (status.ok() && !result.reached);
  CheckStatus(status);
  return ReachedValues(*searched.spec(), target, result);
}

}  // namespace headscope::app
