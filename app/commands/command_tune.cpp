// SPDX-License-Identifier: Apache-2.0
// headscope tune TRACE.. --method NAME[:k=v,..].. --target cra=T|error=E|kept=F|time=F [--per head|layer|model]
// [--check TRACE].. [--check-rows ROWS] [--ranges N,..] [--heads L:H,..] [-o CONFIG.json|.csv|.tsv|.npy]
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>

#include "analysis/measured_heads.h"
#include "analysis/search.h"
#include "analysis/sweep.h"
#include "base/check_status.h"
#include "base/device.h"
#include "base/errors.h"
#include "base/file_format.h"
#include "choices/device_choice.h"
#include "choices/head_results.h"
#include "choices/head_selection.h"
#include "choices/held_out_rows.h"
#include "choices/method_choice.h"
#include "choices/tuning.h"
#include "choices/tuning_files.h"
#include "choices/tuning_traces.h"
#include "commands/command.h"
#include "commands/common_options.h"
#include "commands/head_notes.h"
#include "commands/tuning_progress.h"
#include "data/row_positions.h"
#include "data/trace_files.h"
#include "data/trace_reader.h"
#include "kernels/method_names.h"
#include "support/exit_codes.h"
#include "support/interrupt.h"
#include "support/listed.h"
#include "support/messages.h"
#include "support/option_checks.h"
#include "support/output_file.h"
#include "support/progress_line.h"

namespace headscope::app {
namespace {

using Traces = std::vector<std::unique_ptr<data::TraceReader>>;

struct TuneArguments {
  std::vector<std::string> traces, checks, methods, ranges;
  std::string target, heads, output, format, per = "head", choose, check_rows;
  int32_t front_points = 0;
  Device device = kCpu;
  int32_t num_threads = 0;
  bool force = false, quiet = false, resume = false;
};

// Under a target for the work budgets are where the search starts.
MethodChoice ParseSearchableMethod(const std::string& text, const TuneTarget& target) {
  MethodChoice choice = ParseMethod(text);
  CheckStatus(analysis::CheckSearchable(*choice.spec), "--method " + text);
  if (target.budget.kind == analysis::BudgetTarget::Kind::kWork) return choice;
  const size_t colon = text.find(':');
  const std::string given = colon == std::string::npos ? "" : "," + text.substr(colon + 1);
  for (const kernels::ParameterSpec* budget : analysis::Budgets(*choice.spec)) {
    if (given.find("," + budget->name + "=") == std::string::npos) continue;
    throw UsageError("--method " + text + ": " + budget->name +
                     " is a budget, which tune searches; leave it out, or measure that setting with headscope compare");
  }
  return choice;
}

// Decode methods run on other rows than prefill methods, and a limit that is another setting's pairs has to be of
// these.
void CheckPhases(const Tuning& tuning, const TuneArguments& arguments) {
  const auto is_decode = [](const Tuning::Searched& method) { return method.choice.decode != nullptr; };
  const bool decode = is_decode(tuning.methods.front());
  if (!std::ranges::all_of(tuning.methods, [&](const Tuning::Searched& method) { return is_decode(method) == decode; }))
    throw UsageError("--method: prefill and decode methods run on different rows; tune them separately");
  if (decode && tuning.target.budget.kind == analysis::BudgetTarget::Kind::kWork)
    throw UsageError("--target " + arguments.target + ": work is counted in the tiles of a prefill kernel, and " +
                     tuning.methods.front().choice.name + " is a decode method; give kept=..");
  if (!tuning.target.limit || (tuning.target.limit->decode != nullptr) == decode) return;
  throw UsageError("--target " + arguments.target + ": " + tuning.target.limit->name + " is a " +
                   (decode ? "prefill" : "decode") + " method, and " + tuning.methods.front().choice.name + " a " +
                   (decode ? "decode" : "prefill") +
                   " method, which runs on different rows; give a setting of the same kind, or a share");
}

TunedUnit ParseUnit(const std::string& text) {
  for (const TunedUnit unit : {TunedUnit::kHead, TunedUnit::kLayer, TunedUnit::kModel}) {
    if (text == NameOf(unit)) return unit;
  }
  throw UsageError("--per '" + text + "': choose head, layer or model");
}

// `others`: traces that are open already, of the same model and other recordings.
Traces OpenTraces(const std::vector<std::string>& paths, const Traces& others) {
  Traces traces;
  for (const std::string& path : paths) {
    const auto is_same = [&](const auto& trace) { return data::NameSameTrace(path, trace->path()); };
    if (std::ranges::any_of(traces, is_same))
      throw UsageError(path + " is given twice, and its rows would count double; give each trace once");
    if (std::ranges::any_of(others, is_same))
      throw UsageError("--check " + path + " is a trace to tune on, and would agree with itself; give another one");
    traces.push_back(std::make_unique<data::TraceReader>(path));
    CheckTunedTogether(*traces.back(), others.empty() ? *traces.front() : *others.front());
  }
  return traces;
}

// The chosen heads, which every trace must have.
std::vector<analysis::HeadId> ChooseHeads(const std::string& text, const Traces& traces, const Traces& checks) {
  std::vector<analysis::HeadId> heads = ParseHeads(text, analysis::RecordedHeads(*traces.front()));
  for (const Traces* const some : {&traces, &checks}) {
    for (const auto& trace : *some) {
      const std::vector<analysis::HeadId> recorded = analysis::RecordedHeads(*trace);
      for (const analysis::HeadId& head : heads) {
        if (std::find(recorded.begin(), recorded.end(), head) != recorded.end()) continue;
        throw UsageError(trace->path() + ": head " + HeadText(head) + " was not recorded there, and " +
                         traces.front()->path() + " has it; give --heads that every trace has");
      }
    }
  }
  return heads;
}

std::vector<Tuning::Source> SourcesOf(const Traces& traces) {
  std::vector<Tuning::Source> sources;
  for (const auto& trace : traces)
    sources.push_back({trace->path(), trace->layout().prompt_source, trace->num_tokens(), trace->num_rows(),
                       trace->layout().first_token});
  return sources;
}

// Rows that are held out must be some of every trace's, and of those that methods are tuned on.
void CheckHeldOut(const HeldOutRows& held_out, const Tuning& tuning, const Traces& traces, const Traces& checks) {
  if (!held_out.any()) return;
  if (tuning.methods.front().choice.decode != nullptr)
    throw UsageError("--check-rows: " + tuning.methods.front().choice.name +
                     " is a decode method, whose steps are the last recorded rows; hold out a trace with --check");
  for (const Traces* const some : {&traces, &checks}) {
    for (const auto& trace : *some) held_out.CheckTrace(*trace);
  }
}

// What settings are tried on: other traces or, where rows are held out and no trace is, the same ones.
const Traces& ChecksOf(const RangeOfTraces<std::unique_ptr<data::TraceReader>>& part, const HeldOutRows& held_out) {
  return part.checks.empty() && held_out.any() ? part.traces : part.checks;
}

int64_t LongestOf(const Traces& traces) {
  int64_t longest = 0;
  for (const auto& trace : traces) longest = std::max(longest, trace->num_tokens());
  return longest;
}

// A file holds every chosen head or is not there; of a run that was interrupted, the heads that are done are printed.
// `complete`: all ranges of lengths are.
void WriteTunings(const std::vector<Tuning>& tunings, bool complete, const TuneArguments& arguments,
                  TuningFormat format) {
  const bool ranged = !arguments.ranges.empty();
  if (arguments.output.empty() || !complete) {
    std::string tables;
    for (const Tuning& tuning : tunings) {
      if (tuning.heads.empty()) continue;
      if (ranged) tables.append(tables.empty() ? "" : "\n").append(RangeText(tuning.range)).append(":\n");
      tables += TuningTable(tuning);
    }
    WriteText(tables, "", false);
  } else {
    WriteText(ranged ? TuningFile(tunings, format) : TuningFile(tunings.front(), format), arguments.output,
              arguments.force);
  }
  for (const Tuning& tuning : tunings) {
    if (tuning.heads.empty()) continue;
    std::string summary = (ranged ? RangeText(tuning.range) + ": " : "") + TuningSummary(tuning);
    if (!arguments.output.empty() && !complete && &tuning == &tunings.back()) {
      summary += "; " + arguments.output + " is not written";
      if (arguments.resume) summary += ", and the same command continues from here";
    }
    Say(summary);
  }
}

// What a search holds of a method's trade-off, the largest of the methods searched: one is held at a time.
int64_t MostFrontBytes(const Tuning& tuning, const Traces& traces, size_t num_heads, int32_t num_threads) {
  int64_t most = 0;
  for (const Tuning::Searched& method : tuning.methods) {
    if (method.choice.decode != nullptr) continue;
    most = std::max(most, analysis::FrontBytes(*method.choice.spec, LongestOf(traces), static_cast<int64_t>(num_heads),
                                               num_threads));
  }
  return most;
}

// How many lower layers' heads are held beside a head: those whose selections a decode method takes.
int64_t MostLowerLayers(const Tuning& tuning, const std::vector<analysis::HeadId>& heads) {
  size_t most = 0;
  for (const analysis::HeadId& head : heads) {
    std::set<int32_t> layers;
    for (const Tuning::Searched& method : tuning.methods) {
      if (method.choice.decode == nullptr) continue;
      for (const int32_t layer : method.choice.decode->LowerLayers(method.choice.values, head.layer))
        layers.insert(layer);
    }
    most = std::max(most, layers.size());
  }
  return static_cast<int64_t>(most);
}

// Heads that share a setting are in memory together, with their masses and trade-offs and the lower layers' heads.
void CheckMemory(const std::vector<std::vector<size_t>>& units, const Traces& traces, const Tuning& tuning,
                 const std::vector<analysis::HeadId>& heads, int32_t num_threads) {
  constexpr int64_t kMassBytes = int64_t{64} << 20;  // of a head at most (analysis::HeadMass)
  size_t most = 0;
  for (const auto& unit : units) most = std::max(most, unit.size());
  const int64_t layers = 1 + MostLowerLayers(tuning, heads);
  int64_t of_head = 0;
  for (const auto& trace : traces) {
    int64_t elements = 0;  // of q, k and v, in the layer where they are most
    for (const data::LayerFacts& facts : trace->layout().facts) {
      elements = std::max(elements, (trace->num_rows() + trace->num_tokens()) * facts.head_dim +
                                        trace->num_tokens() * facts.v_head_dim);
    }
    of_head += layers * elements * int64_t{sizeof(float)} +
               std::min(kMassBytes, trace->num_rows() * (trace->num_tokens() / 64 + 1) * int64_t{sizeof(float)});
  }
  const int64_t bytes = static_cast<int64_t>(most) * of_head + MostFrontBytes(tuning, traces, most, num_threads);
  if (most <= 1 || bytes <= analysis::MostMeasuredBytes()) return;
  throw DeviceError(Fault{.field = "per",
                          .problem = std::to_string(most) + " heads that share a setting take " +
                                     std::to_string(bytes >> 20) +
                                     " MiB together, more than half of the available memory",
                          .remedy = "tune per head, or take fewer heads or a shorter trace"});
}

// What one unit's search found: its heads in order, and its trade-offs.
struct TunedTogether {
  std::vector<TunedHead> heads;
  std::vector<TunedFront> fronts;
};

class Tuner {
 public:
  // `checks`: what is found is tried on their held-out rows; `traces` again where no others are given.
  Tuner(const TuneArguments& arguments, const Traces& traces, const Traces& checks, const HeldOutRows& held_out,
        const std::vector<analysis::HeadId>& heads, const Tuning& tuning, TuningProgress* progress)
      : arguments_(arguments),
        traces_(traces),
        checks_(checks),
        held_out_(held_out),
        ids_(heads),
        tuning_(tuning),
        progress_(progress),
        units_(UnitsOf(heads, tuning.unit)),
        notes_(heads.size()) {
    UseDevice(arguments.device);
    CheckMemory(units_, traces, tuning, heads, arguments.num_threads);
  }

  // The units that are done, in their order: all, unless interrupted. Throws what a search ends with.
  std::vector<TunedTogether> Run() {
    const std::string stage = "tuning " + std::to_string(ids_.size()) + (ids_.size() == 1 ? " head" : " heads");
    std::vector<std::optional<TunedTogether>> tuned;
    kernels::Status status;
    {
      ProgressLine line(arguments_.quiet);
      line.Show(stage, 0, 100, ProgressUnit::kPercent);
      analysis::SweepOptions sweep;
      sweep.num_threads = arguments_.num_threads;
      int64_t bytes = 0;  // of a head in every trace
      for (const auto& trace : traces_) bytes += analysis::LargestHeadBytes(*trace, ids_);
      bytes += MostFrontBytes(tuning_, traces_, 1, arguments_.num_threads);
      // Heads beside each other would time each other.
      const bool timed = tuning_.target.budget.kind == analysis::BudgetTarget::Kind::kTime;
      sweep.most_at_once =
          tuning_.unit == TunedUnit::kHead && !timed ? analysis::HeadsAtOnce(arguments_.device, bytes) : 1;
      sweep.stop = StopOnInterrupt();
      sweep.progress = [&](const analysis::SweepProgress& at) {
        line.Show(stage, at.Percent(), 100, ProgressUnit::kPercent);
      };
      status = analysis::Sweep(
          analysis::SweepAxes{.num_heads = units_.size()}, sweep,
          [&](const analysis::SweepCell& cell, TunedTogether* together) {
            kernels::Status found = Tune(cell, sweep.stop, together);
            if (found.ok()) return found;
            return kernels::Status{found.code(), traces_.front()->path() + ", head " +
                                                     HeadText(ids_[units_[cell.head].front()]) + ", " +
                                                     found.message()};
          },
          &tuned);
    }  // its line ends before anything else is said
    if (status.code() != kernels::StatusCode::kCancelled) CheckStatus(status);
    HeadNotes notes;
    for (const HeadNotes& of_head : notes_) notes.Append(of_head);
    notes.Print();
    std::vector<TunedTogether> done;
    for (std::optional<TunedTogether>& together : tuned) {
      if (together) done.push_back(std::move(*together));
    }
    return done;
  }

 private:
  using Recordings = std::vector<std::vector<analysis::HeadTensorsPtr>>;  // by head, then trace

  // The search of one phase's methods over the heads of a unit; what fails is told with the method's name.
  class Searcher {
   public:
    Searcher(const Tuner& tuner, const Traces& traces, const Recordings& recordings,
             const analysis::BudgetSearchOptions& options) {
      if (tuner.tuning_.methods.front().choice.decode == nullptr) {
        prefill_.emplace(recordings, options);
        return;
      }
      std::vector<analysis::AskedMethod> asked;
      const auto add = [&](const MethodChoice& method) {
        asked.push_back({kernels::UniqueName(*method.spec), method.values});
      };
      for (const Tuning::Searched& method : tuner.tuning_.methods) add(method.choice);
      if (tuner.tuning_.target.limit) add(*tuner.tuning_.target.limit);
      std::vector<std::vector<analysis::MeasuredHeadsPtr>> heads;
      for (const std::vector<analysis::HeadTensorsPtr>& head : recordings) {
        heads.emplace_back();
        for (size_t i = 0; i < head.size(); ++i)
          heads.back().push_back(analysis::WithLayersBelow(*traces[i], analysis::AloneHead(head[i]), asked));
      }
      decode_.emplace(std::move(heads), analysis::DecodeSearchOptions{.search = options});
    }

    kernels::Status Search(const MethodChoice& method, const analysis::BudgetTarget& target,
                           std::vector<analysis::BudgetSearchResult>* results) {
      return Named(method, decode_ ? decode_->Search(*method.decode, method.values, target, results)
                                   : prefill_->Search(*method.prefill, method.values, target, results));
    }
    kernels::Status Measure(const MethodChoice& method, const kernels::ParameterValues& values,
                            const analysis::BudgetTarget& target, std::vector<analysis::BudgetSearchResult>* results) {
      return Named(method, decode_ ? decode_->Measure(*method.decode, values, target, results)
                                   : prefill_->Measure(*method.prefill, values, target, results));
    }
    kernels::Status TradeOff(const MethodChoice& method, int32_t most_points,
                             std::vector<analysis::TradeOffPoint>* points) {
      return Named(method, decode_ ? decode_->TradeOff(*method.decode, method.values, most_points, points)
                                   : prefill_->TradeOff(*method.prefill, method.values, most_points, points));
    }

   private:
    static kernels::Status Named(const MethodChoice& method, const kernels::Status& status) {
      return status.ok() ? status : kernels::Status{status.code(), method.name + ": " + status.message()};
    }

    std::optional<analysis::BudgetSearcher> prefill_;
    std::optional<analysis::DecodeBudgetSearcher> decode_;
  };

  Recordings Load(const std::vector<size_t>& unit, const Traces& traces) {
    Recordings recordings;
    for (const size_t place : unit) {
      recordings.emplace_back();
      for (const auto& trace : traces) {
        recordings.back().push_back(analysis::LoadHead(*trace, ids_[place], arguments_.device));
        notes_[place].Look(*recordings.back().back(), *trace);
      }
    }
    return recordings;
  }

  kernels::Status Tune(const analysis::SweepCell& cell, const std::stop_token& stop, TunedTogether* together) {
    const std::vector<size_t>& unit = units_[cell.head];
    if (const auto* done = progress_ == nullptr ? nullptr : progress_->Find(ids_[unit.front()]);
        done != nullptr && HasHeads(*done, unit)) {
      together->heads = *done;
      return {};
    }
    const Recordings recordings = Load(unit, traces_);
    // Every method has an equal part of the progress, and its trade-off half of that.
    const size_t num_steps = tuning_.methods.size() * (arguments_.front_points > 0 ? 2 : 1);
    size_t step = 0;
    analysis::BudgetSearchOptions options;
    options.num_threads = cell.num_threads;
    options.stop = stop;
    options.judged_rows = held_out_.Judge(/*held_out=*/false);
    options.progress = [&](double share) {
      cell.report((static_cast<double>(step) + share) / static_cast<double>(num_steps));
    };
    options.measure_error = tuning_.criterion == TunedCriterion::kError;
    const bool by_time = tuning_.target.budget.kind == analysis::BudgetTarget::Kind::kTime;
    options.measure_point_times = by_time;
    options.measure_point_errors =
        by_time || options.measure_error || tuning_.target.budget.kind == analysis::BudgetTarget::Kind::kError;
    Searcher searcher(*this, traces_, recordings, options);
    analysis::BudgetTarget target = tuning_.target.budget;
    if (kernels::Status status = Limit(&searcher, &target); !status.ok()) return status;

    std::vector<analysis::BudgetSearchResult> best;
    size_t best_method = 0;
    for (size_t i = 0; i < tuning_.methods.size(); ++i) {
      const MethodChoice& method = tuning_.methods[i].choice;
      std::vector<analysis::BudgetSearchResult> found;
      if (kernels::Status status = searcher.Search(method, target, &found); !status.ok()) return status;
      ++step;
      if (best.empty() || IsBetter(tuning_.target.budget, tuning_.criterion, found, best)) {
        best = std::move(found);
        best_method = i;
      }
      if (arguments_.front_points == 0) continue;
      TunedFront& front = together->fronts.emplace_back();
      for (const size_t place : unit) front.heads.push_back(ids_[place]);
      front.method = i;
      if (kernels::Status status = searcher.TradeOff(method, arguments_.front_points, &front.points); !status.ok())
        return status;
      ++step;
    }
    for (size_t i = 0; i < unit.size(); ++i) {
      TunedHead& head = together->heads.emplace_back();
      head.id = ids_[unit[i]];
      head.method = best_method;
      head.found = std::move(best[i]);
      // Decode methods, and whatever is timed, run on the CPU wherever the head lies.
      head.device = by_time || tuning_.methods.front().choice.decode != nullptr
                        ? NamedCpu()
                        : recordings[i].front()->WhereComputed();
      head.outside_mass = MeanOutside(recordings[i], [&, i](size_t trace) {
        return std::make_shared<const std::vector<double>>(
            analysis::MassInTrace(*recordings[i][trace], options.num_threads, options.stop));
      });
    }
    if (kernels::Status status = Check(unit, options, target, together); !status.ok()) return status;
    if (progress_ != nullptr) progress_->Add(together->heads);
    return {};
  }

  // A unit that was kept may be of other heads with the same first one.
  bool HasHeads(const std::vector<TunedHead>& done, const std::vector<size_t>& unit) const {
    return std::ranges::equal(done, unit, {}, &TunedHead::id, [this](size_t place) { return ids_[place]; });
  }

  // Of a target that is another setting's pairs.
  kernels::Status Limit(Searcher* searcher, analysis::BudgetTarget* target) const {
    if (!tuning_.target.limit) return {};
    const MethodChoice& limit = *tuning_.target.limit;
    target->most = 1;
    std::vector<analysis::BudgetSearchResult> kept;
    if (kernels::Status status = searcher->Measure(limit, limit.values, *target, &kept); !status.ok()) return status;
    double sum = 0;
    const bool work = target->kind == analysis::BudgetTarget::Kind::kWork;
    for (const analysis::BudgetSearchResult& head : kept) sum += work ? head.work_share : head.kept_fraction;
    // Not so exactly that rounding would leave out a setting of the very same pairs.
    target->most = sum / static_cast<double>(kept.size()) * (1 + 1e-12);
    return {};
  }

  kernels::Status Check(const std::vector<size_t>& unit, const analysis::BudgetSearchOptions& options,
                        const analysis::BudgetTarget& target, TunedTogether* together) {
    if (checks_.empty()) return {};
    analysis::BudgetSearchOptions quiet = options;
    quiet.progress = {};
    quiet.judged_rows = held_out_.Judge(/*held_out=*/true);
    const Recordings recordings = Load(unit, checks_);
    for (size_t i = 0; i < unit.size(); ++i) {
      TunedHead& head = together->heads[i];
      const MethodChoice& method = tuning_.methods[head.method].choice;
      Searcher searcher(*this, checks_, {recordings[i]}, quiet);
      std::vector<analysis::BudgetSearchResult> checked;
      if (kernels::Status status = searcher.Measure(method, head.found.values, target, &checked); !status.ok())
        return status;
      head.checked = std::move(checked.front());
    }
    return {};
  }

  const TuneArguments& arguments_;
  const Traces &traces_, &checks_;
  const HeldOutRows& held_out_;
  const std::vector<analysis::HeadId>& ids_;
  const Tuning& tuning_;
  TuningProgress* const progress_;  // null: what is done is not kept
  const std::vector<std::vector<size_t>> units_;
  std::vector<HeadNotes> notes_;  // by head
};

int RunTune(TuneArguments arguments) {
  Tuning tuning;
  tuning.unit = ParseUnit(arguments.per);
  TuningFormat format = TuningFormat::kJson;
  if (!arguments.output.empty()) {
    try {
      format = ChooseTuningFormat(arguments.format, arguments.output);
    } catch (Error& error) {
      if (arguments.format.empty()) error.AddRemedy("or give --format");
      throw;
    }
    std::vector<std::string> inputs = arguments.traces;
    inputs.insert(inputs.end(), arguments.checks.begin(), arguments.checks.end());
    CheckOutputTarget(arguments.output, arguments.force, inputs);
  } else if (!arguments.format.empty()) {
    throw UsageError("--format is for a file; name one with -o");
  }
  if (arguments.resume && (arguments.output.empty() || arguments.front_points > 0 || format == TuningFormat::kLuKv))
    throw UsageError("--resume saves finished heads beside the output; give -o, and neither --front nor lu-kv");
  if (format == TuningFormat::kLuKv && arguments.front_points == 0) arguments.front_points = kLuKvPoints;
  if (arguments.front_points > 0 && !arguments.output.empty() && format != TuningFormat::kJson &&
      format != TuningFormat::kLuKv)
    throw UsageError("--front: only the table and JSON files hold trade-offs; write .json");
  tuning.target = ParseTarget(arguments.target);
  for (const std::string& text : arguments.methods)
    tuning.methods.push_back({ParseSearchableMethod(text, tuning.target), {}});
  tuning.criterion = CriterionOf(ParseCriterion(arguments.choose), tuning.target.budget, tuning.methods.size());
  CheckPhases(tuning, arguments);
  const std::vector<LengthRange> ranges = RangesBetween(arguments.ranges, "--ranges");
  if (!arguments.ranges.empty()) CheckRangeFormat(format);
  Traces traces = OpenTraces(arguments.traces, {}), checks = OpenTraces(arguments.checks, traces);
  const HeldOutRows held_out(arguments.check_rows);
  CheckHeldOut(held_out, tuning, traces, checks);
  const std::vector<analysis::HeadId> heads = ChooseHeads(arguments.heads, traces, checks);
  for (const auto& trace : traces) CheckMethodsRun(*trace, heads);
  const data::TraceLayout& layout = traces.front()->layout();
  tuning.model = layout.model;
  for (size_t slot = 0; slot < layout.layers.size(); ++slot)
    tuning.layers.push_back({layout.layers[slot], layout.facts[slot].num_qo_heads, layout.facts[slot].num_kv_heads});
  tuning.num_heads_chosen = heads.size();
  const auto parts =
      ByLength(ranges, std::move(traces), std::move(checks),
               [](const std::unique_ptr<data::TraceReader>& trace) -> const data::TraceReader& { return *trace; });
  for (const auto& part : parts) {
    if (part.traces.empty())
      throw UsageError("--check " + part.checks.front()->path() + ": no trace of its range of lengths, " +
                       RangeText(part.range) + ", is tuned on; give one");
  }

  std::vector<Tuning> tunings;
  std::vector<std::unique_ptr<TuningProgress>> kept;
  for (const auto& part : parts) {
    Tuning& one = tunings.emplace_back(tuning);
    one.range = part.range;
    one.traces = SourcesOf(part.traces);
    one.checks = SourcesOf(ChecksOf(part, held_out));
    one.held_out_rows = arguments.check_rows;
    for (Tuning::Searched& method : one.methods)
      method.grid = analysis::SearchedGrid(*method.choice.spec, LongestOf(part.traces));
    CheckTuningFormat(format, one, heads);
  }
  if (arguments.resume) {
    for (const Tuning& one : tunings) {
      // Of each range a file of its own.
      const std::string ending = arguments.ranges.empty() ? "" : "." + std::to_string(one.range.from);
      kept.push_back(std::make_unique<TuningProgress>(arguments.output + ending, one));
      if (const TuningProgress& progress = *kept.back(); progress.num_heads() > 0) {
        Say("continuing with " + progress.path() + ", in which " + std::to_string(progress.num_heads()) +
            (progress.num_heads() == 1 ? " head is done" : " heads are done"));
      }
    }
  }
  bool complete = true;
  for (size_t i = 0; i < tunings.size() && complete; ++i) {
    Tuner tuner(arguments, parts[i].traces, ChecksOf(parts[i], held_out), held_out, heads, tunings[i],
                kept.empty() ? nullptr : kept[i].get());
    for (TunedTogether& together : tuner.Run()) {
      std::ranges::move(together.heads, std::back_inserter(tunings[i].heads));
      std::ranges::move(together.fronts, std::back_inserter(tunings[i].fronts));
    }
    complete = tunings[i].complete();
  }
  if (!tunings.front().heads.empty()) WriteTunings(tunings, complete, arguments, format);
  if (complete) {
    for (const auto& progress : kept) progress->Remove();
  }
  return complete ? kDone : kInterrupted;
}

// ".json (what it holds), ..": the extensions, each with the format that it means unless another one is named.
std::string FormatsByExtension() {
  std::vector<FileFormat> files;
  std::string text;
  for (const TuningFormatInfo& format : TuningFormats()) {
    if (std::ranges::find(files, format.file) != files.end()) continue;
    files.push_back(format.file);
    text.append(text.empty() ? "" : ", ").append(ExtensionOf(format.file)).append(" (").append(format.help).append(")");
  }
  return text;
}

std::string FormatsByName() {
  return Listed(TuningFormats(), [](const TuningFormatInfo& format) {
    return std::string(format.name) + " (" + std::string(ExtensionOf(format.file)) + ", " + format.help + ")";
  });
}

}  // namespace

void AddTuneCommand(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "tune", "Find the cheapest methods and parameters that keep a target share of each head's attention mass");
  auto arguments = std::make_shared<TuneArguments>();
  command
      ->add_option(
          "traces", arguments->traces,
          "Traces of one model; with several, a head's setting must reach the target over the rows of all of them")
      ->required()
      ->type_name("TRACE");
  AddMethodsOption(command, &arguments->methods,
                   "Prefill method, or decode method, which runs on the last 16 recorded rows, one step each. Its "
                   "budgets are searched; k=v sets the other parameters (with work=.., also the budgets to start "
                   "from). With several methods, each head (see --per) gets the cheapest")
      ->required();
  command
      ->add_option("--target", arguments->target,
                   "Share of the attention mass, from 0 to 1, that a head must keep: cra=T in every row "
                   "(SampleAttention's CRA), cra-p5=T in more than 95 % of the rows (the window's Meet target), "
                   "cra-mean=T or recall=T (MInference's term) on average. Or the largest relative error of the "
                   "output: error=E. Or the most mass within a limit: kept=F for a share of the pairs, "
                   "kept=METHOD:k=v,.. for the pairs of that setting, time=F for a share of dense attention's time, "
                   "selection included, measured on the CPU. Or MInference's search, which starts from the budgets in "
                   "--method and goes by their steps up to as much kernel work, in tiles: work=METHOD:k=v,.. or work=F")
      ->required()
      ->type_name("cra|cra-p5|cra-mean|recall|error|kept|work|time=T");
  command
      ->add_option("--per", arguments->per,
                   "What gets its own setting; heads that share one must each reach the target")
      ->capture_default_str()
      ->type_name("head|layer|model");
  command
      ->add_option("--choose", arguments->choose,
                   "How to choose between methods with kept=F or work=F: the least output error (MInference's paper; "
                   "the default there), or the most mass (its published code)")
      ->type_name("mass|error");
  command
      ->add_option("--check", arguments->checks,
                   "Held-out trace: not tuned on, only used to report what the settings keep there")
      ->type_name("TRACE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      ->add_option(
          "--check-rows", arguments->check_rows,
          "Held-out rows: last:N, every:N, random:N, random:N:SEED or ranges such as 0:16,100:200. Settings are "
          "found on the other rows, and the report says what they keep on these (with --check, on these rows of "
          "the held-out traces). Methods still run on the whole prompt")
      ->type_name("ROWS");
  LimitIntegers(command->add_option("--front", arguments->front_points,
                                    "Also report this many settings along each method's trade-off between pairs and "
                                    "mass"),
                0, 1000)
      ->type_name("N");
  command
      ->add_option(
          "--ranges", arguments->ranges,
          "Lengths at which a range of prompt lengths ends and the next begins, in tokens or, as 16K, in units "
          "of 1024: each range is tuned on the traces whose prompts fall into it, and compare --config takes "
          "the range of its trace. SampleAttention: 16K,48K,80K,112K")
      ->delimiter(',')
      ->type_name("N,..");
  AddRecordedHeadsOption(command, &arguments->heads);
  AddOutputOptions(
      command, &arguments->output, &arguments->force,
      "Write the configuration, by the file's extension: " + FormatsByExtension() + "; without it a table is printed");
  command
      ->add_option("--format", arguments->format,
                   "What to write, where the extension does not say it: " + FormatsByName())
      ->type_name("NAME");
  command->add_flag("--resume", arguments->resume,
                    "Save finished heads in OUT.unfinished, and continue from there when the same command runs again");
  AddDeviceOption(command, &arguments->device, "a GPU takes heads recorded in bf16 or fp16");
  AddThreadsOption(command, &arguments->num_threads);
  AddQuietOption(command, &arguments->quiet);
  command->footer(
      "Each head gets the cheapest setting of a grid: of all that reach the target, the one with the fewest kept "
      "pairs; among equals, the smallest first budget, then the smallest second. A budget's grid is its minimum, the "
      "multiples of a step, and its maximum. Integer budgets end where they cover the longest trace. Their step is the "
      "registry's (`headscope methods NAME --json`: 50 lines, 64 tokens, 1 block); shorter traces use its largest "
      "divisor that gives at least 64 steps. With two budgets, the step doubles while one has more than 800 "
      "steps. Shares of mass go in steps of 0.01. The grid is printed, and is in the file as \"grid\".\n"
      "Kept shares are of the pairs that the model itself attends to; budgets are in the method's own units "
      "(`headscope "
      "methods NAME`).\nCtrl-C writes no file (--resume keeps one to continue from); it prints the heads that are done "
      "and exits with 130.");
  command->callback([=, &action] { action = [=] { return RunTune(*arguments); }; });
}

}  // namespace headscope::app
