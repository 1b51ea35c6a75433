// SPDX-License-Identifier: Apache-2.0
#include "tuned_heads.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "analysis/compare.h"
#include "analysis/sweep.h"
#include "analysis/types/number_text.h"
#include "analysis/types/printable.h"
#include "base/check_status.h"
#include "base/errors.h"
#include "choices/head_selection.h"
#include "choices/held_out_rows.h"
#include "choices/length_range.h"
#include "choices/target_names.h"
#include "choices/tuning.h"
#include "choices/tuning_files.h"
#include "choices/tuning_traces.h"
#include "data/trace_files.h"
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
                       target.kind == Kind::kMass && target.statistic == WindowTarget(0).statistic,
                       IsLimitOfPairs({.kind = target.kind}), target.kind == Kind::kWork,
                       target.kind == Kind::kMass || target.kind == Kind::kError});
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
  return ParseTarget(settings.target.Text()).budget.kind == analysis::BudgetTarget::Kind::kTime;
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

std::optional<TunedCriterion> CriterionOf(ui::TuneSettings::Choice choice) {
  switch (choice) {
    case ui::TuneSettings::Choice::kUsual:
      return std::nullopt;
    case ui::TuneSettings::Choice::kMass:
      return TunedCriterion::kMass;
    case ui::TuneSettings::Choice::kError:
      return TunedCriterion::kError;
  }
  return std::nullopt;
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
  HeldOutRows held_out;
  bool in_group = false;    // decode methods, in the group of the unit's one head
  bool shares_out = false;  // with the trade-off that LU-KV's file is made of

  bool is_decode() const { return methods.front().decode != nullptr; }
  bool by_time() const { return target.kind == analysis::BudgetTarget::Kind::kTime; }
};

Search SearchOf(const ui::TuneSettings& settings, bool alone) {
  Search search;
  search.held_out = HeldOutRows(settings.check_rows, "Held-out rows");
  for (const ui::TuneSettings::Method& method : settings.methods) search.methods.push_back(ChoiceOf(method));
  if (search.methods.empty()) throw UsageError("There is nothing to tune: choose a method.");
  for (const MethodChoice& method : search.methods) {
    if ((method.decode != nullptr) == search.is_decode()) continue;
    throw UsageError("Prefill and decode methods run on different rows: tune " + method.name + " by itself.");
  }
  if (search.is_decode() && search.held_out.any())
    throw UsageError("Decode methods run on the last recorded rows: hold out traces, not rows.");
  const TuneTarget target = ParseTarget(settings.target.Text());
  search.target = target.budget;
  search.criterion = CriterionOf(CriterionOf(settings.choose), target.budget, settings.methods.size());
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

// The settings of a unit's heads on the traces, or rows, that they were not chosen by.
kernels::Status CheckUnit(const TunedTraces& checks, const Search& search, const analysis::BudgetSearchOptions& options,
                          const Device& device, std::vector<ui::TunedSetting>* tuned) {
  if (checks.empty()) return {};
  analysis::BudgetSearchOptions quiet = options;
  quiet.progress = {};
  quiet.judged_rows = search.held_out.Judge(/*held_out=*/true);
  for (ui::TunedSetting& setting : *tuned) {
    std::vector<std::vector<analysis::HeadTensorsPtr>> recordings(1);
    for (OpenedTrace* trace : checks) recordings.front().push_back(trace->heads.GetUncached(setting.head, device));
    UnitSearcher searcher(checks, search, recordings, quiet);
    std::vector<analysis::BudgetSearchResult> found;
    kernels::Status status = searcher.Try(search.methods[setting.method], setting.values, search.target, &found);
    if (!status.ok()) return status;
    setting.checked = found.front();
  }
  return {};
}

// The traces of one range of lengths.
struct TunedRange : RangeOfTraces<OpenedTrace*> {
  bool is_open_traces = false;
  // Where rows are held out and no trace is, the same traces.
  const TunedTraces& TriedOn(const HeldOutRows& held_out) const {
    return checks.empty() && held_out.any() ? traces : checks;
  }
};

// The traces of a tuning by ranges of lengths, that of the open trace last. All but that one are opened here, apart
// from the window's own.
class TracesByLength {
 public:
  TracesByLength(OpenedTrace* open, const ui::TuneSettings& settings, const std::vector<analysis::HeadId>& heads) {
    const TunedTraces only_open = {open};
    TunedTraces traces = only_open, checks;
    Open(settings.traces, only_open, "is given twice, and its rows would count double", heads, &traces);
    Open(settings.checks, traces, "is a trace that is tuned, and would agree with itself", heads, &checks);
    const auto reader_of = [](const OpenedTrace* trace) -> const data::TraceReader& { return trace->reader; };
    for (auto& part : ByLength(RangesBetween(settings.ranges, "Lengths"), traces, checks, reader_of)) {
      if (part.traces.empty()) {
        throw UsageError(part.checks.front()->reader.path() + " is held out, but no trace of its range of lengths, " +
                         RangeText(part.range) + ", is tuned on: choose one.");
      }
      const bool is_open_traces = std::ranges::find(part.traces, open) != part.traces.end();
      ranges_.push_back({std::move(part), is_open_traces});
    }
    std::ranges::stable_sort(ranges_, {}, &TunedRange::is_open_traces);
  }
  const std::vector<TunedRange>& ranges() const { return ranges_; }
  // Of a head in all traces of a range, where that is most.
  int64_t LargestHeadBytes(const std::vector<analysis::HeadId>& heads) const {
    int64_t most = 0;
    for (const TunedRange& range : ranges_) {
      int64_t bytes = 0;
      for (const OpenedTrace* trace : range.traces) bytes += analysis::LargestHeadBytes(trace->reader, heads);
      most = std::max(most, bytes);
    }
    return most;
  }

 private:
  // `before`: what a path must not name again, for the reason `why`.
  void Open(const std::vector<std::string>& paths, const TunedTraces& before, const std::string& why,
            const std::vector<analysis::HeadId>& heads, TunedTraces* traces) {
    const auto is_there = [](const TunedTraces& some, const std::string& path) {
      return std::ranges::any_of(
          some, [&path](const OpenedTrace* trace) { return data::NameSameTrace(path, trace->reader.path()); });
    };
    for (const std::string& path : paths) {
      opened_.push_back(std::make_unique<OpenedTrace>(path, memory_));
      OpenedTrace* const trace = opened_.back().get();
      if (is_there(before, path)) throw UsageError(std::string(path).append(" ").append(why) + ": choose another one.");
      if (is_there(*traces, path)) throw UsageError(path + " is given twice: choose each trace once.");
      CheckTunedTogether(trace->reader, before.front()->reader);
      const auto& recorded = trace->summary.heads;
      for (const analysis::HeadId& head : heads) {
        if (std::find(recorded.begin(), recorded.end(), head) != recorded.end()) continue;
        throw UsageError(path + ": head " + HeadText(head) +
                         " was not recorded there: choose a trace that has it, or filter it out.");
      }
      traces->push_back(trace);
    }
  }

  const std::shared_ptr<ui::MemoryBudget> memory_ = std::make_shared<ui::MemoryBudget>();
  std::vector<std::unique_ptr<OpenedTrace>> opened_;
  std::vector<TunedRange> ranges_;
};

ui::TunedSetting::Lengths LengthsOf(const LengthRange& range) {
  return {range.from, range.below};
}

// `share` is told of this range of lengths alone.
kernels::Status TuneUnit(const TunedRange& range, const std::vector<analysis::HeadId>& unit, const Search& search,
                         int32_t num_threads, const std::function<void(double share)>& report,
                         const std::stop_token& stop, std::vector<ui::TunedSetting>* tuned) {
  // Heads that share a setting are in memory together.
  int64_t bytes = 0;
  for (const OpenedTrace* trace : range.traces)
    bytes += analysis::LargestHeadBytes(trace->reader, unit) * static_cast<int64_t>(unit.size());
  if (unit.size() > 1 && bytes > analysis::MostMeasuredBytes()) {
    return {kernels::StatusCode::kOutOfMemory, std::to_string(unit.size()) + " heads that share a setting take " +
                                                   std::to_string(bytes >> 20) +
                                                   " MiB together: tune each head by itself, or fewer heads"};
  }
  // Past the cache: a pass over all heads would push out what the window shows.
  const Device& device = search.is_decode() || search.by_time() ? kCpu : kWindowsGpu;
  std::vector<std::vector<analysis::HeadTensorsPtr>> recordings;
  for (const analysis::HeadId& head : unit) {
    recordings.emplace_back();
    for (OpenedTrace* trace : range.traces) recordings.back().push_back(trace->heads.GetUncached(head, device));
  }
  const size_t num_steps = search.methods.size() + (search.shares_out ? 1 : 0);
  size_t step = 0;
  analysis::BudgetSearchOptions options;
  options.num_threads = num_threads;
  options.stop = stop;
  options.progress = [&](double share) {
    report((static_cast<double>(step) + share) / static_cast<double>(num_steps));
  };
  options.judged_rows = search.held_out.Judge(/*held_out=*/false);
  options.measure_error = search.criterion == TunedCriterion::kError;
  options.measure_point_times = search.by_time();
  options.measure_point_errors =
      search.by_time() || options.measure_error || search.target.kind == analysis::BudgetTarget::Kind::kError;
  UnitSearcher searcher(range.traces, search, recordings, options);
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
  std::vector<ui::TunedSetting> own;
  for (size_t i = 0; i < unit.size(); ++i) {
    const analysis::BudgetSearchResult& found = best[i];
    ui::TunedSetting& setting = own.emplace_back();
    setting.head = unit[i];
    setting.lengths = LengthsOf(range.range);
    setting.is_open_traces = range.is_open_traces;
    setting.method = best_method;
    setting.values = found.values;
    static_cast<analysis::SettingQuality&>(setting) = found;
    setting.device = recordings[i].front()->WhereComputed();
    for (const analysis::TradeOffPoint& point : trade_off) setting.trade_off.push_back({point.values, point.cra_mean});
    setting.outside_mass = MeanOutside(
        recordings[i], [&, i](size_t trace) { return range.traces[trace]->MassInTrace(*recordings[i][trace], stop); });
  }
  if (kernels::Status status = CheckUnit(range.TriedOn(search.held_out), search, options, device, &own); !status.ok())
    return status;
  std::ranges::move(own, std::back_inserter(*tuned));
  return {};
}

}  // namespace

void TuneHeads(OpenedTrace& trace, const std::vector<analysis::HeadId>& heads, const ui::TuneSettings& settings,
               bool alone, const HeadsCalls<ui::TunedSetting>& calls, const std::stop_token& stop) {
  const Search search = SearchOf(settings, alone);
  const TracesByLength traces(&trace, settings, heads);
  for (const TunedRange& range : traces.ranges()) {
    for (const TunedTraces* const some : {&range.traces, &range.checks}) {
      for (const OpenedTrace* one : *some) search.held_out.CheckTrace(one->reader);
    }
  }
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
                             : analysis::HeadsAtOnce(device, traces.LargestHeadBytes(heads));
  options.stop = stop;
  options.progress = [&](const analysis::SweepProgress& progress) { calls.progress(progress.share); };
  options.failed = [&](const analysis::SweepCell& cell, const kernels::Status& why) {
    for (const analysis::HeadId& head : units[cell.head]) calls.failed({head, analysis::Printable(why.message())});
  };
  std::mutex mutex;
  const kernels::Status status =
      analysis::SweepCells({.num_heads = units.size()}, options, [&](const analysis::SweepCell& cell) {
        std::vector<ui::TunedSetting> tuned;
        kernels::Status found;
        size_t done = 0;  // ranges
        for (const TunedRange& range : traces.ranges()) {
          const auto report = [&](double share) {
            cell.report((static_cast<double>(done) + share) / static_cast<double>(traces.ranges().size()));
          };
          found = TuneUnit(range, units[cell.head], search, cell.num_threads, report, stop, &tuned);
          if (!found.ok()) break;
          ++done;
        }
        const std::lock_guard lock(mutex);
        if (found.ok()) std::ranges::for_each(tuned, calls.one);
        return found;
      });
  if (status.code() != kernels::StatusCode::kCancelled) CheckStatus(status);
}

namespace {

// As a program reads it, of the settings of one range of lengths. `traces`, `checks`: of that range.
Tuning TuningOf(const ui::TuneSettings& settings, const std::vector<ui::TunedSetting>& heads, const LengthRange& range,
                const std::vector<const data::TraceReader*>& traces,
                const std::vector<const data::TraceReader*>& checks, bool with_trade_offs) {
  Tuning tuning;
  tuning.range = range;
  const data::TraceLayout& layout = traces.front()->layout();
  tuning.model = layout.model;
  for (size_t slot = 0; slot < layout.layers.size(); ++slot)
    tuning.layers.push_back({layout.layers[slot], layout.facts[slot].num_qo_heads, layout.facts[slot].num_kv_heads});
  const auto source = [](const data::TraceReader* trace) {
    return Tuning::Source{trace->path(), trace->layout().prompt_source, trace->num_tokens(), trace->num_rows(),
                          trace->layout().first_token};
  };
  std::ranges::transform(traces, std::back_inserter(tuning.traces), source);
  tuning.held_out_rows = settings.check_rows;
  const bool same_traces = checks.empty() && !settings.check_rows.empty();
  std::ranges::transform(same_traces ? traces : checks, std::back_inserter(tuning.checks), source);
  int64_t longest = 0;
  for (const data::TraceReader* trace : traces) longest = std::max(longest, trace->num_tokens());
  for (const ui::TuneSettings::Method& method : settings.methods) {
    const MethodChoice choice = ChoiceOf(method);
    tuning.methods.push_back({choice, analysis::SearchedGrid(*choice.spec, longest)});
  }
  tuning.target = ParseTarget(settings.target.Text());
  tuning.unit = UnitOf(settings.unit);
  tuning.criterion = CriterionOf(CriterionOf(settings.choose), tuning.target.budget, settings.methods.size());
  for (const ui::TunedSetting& head : heads) {
    if (head.lengths != LengthsOf(range)) continue;
    TunedHead tuned;
    tuned.id = head.head;
    tuned.method = head.method;
    tuned.found = {head, head.values};
    if (head.checked) tuned.checked = {*head.checked, head.values};
    tuned.device = head.device;
    tuned.outside_mass = head.outside_mass;
    tuning.heads.push_back(std::move(tuned));
    if (!with_trade_offs || head.trade_off.empty()) continue;
    TunedFront& front = tuning.fronts.emplace_back();
    front.heads = {head.head};
    for (const ui::TunedSetting::Point& point : head.trade_off)
      front.points.push_back({.values = point.values, .cra_mean = point.mass_mean});
  }
  return tuning;
}

}  // namespace

void ExportTuning(const data::TraceReader& trace, const ui::TuneSettings& settings,
                  const std::vector<ui::TunedSetting>& heads, size_t num_heads_chosen, const std::string& path,
                  const std::string& file) {
  const TuningFormat format = ChooseTuningFormat(file, path);
  const bool ranged = !settings.ranges.empty();
  if (ranged) CheckRangeFormat(format);
  std::vector<std::unique_ptr<const data::TraceReader>> opened;
  const auto open = [&opened](const std::vector<std::string>& paths) {
    std::vector<const data::TraceReader*> readers;
    for (const std::string& one : paths) {
      opened.push_back(std::make_unique<const data::TraceReader>(one));
      readers.push_back(opened.back().get());
    }
    return readers;
  };
  std::vector<const data::TraceReader*> traces = open(settings.traces);
  const std::vector<const data::TraceReader*> checks = open(settings.checks);
  traces.insert(traces.begin(), &trace);
  std::vector<Tuning> tunings;
  const auto reader_of = [](const data::TraceReader* one) -> const data::TraceReader& { return *one; };
  for (const auto& part : ByLength(RangesBetween(settings.ranges, "Lengths"), traces, checks, reader_of)) {
    if (part.traces.empty()) continue;
    Tuning& tuning = tunings.emplace_back(
        TuningOf(settings, heads, part.range, part.traces, part.checks, format == TuningFormat::kLuKv));
    tuning.num_heads_chosen = num_heads_chosen;
    if (!tuning.complete()) {
      throw UsageError("Only " + std::to_string(tuning.heads.size()) + " of " + std::to_string(num_heads_chosen) +
                       " heads are tuned, and a configuration holds all of them: resume the tuning first.");
    }
    std::vector<analysis::HeadId> tuned_heads;
    for (const TunedHead& head : tuning.heads) tuned_heads.push_back(head.id);
    CheckTuningFormat(format, tuning, tuned_heads);
  }
  WriteText(ranged ? TuningFile(tunings, format) : TuningFile(tunings.front(), format), path, /*force=*/true);
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
