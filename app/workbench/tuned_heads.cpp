// SPDX-License-Identifier: Apache-2.0
#include "tuned_heads.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "analysis/compare.h"
#include "analysis/search.h"
#include "analysis/sweep.h"
#include "analysis/types/number_text.h"
#include "analysis/types/printable.h"
#include "base/check_status.h"
#include "base/errors.h"
#include "base/quoted_text.h"
#include "choices/head_results.h"
#include "choices/head_selection.h"
#include "choices/held_out_rows.h"
#include "choices/length_range.h"
#include "choices/target_names.h"
#include "choices/tuning.h"
#include "choices/tuning_files.h"
#include "choices/tuning_traces.h"
#include "choices/unit_search.h"
#include "kernels/cuda_executor.h"
#include "support/output_file.h"

namespace headscope::app {

analysis::BudgetTarget WindowTarget(double share) {
  return {share, analysis::MassStatistic::kFifthPercentile};
}

kernels::NamedMethod MethodFor(const data::TraceReader& trace, const std::string& name) {
  const kernels::NamedMethod method = kernels::FindMethod(name);
  if (method.spec() == nullptr)
    throw UsageError({.field = "method",
                      .value = Quoted(name),
                      .problem = "it is not registered",
                      .remedy = "choose one from the panel's list"});
  CheckMethodIsOfModel(name, trace);
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
                       target.kind == Kind::kMass || target.kind == Kind::kError, target.kind == Kind::kMass});
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

MethodChoice ChoiceOf(const data::TraceReader& trace, const ui::TuneSettings::Method& method) {
  const kernels::NamedMethod found = MethodFor(trace, method.name);
  return {found.spec(), found.prefill, found.decode, method.values, method.name};
}

// What is asked: everything of a tuning but its traces and what is found on them.
Tuning QuestionOf(const data::TraceReader& trace, const ui::TuneSettings& settings) {
  Tuning tuning;
  for (const ui::TuneSettings::Method& method : settings.methods)
    tuning.methods.push_back({ChoiceOf(trace, method), {}});
  for (const Tuning::Searched& method : tuning.methods) CheckStatus(analysis::CheckSearchable(*method.choice.spec));
  if (tuning.methods.empty()) throw UsageError({.problem = "there is nothing to tune", .remedy = "choose a method"});
  for (const Tuning::Searched& method : tuning.methods) {
    if ((method.choice.decode != nullptr) == tuning.is_decode()) continue;
    throw UsageError({.problem = "prefill and decode methods run on different rows",
                      .remedy = "tune " + method.choice.name + " by itself"});
  }
  tuning.held_out_rows = settings.check_rows;
  if (tuning.is_decode() && !tuning.held_out_rows.empty())
    throw UsageError(
        {.problem = "decode methods run on the last recorded rows", .remedy = "hold out traces, not rows"});
  tuning.target = ParseTarget(settings.target.Text());
  tuning.unit = UnitOf(settings.unit);
  tuning.criterion = CriterionOf(CriterionOf(settings.choose), tuning.target.budget, settings.methods.size());
  tuning.decode_rows = settings.decode_rows;
  tuning.in_group = settings.in_group;
  CheckGroup(tuning);
  return tuning;
}

// The trade-off that LU-KV's file is made of, where one can be.
int32_t FrontPoints(const Tuning& tuning) {
  std::vector<const kernels::MethodSpec*> specs;
  for (const Tuning::Searched& method : tuning.methods) specs.push_back(method.choice.spec);
  return SharesOutBudgets(specs, tuning.unit) ? kLuKvPoints : 0;
}

// A trace that the window holds. Heads go past its cache: a pass over all of them would push out what is shown.
class WindowsTrace : public TunedTrace {
 public:
  explicit WindowsTrace(OpenedTrace* trace) : TunedTrace(&trace->reader), trace_(trace) {}

  analysis::HeadTensorsPtr Load(analysis::HeadId head, const Device& device) override {
    return trace_->heads.GetUncached(head, device);
  }
  analysis::MeasuredHeadsPtr GroupOf(analysis::HeadId head) override { return trace_->GroupOf(head); }
  std::shared_ptr<const std::vector<double>> MassInTrace(const analysis::HeadTensors& head, int32_t,
                                                         const std::stop_token& stop) override {
    return trace_->MassInTrace(head, stop);
  }

 private:
  OpenedTrace* const trace_;
};

constexpr auto kReaderOf = [](const TunedTrace* trace) -> const data::TraceReader& { return trace->reader(); };

// The traces of one range of lengths.
struct TunedRange : RangeOfTraces<TunedTrace*> {
  bool is_open_traces = false;
};

// The traces of a tuning by ranges of lengths, that of the open trace last. All but that one are opened here, apart
// from the window's own.
class TracesByLength {
 public:
  TracesByLength(OpenedTrace* open, const ui::TuneSettings& settings, const std::vector<analysis::HeadId>& heads) {
    TunedTrace* const open_trace = held_.emplace_back(std::make_unique<WindowsTrace>(open)).get();
    const TunedTraces only_open = {open_trace};
    TunedTraces traces = only_open, checks;
    Open(settings.traces, only_open, "is given twice, and its rows would count double", heads, &traces);
    Open(settings.checks, traces, "is a trace that is tuned, and would agree with itself", heads, &checks);
    for (auto& part : ByLength(RangesBetween(settings.ranges, "Lengths"), traces, checks, kReaderOf)) {
      if (part.traces.empty()) {
        throw UsageError({.file = part.checks.front()->reader().path(),
                          .problem = "it is held out, but no trace of its range of lengths, " + RangeText(part.range) +
                                     ", is tuned on",
                          .remedy = "choose one"});
      }
      const bool is_open_traces = std::ranges::find(part.traces, open_trace) != part.traces.end();
      ranges_.push_back({std::move(part), is_open_traces});
    }
    std::ranges::stable_sort(ranges_, {}, &TunedRange::is_open_traces);
  }
  const std::vector<TunedRange>& ranges() const { return ranges_; }

 private:
  // `before`: what a path must not name again, for the reason `why`.
  void Open(const std::vector<std::string>& paths, const TunedTraces& before, const std::string& why,
            const std::vector<analysis::HeadId>& heads, TunedTraces* traces) {
    for (const std::string& path : paths) {
      opened_.push_back(std::make_unique<OpenedTrace>(path, memory_));
      OpenedTrace* const trace = opened_.back().get();
      if (LeadsToOneOf(path, before, kReaderOf))
        throw UsageError({.file = path, .problem = why, .remedy = "choose another one"});
      if (LeadsToOneOf(path, *traces, kReaderOf))
        throw UsageError({.file = path, .problem = "it is given twice", .remedy = "choose each trace once"});
      CheckTunedTogether(trace->reader, before.front()->reader());
      if (const std::optional<analysis::HeadId> missing = HeadNotRecorded(trace->reader, heads))
        throw UsageError({.file = path,
                          .field = "head",
                          .value = HeadText(*missing),
                          .problem = "it was not recorded there",
                          .remedy = "choose a trace that has it, or filter it out"});
      traces->push_back(held_.emplace_back(std::make_unique<WindowsTrace>(trace)).get());
    }
  }

  const std::shared_ptr<ui::MemoryBudget> memory_ = std::make_shared<ui::MemoryBudget>();
  std::vector<std::unique_ptr<OpenedTrace>> opened_;
  std::vector<std::unique_ptr<WindowsTrace>> held_;
  std::vector<TunedRange> ranges_;
};

ui::TunedSetting::Lengths LengthsOf(const LengthRange& range) {
  return {range.from, range.below};
}

// As the window has what was found for a unit at one range of lengths.
std::vector<ui::TunedSetting> SettingsOf(const Tuning& question, const TunedRange& range,
                                         const TunedTogether& together) {
  std::vector<ui::TunedSetting> settings;
  for (const TunedHead& head : together.heads) {
    ui::TunedSetting& setting = settings.emplace_back();
    static_cast<analysis::SettingQuality&>(setting) = head.found;
    setting.head = head.id;
    setting.lengths = LengthsOf(range.range);
    setting.is_open_traces = range.is_open_traces;
    setting.method = head.method;
    setting.values = head.found.values;
    setting.device = head.device;
    setting.outside_mass = head.outside_mass;
    if (head.checked) setting.checked = *head.checked;
    for (const TunedFront& front : together.fronts) {  // of one method, and per head
      for (const analysis::TradeOffPoint& point : front.points)
        setting.trade_off.push_back({point.values, point.cra_mean});
    }
    setting.passed_over = together.passed_over;
    setting.note = NoteOfMethod(question, question.MethodOf(head), range.traces.front()->reader());
  }
  return settings;
}

}  // namespace

void TuneHeads(OpenedTrace& trace, const std::vector<analysis::HeadId>& heads, const ui::TuneSettings& settings,
               const HeadsCalls<ui::TunedSetting>& calls, const std::stop_token& stop) {
  const Tuning question = QuestionOf(trace.reader, settings);
  const HeldOutRows held_out(settings.check_rows, "Held-out rows");
  const TracesByLength traces(&trace, settings, heads);
  for (const TunedRange& range : traces.ranges()) {
    for (const TunedTraces* const some : {&range.traces, &range.checks}) {
      for (const TunedTrace* one : *some) held_out.CheckTrace(one->reader());
    }
  }
  const std::vector<std::vector<analysis::HeadId>> units = UnitsOf(heads, question.unit);
  analysis::SweepOptions options;
  kernels::CudaDeviceInfo gpu;
  const Device device = kernels::QueryCudaDevice(kWindowsGpu.ordinal, &gpu).ok() ? kWindowsGpu : kCpu;
  int64_t bytes = 0;
  for (const TunedRange& range : traces.ranges())
    bytes = std::max(bytes, SearchedHeadBytes(question, range.traces, heads, options.num_threads));
  // Heads beside each other would time each other.
  options.most_at_once =
      IsTimed(settings) || question.unit != TunedUnit::kHead ? 1 : analysis::HeadsAtOnce(device, bytes);
  options.stop = stop;
  options.progress = [&](const analysis::SweepProgress& progress) { calls.progress(progress.share); };
  options.failed = [&](const analysis::SweepCell& cell, const kernels::Status& why) {
    for (const analysis::HeadId& head : units[cell.head]) calls.failed({head, analysis::Printable(why.message())});
  };
  std::mutex mutex;
  const kernels::Status status =
      analysis::SweepCells({.num_heads = units.size()}, options, [&](const analysis::SweepCell& cell) {
        const std::vector<analysis::HeadId>& unit = units[cell.head];
        std::vector<ui::TunedSetting> tuned;
        kernels::Status found;
        size_t done = 0;  // ranges
        UnitSearchOptions search{.device = kWindowsGpu,
                                 .front_points = FrontPoints(question),
                                 .num_threads = cell.num_threads,
                                 .stop = stop};
        search.report = [&](double share) {
          cell.report((static_cast<double>(done) + share) / static_cast<double>(traces.ranges().size()));
        };
        for (const TunedRange& range : traces.ranges()) {
          CheckUnitMemory(question, range.traces, unit, cell.num_threads);
          TunedTogether together;
          found = TuneUnit(question, range.traces, range.TriedOn(held_out.any()), unit, search, &together);
          if (!found.ok()) break;
          std::ranges::move(SettingsOf(question, range, together), std::back_inserter(tuned));
          ++done;
        }
        const std::lock_guard lock(mutex);
        if (found.ok()) std::ranges::for_each(tuned, calls.one);
        return found;
      });
  if (status.code() != kernels::StatusCode::kCancelled) CheckStatus(status);
}

namespace {

// As a program reads it, of the settings of one range of lengths.
Tuning TuningOf(const Tuning& question, const std::vector<ui::TunedSetting>& heads,
                const RangeOfTraces<const data::TraceReader*>& part, bool with_trade_offs) {
  Tuning tuning = question;
  DescribeTraces(part, &tuning);
  for (const ui::TunedSetting& head : heads) {
    if (head.lengths != LengthsOf(part.range)) continue;
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
  const Tuning question = QuestionOf(trace, settings);
  std::vector<Tuning> tunings;
  const auto reader_of = [](const data::TraceReader* one) -> const data::TraceReader& { return *one; };
  for (const auto& part : ByLength(RangesBetween(settings.ranges, "Lengths"), traces, checks, reader_of)) {
    if (part.traces.empty()) continue;
    Tuning& tuning =
        tunings.emplace_back(TuningOf(question, heads, part, /*with_trade_offs=*/format == TuningFormat::kLuKv));
    tuning.num_heads_chosen = num_heads_chosen;
    if (!tuning.complete()) {
      throw UsageError({.problem = "only " + std::to_string(tuning.heads.size()) + " of " +
                                   std::to_string(num_heads_chosen) +
                                   " heads are tuned, and a configuration holds all of them",
                        .remedy = "resume the tuning first"});
    }
    std::vector<analysis::HeadId> tuned_heads;
    for (const TunedHead& head : tuning.heads) tuned_heads.push_back(head.id);
    CheckTuningFormat(format, tuning, tuned_heads);
  }
  const std::optional<FileBeside> beside = FileBesideTuning(format, path);
  WriteText(ranged ? TuningFile(tunings, format) : TuningFile(tunings.front(), format), path, /*force=*/true);
  if (beside) WriteText(beside->text, beside->path, /*force=*/false);
}

kernels::ParameterValues MeetTarget(OpenedTrace& trace, analysis::HeadId head, const ui::TuneSettings::Method& method,
                                    double target, bool alone, const analysis::BudgetSearchOptions& options,
                                    MassCache* masses, bool* unsupported) {
  const kernels::NamedMethod searched = MethodFor(trace.reader, method.name);
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
