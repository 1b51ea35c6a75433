// SPDX-License-Identifier: Apache-2.0
// headscope tune TRACE.. --method NAME[:k=v,..].. --target cra=T|error=E|kept=F|time=F [--per head|layer|model]
// [--check TRACE].. [--check-rows ROWS] [--ranges N,..] [--heads L:H,..] [--decode-rows N] [--group]
// [-o CONFIG.json|.csv|.tsv|.npy]
#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>

#include "analysis/measured_heads.h"
#include "analysis/search.h"
#include "analysis/sweep.h"
#include "base/check_status.h"
#include "base/device.h"
#include "base/errors.h"
#include "base/file_format.h"
#include "base/quoted_text.h"
#include "choices/device_choice.h"
#include "choices/head_results.h"
#include "choices/head_selection.h"
#include "choices/held_out_rows.h"
#include "choices/method_choice.h"
#include "choices/tuning.h"
#include "choices/tuning_files.h"
#include "choices/tuning_traces.h"
#include "choices/unit_search.h"
#include "commands/command.h"
#include "commands/common_options.h"
#include "commands/head_notes.h"
#include "commands/tuning_progress.h"
#include "data/row_positions.h"
#include "data/trace_reader.h"
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
constexpr auto kReaderOf = [](const std::unique_ptr<data::TraceReader>& trace) -> const data::TraceReader& {
  return *trace;
};

struct TuneArguments {
  std::vector<std::string> traces, checks, methods, ranges;
  std::string target, heads, output, format, per = "head", choose, check_rows;
  int32_t front_points = 0;
  Device device = kCpu;
  int32_t num_threads = 0;
  std::optional<int32_t> decode_rows;
  bool group = false, force = false, quiet = false, resume = false;
};

// Under a target for the work budgets are where the search starts.
MethodChoice ParseSearchableMethod(const std::string& text, const TuneTarget& target) {
  MethodChoice choice = ParseMethod(text);
  CheckStatus(analysis::CheckSearchable(*choice.spec));  // which names the method
  if (target.budget.kind == analysis::BudgetTarget::Kind::kWork) return choice;
  const size_t colon = text.find(':');
  const std::string given = colon == std::string::npos ? "" : "," + text.substr(colon + 1);
  for (const kernels::ParameterSpec* budget : analysis::Budgets(*choice.spec)) {
    if (given.find("," + budget->name + "=") == std::string::npos) continue;
    throw UsageError({.field = "method",
                      .value = text,
                      .problem = budget->name + " is a budget, which tune searches",
                      .remedy = "leave it out, or measure that setting with `headscope compare`"});
  }
  return choice;
}

// Decode methods run on other rows than prefill methods, and a limit that is another setting's pairs has to be of
// these.
void CheckPhases(const Tuning& tuning, const TuneArguments& arguments) {
  const auto is_decode = [](const Tuning::Searched& method) { return method.choice.decode != nullptr; };
  const bool decode = is_decode(tuning.methods.front());
  if (!std::ranges::all_of(tuning.methods, [&](const Tuning::Searched& method) { return is_decode(method) == decode; }))
    throw UsageError({.field = "method",
                      .problem = "prefill and decode methods run on different rows",
                      .remedy = "tune them separately"});
  if (decode && tuning.target.budget.kind == analysis::BudgetTarget::Kind::kWork)
    throw UsageError({.field = "target",
                      .value = arguments.target,
                      .problem = "work is counted in the tiles of a prefill kernel, and " +
                                 tuning.methods.front().choice.name + " is a decode method",
                      .remedy = "give kept=.."});
  if (!tuning.target.limit || (tuning.target.limit->decode != nullptr) == decode) return;
  throw UsageError({.field = "target",
                    .value = arguments.target,
                    .problem = tuning.target.limit->name + " is a " + (decode ? "prefill" : "decode") +
                               " method, and " + tuning.methods.front().choice.name + " a " +
                               (decode ? "decode" : "prefill") + " method, which runs on different rows",
                    .remedy = "give a setting of the same kind, or a share"});
}

TunedUnit ParseUnit(const std::string& text) {
  for (const TunedUnit unit : {TunedUnit::kHead, TunedUnit::kLayer, TunedUnit::kModel}) {
    if (text == NameOf(unit)) return unit;
  }
  throw UsageError({.field = "per", .value = Quoted(text), .problem = "choose head, layer or model"});
}

// `others`: traces that are open already, of the same model and other recordings.
Traces OpenTraces(const std::vector<std::string>& paths, const Traces& others) {
  Traces traces;
  for (const std::string& path : paths) {
    if (LeadsToOneOf(path, traces, kReaderOf))
      throw UsageError({.file = path,
                        .problem = "it is given twice, and its rows would count double",
                        .remedy = "give each trace once"});
    if (LeadsToOneOf(path, others, kReaderOf))
      throw UsageError({.field = "check",
                        .value = path,
                        .problem = "it is a trace to tune on, and would agree with itself",
                        .remedy = "give another one"});
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
      if (const std::optional<analysis::HeadId> missing = HeadNotRecorded(*trace, heads))
        throw UsageError({.file = trace->path(),
                          .field = "head",
                          .value = HeadText(*missing),
                          .problem = "it was not recorded there, and " + traces.front()->path() + " has it",
                          .remedy = "give --heads that every trace has"});
    }
  }
  return heads;
}

RangeOfTraces<const data::TraceReader*> ReadersOf(const RangeOfTraces<std::unique_ptr<data::TraceReader>>& part) {
  RangeOfTraces<const data::TraceReader*> readers;
  readers.range = part.range;
  for (const auto& trace : part.traces) readers.traces.push_back(trace.get());
  for (const auto& trace : part.checks) readers.checks.push_back(trace.get());
  return readers;
}

// Rows that are held out must be some of every trace's, and of those that methods are tuned on.
void CheckHeldOut(const HeldOutRows& held_out, const Tuning& tuning, const Traces& traces, const Traces& checks) {
  if (!held_out.any()) return;
  if (tuning.methods.front().choice.decode != nullptr)
    throw UsageError(
        {.field = "check-rows",
         .problem = tuning.methods.front().choice.name + " is a decode method, whose steps are the last recorded rows",
         .remedy = "hold out a trace with --check"});
  for (const Traces* const some : {&traces, &checks}) {
    for (const auto& trace : *some) held_out.CheckTrace(*trace);
  }
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
    if (const auto beside = FileBesideTuning(format, arguments.output))
      WriteText(beside->text, beside->path, /*force=*/false);
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

// Reads heads from the file, and looks at each for what is to be said of it.
class LookedAtTrace : public TunedTrace {
 public:
  LookedAtTrace(const data::TraceReader* reader, std::map<analysis::HeadId, HeadNotes>* notes)
      : TunedTrace(reader), notes_(notes) {}

  analysis::HeadTensorsPtr Load(analysis::HeadId head, const Device& device) override {
    analysis::HeadTensorsPtr tensors = TunedTrace::Load(head, device);
    notes_->at(head).Look(*tensors, reader());
    return tensors;
  }

 private:
  std::map<analysis::HeadId, HeadNotes>* const notes_;
};

class Tuner {
 public:
  // `checks`: what is found is tried on these; `traces` again where rows of theirs alone are held out.
  Tuner(const TuneArguments& arguments, const Traces& traces, const Traces& checks,
        const std::vector<analysis::HeadId>& heads, const Tuning& tuning, TuningProgress* progress)
      : arguments_(arguments),
        ids_(heads),
        tuning_(tuning),
        progress_(progress),
        units_(UnitsOf(heads, tuning.unit)),
        traces_(LookAt(traces)),
        checks_(LookAt(checks)) {
    UseDevice(arguments.device);
    for (const analysis::HeadId& head : heads) notes_[head];
    for (const auto& unit : units_) CheckUnitMemory(tuning, traces_, unit, arguments.num_threads);
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
      // Heads beside each other would time each other.
      const bool timed = tuning_.target.budget.kind == analysis::BudgetTarget::Kind::kTime;
      sweep.most_at_once = tuning_.unit == TunedUnit::kHead && !timed
                               ? analysis::HeadsAtOnce(arguments_.device, SearchedHeadBytes(tuning_, traces_, ids_,
                                                                                            arguments_.num_threads))
                               : 1;
      sweep.stop = StopOnInterrupt();
      sweep.progress = [&](const analysis::SweepProgress& at) {
        line.Show(stage, at.Percent(), 100, ProgressUnit::kPercent);
      };
      status = analysis::Sweep(
          analysis::SweepAxes{.num_heads = units_.size()}, sweep,
          [&](const analysis::SweepCell& cell, TunedTogether* together) {
            kernels::Status found = Tune(cell, sweep.stop, together);
            if (found.ok()) return found;
            return kernels::Status{found.code(), traces_.front()->reader().path() + ", head " +
                                                     HeadText(units_[cell.head].front()) + ", " + found.message()};
          },
          &tuned);
    }  // its line ends before anything else is said
    if (status.code() != kernels::StatusCode::kCancelled) CheckStatus(status);
    HeadNotes notes;
    for (const auto& [head, of_head] : notes_) notes.Append(of_head);
    notes.Print();
    std::vector<TunedTogether> done;
    for (std::optional<TunedTogether>& together : tuned) {
      if (together) done.push_back(std::move(*together));
    }
    SayPassedOver(done);
    return done;
  }

 private:
  TunedTraces LookAt(const Traces& traces) {
    TunedTraces looked_at;
    for (const auto& trace : traces)
      looked_at.push_back(opened_.emplace_back(std::make_unique<LookedAtTrace>(trace.get(), &notes_)).get());
    return looked_at;
  }

  kernels::Status Tune(const analysis::SweepCell& cell, const std::stop_token& stop, TunedTogether* together) {
    const std::vector<analysis::HeadId>& unit = units_[cell.head];
    // A unit that was kept may be of other heads with the same first one.
    if (const auto* done = progress_ == nullptr ? nullptr : progress_->Find(unit.front());
        done != nullptr && std::ranges::equal(*done, unit, {}, &TunedHead::id)) {
      together->heads = *done;
      return {};
    }
    const UnitSearchOptions options{.device = arguments_.device,
                                    .front_points = arguments_.front_points,
                                    .num_threads = cell.num_threads,
                                    .stop = stop,
                                    .report = cell.report};
    if (kernels::Status status = TuneUnit(tuning_, traces_, checks_, unit, options, together); !status.ok())
      return status;
    if (progress_ != nullptr) progress_->Add(together->heads);
    return {};
  }

  static void SayPassedOver(const std::vector<TunedTogether>& done) {
    size_t count = 0;
    const TunedTogether* first = nullptr;
    for (const TunedTogether& together : done) {
      if (together.passed_over.empty()) continue;
      count += together.heads.size();
      if (first == nullptr) first = &together;
    }
    if (first == nullptr) return;
    Say(std::to_string(count) + (count == 1 ? " head" : " heads") + " had to do without one of the methods; head " +
        HeadText(first->heads.front().id) + ": " + first->passed_over.front());
  }

  const TuneArguments& arguments_;
  const std::vector<analysis::HeadId>& ids_;
  const Tuning& tuning_;
  TuningProgress* const progress_;  // null: what is done is not kept
  const std::vector<std::vector<analysis::HeadId>> units_;
  std::map<analysis::HeadId, HeadNotes> notes_;  // of every head; each is searched by one cell
  std::vector<std::unique_ptr<LookedAtTrace>> opened_;
  const TunedTraces traces_, checks_;
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
    FileBesideTuning(format, arguments.output);
  } else if (!arguments.format.empty()) {
    throw UsageError({.field = "format", .problem = "it is for a file", .remedy = "name one with -o"});
  }
  if (arguments.resume && (arguments.output.empty() || arguments.front_points > 0 || format == TuningFormat::kLuKv))
    throw UsageError({.field = "resume",
                      .problem = "it saves finished heads beside the output",
                      .remedy = "give -o, and neither --front nor lu-kv"});
  if (format == TuningFormat::kLuKv && arguments.front_points == 0) arguments.front_points = kLuKvPoints;
  if (arguments.front_points > 0 && !arguments.output.empty() && format != TuningFormat::kJson &&
      format != TuningFormat::kLuKv)
    throw UsageError(
        {.field = "front", .problem = "only the table and JSON files hold trade-offs", .remedy = "write .json"});
  tuning.target = ParseTarget(arguments.target);
  for (const std::string& text : arguments.methods)
    tuning.methods.push_back({ParseSearchableMethod(text, tuning.target), {}});
  tuning.criterion = CriterionOf(ParseCriterion(arguments.choose), tuning.target.budget, tuning.methods.size());
  CheckPhases(tuning, arguments);
  if (arguments.decode_rows && !tuning.is_decode())
    throw UsageError(
        {.field = "decode-rows",
         .problem = tuning.methods.front().choice.name + " is a prefill method, which runs on all recorded rows",
         .remedy = "leave it out"});
  tuning.decode_rows = arguments.decode_rows.value_or(tuning.decode_rows);
  tuning.in_group = arguments.group;
  CheckGroup(tuning);
  const std::vector<LengthRange> ranges = RangesBetween(arguments.ranges, "ranges");
  if (!arguments.ranges.empty()) CheckRangeFormat(format);
  Traces traces = OpenTraces(arguments.traces, {}), checks = OpenTraces(arguments.checks, traces);
  const HeldOutRows held_out(arguments.check_rows);
  CheckHeldOut(held_out, tuning, traces, checks);
  std::vector<analysis::HeadId> heads = ChooseHeads(arguments.heads, traces, checks);
  std::string left_out;
  if (arguments.heads.empty() && !tuning.is_decode()) left_out = LeaveOutChunked(*traces.front(), &heads);
  for (const auto& trace : traces) {
    CheckMethodsRun(*trace, heads);
    CheckMethodsAreOfModel(tuning, *trace);
  }
  tuning.held_out_rows = arguments.check_rows;
  tuning.num_heads_chosen = heads.size();
  const auto parts = ByLength(ranges, std::move(traces), std::move(checks), kReaderOf);
  for (const auto& part : parts) {
    if (part.traces.empty())
      throw UsageError({.field = "check",
                        .value = part.checks.front()->path(),
                        .problem = "no trace of its range of lengths, " + RangeText(part.range) + ", is tuned on",
                        .remedy = "give one"});
  }

  std::vector<Tuning> tunings;
  std::vector<std::unique_ptr<TuningProgress>> kept;
  for (const auto& part : parts) {
    Tuning& one = tunings.emplace_back(tuning);
    DescribeTraces(ReadersOf(part), &one);
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
    Tuner tuner(arguments, parts[i].traces, parts[i].TriedOn(held_out.any()), heads, tunings[i],
                kept.empty() ? nullptr : kept[i].get());
    for (TunedTogether& together : tuner.Run()) {
      std::ranges::move(together.heads, std::back_inserter(tunings[i].heads));
      std::ranges::move(together.fronts, std::back_inserter(tunings[i].fronts));
    }
    complete = tunings[i].complete();
  }
  if (!left_out.empty()) Say(left_out);
  for (const Tuning::Searched& method : tuning.methods) {
    if (const std::string note = NoteOfMethod(tuning, method.choice, *ReadersOf(parts.front()).traces.front());
        !note.empty())
      Say(note);
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
  AddMethodsOption(
      command, &arguments->methods,
      "Prefill method, or decode method, which runs on the last recorded rows, one step each (--decode-rows). Its "
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
  AddDecodeRowsOption(command, &arguments->decode_rows, "(" + std::to_string(Tuning().decode_rows) + ")")
      ->type_name("N");
  command->add_flag("--group", arguments->group,
                    "Search a head of a decode method in its group, as it runs in a model: the query heads of a KV "
                    "head share one selection. For targets of the mass, per head; without it each head is by itself");
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
