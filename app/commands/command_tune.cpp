// SPDX-License-Identifier: Apache-2.0
// headscope tune TRACE.. --method NAME[:k=v,..] --target cra=T [--heads L:H,..] [-o CONFIG.json|.csv]
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>

#include "analysis/outside_mass.h"
#include "analysis/search.h"
#include "analysis/sweep.h"
#include "base/check_status.h"
#include "base/device.h"
#include "base/errors.h"
#include "commands/command.h"
#include "commands/common_options.h"
#include "commands/device_choice.h"
#include "commands/head_notes.h"
#include "commands/head_results.h"
#include "commands/head_selection.h"
#include "commands/method_choice.h"
#include "commands/tuning.h"
#include "data/row_positions.h"
#include "data/trace_reader.h"
#include "support/exit_codes.h"
#include "support/interrupt.h"
#include "support/messages.h"
#include "support/output_file.h"
#include "support/progress_line.h"

namespace headscope::app {
namespace {

using Traces = std::vector<std::unique_ptr<data::TraceReader>>;

struct TuneArguments {
  std::vector<std::string> traces;
  std::string method, target, heads, output;
  Device device = kCpu;
  int32_t num_threads = 0;
  bool force = false, quiet = false;
};

MethodChoice ParseSearchableMethod(const std::string& text) {
  MethodChoice choice = ParseMethod(text);
  if (choice.prefill == nullptr) {
    throw UsageError("--method " + text +
                     " is a decode method, and targets are searched for prefill methods; choose one of those "
                     "(`headscope methods` lists them)");
  }
  CheckStatus(analysis::CheckSearchable(*choice.spec), "--method " + text);
  const size_t colon = text.find(':');
  const std::string given = colon == std::string::npos ? "" : "," + text.substr(colon + 1);
  for (const kernels::ParameterSpec* budget : analysis::Budgets(*choice.spec)) {
    if (given.find("," + budget->name + "=") == std::string::npos) continue;
    throw UsageError("--method " + text + ": " + budget->name +
                     " is a budget, which tune searches; leave it out, or measure that setting with headscope compare");
  }
  return choice;
}

void CheckOutput(const TuneArguments& arguments) {
  if (arguments.output.empty()) return;
  const std::string extension = Extension(arguments.output);
  if (extension != "json" && extension != "csv")
    throw UsageError(OutputFault(arguments.output, "the extension must be .json or .csv"));
  CheckOutputTarget(arguments.output, arguments.force, arguments.traces);
}

// One setting for several prompts is a setting of one model: refuses traces of others.
void CheckSameModel(const data::TraceReader& trace, const data::TraceReader& first) {
  const data::ModelInfo &model = trace.layout().model, &expected = first.layout().model;
  if (model.weights_sha256 == expected.weights_sha256 && model.num_layers == expected.num_layers &&
      model.num_qo_heads == expected.num_qo_heads && model.head_dim == expected.head_dim)
    return;
  throw UsageError(trace.path() + " was captured from another model (" + model.name + ") than " + first.path() + " (" +
                   expected.name + "); tune them apart");
}

Traces OpenTraces(const std::vector<std::string>& paths) {
  Traces traces;
  for (const std::string& path : paths) {
    for (const auto& trace : traces) {
      std::error_code missing;
      if (std::filesystem::equivalent(path, trace->path(), missing))
        throw UsageError(path + " is given twice, and its rows would count double; give each trace once");
    }
    traces.push_back(std::make_unique<data::TraceReader>(path));
    CheckQueryRows(*traces.back());
    if (!data::RowsContiguous(traces.back()->row_positions()))
      throw BadInputError(
          {.file = path, .problem = "its query rows have gaps", .remedy = "capture with --rows all or --rows last:N"});
    CheckSameModel(*traces.back(), *traces.front());
  }
  return traces;
}

// The chosen heads, which every trace must have.
std::vector<analysis::HeadId> ChooseHeads(const std::string& text, const Traces& traces) {
  std::vector<analysis::HeadId> heads = ParseHeads(text, analysis::RecordedHeads(*traces.front()));
  for (const auto& trace : traces) {
    const std::vector<analysis::HeadId> recorded = analysis::RecordedHeads(*trace);
    for (const analysis::HeadId& head : heads) {
      if (std::find(recorded.begin(), recorded.end(), head) != recorded.end()) continue;
      throw UsageError(trace->path() + ": head " + HeadText(head) + " was not recorded there, and " +
                       traces.front()->path() + " has it; give --heads that every trace has");
    }
  }
  return heads;
}

Tuning Describe(const TuneArguments& arguments, const Traces& traces) {
  Tuning tuning;
  tuning.model = traces.front()->layout().model;
  for (const auto& trace : traces)
    tuning.traces.push_back({trace->path(), trace->layout().prompt_source, trace->num_tokens(), trace->num_rows(),
                             trace->layout().first_token});
  tuning.target_text = arguments.target;
  return tuning;
}

int64_t LongestOf(const Traces& traces) {
  int64_t longest = 0;
  for (const auto& trace : traces) longest = std::max(longest, trace->num_tokens());
  return longest;
}

// A file holds every chosen head or is not there; of a run that was interrupted, the heads that are done are printed.
void WriteTuning(const Tuning& tuning, const TuneArguments& arguments) {
  if (arguments.output.empty() || !tuning.complete()) {
    WriteText(TuningTable(tuning), "", false);
  } else {
    const bool json = Extension(arguments.output) == "json";
    WriteText(json ? TuningJson(tuning) : TuningCsv(tuning), arguments.output, arguments.force);
  }
  std::string summary = TuningSummary(tuning);
  if (!arguments.output.empty() && !tuning.complete()) summary += "; " + arguments.output + " is not written";
  Say(summary);
}

// Over the rows of all recordings together.
double MeanOutside(const std::vector<analysis::HeadTensorsPtr>& recordings, int32_t num_threads) {
  double sum = 0;
  int64_t rows = 0;
  for (const analysis::HeadTensorsPtr& recording : recordings) {
    sum +=
        analysis::SumOfOutsideMass(*recording, analysis::MassInTrace(*recording, num_threads), 0, recording->num_rows);
    rows += recording->num_rows;
  }
  return rows == 0 ? 0 : sum / static_cast<double>(rows);
}

// The heads that are done, in their order: all, unless interrupted. Throws what a head's search ends with.
std::vector<TunedHead> TuneHeads(const std::vector<analysis::HeadId>& heads, const Traces& traces,
                                 const TuneArguments& arguments, const MethodChoice& method,
                                 const analysis::BudgetTarget& target) {
  const analysis::HeadPlace place = UseDeviceForHeads(arguments.device);
  const std::string stage = "tuning " + std::to_string(heads.size()) + (heads.size() == 1 ? " head" : " heads");
  std::vector<HeadNotes> of_heads(heads.size());
  std::vector<std::optional<TunedHead>> tuned;
  kernels::Status status;
  {
    ProgressLine line(arguments.quiet);
    line.Show(stage, 0, 100, "%");
    analysis::SweepOptions sweep;
    sweep.num_threads = arguments.num_threads;
    sweep.most_at_once = analysis::HeadsAtOnce(place);
    sweep.stop = StopOnInterrupt();
    sweep.progress = [&](const analysis::SweepProgress& at) { line.Show(stage, at.Percent(), 100, "%"); };
    const auto search = [&](const analysis::SweepCell& cell, TunedHead* head) {
      const analysis::HeadId id = heads[cell.head];
      std::vector<analysis::HeadTensorsPtr> recordings;
      for (const auto& trace : traces) {
        recordings.push_back(analysis::LoadHead(*trace, id, place));
        of_heads[cell.head].Look(*recordings.back(), *trace);
      }
      analysis::BudgetSearchOptions options;
      options.num_threads = cell.num_threads;
      options.stop = sweep.stop;
      options.progress = cell.report;
      head->id = id;
      head->device = recordings.front()->DeviceName();
      head->outside_mass = MeanOutside(recordings, options.num_threads);
      const kernels::Status found =
          analysis::SearchBudget(recordings, *method.prefill, method.values, target, options, &head->found);
      if (found.ok()) return found;
      return kernels::Status{found.code(), arguments.traces.front() + ", head " + HeadText(id) + ", " + method.name +
                                               ": " + found.message()};
    };
    status = analysis::Sweep(analysis::SweepAxes{.num_heads = heads.size()}, sweep, search, &tuned);
  }  // its line ends before anything else is said
  if (status.code() != kernels::StatusCode::kCancelled) CheckStatus(status);
  HeadNotes notes;
  for (const HeadNotes& of_head : of_heads) notes.Append(of_head);
  notes.Print();
  std::vector<TunedHead> done;
  for (std::optional<TunedHead>& head : tuned) {
    if (head) done.push_back(std::move(*head));
  }
  return done;
}

int RunTune(const TuneArguments& arguments) {
  CheckOutput(arguments);
  const MethodChoice method = ParseSearchableMethod(arguments.method);
  const analysis::BudgetTarget target = ParseTarget(arguments.target);
  const Traces traces = OpenTraces(arguments.traces);
  const std::vector<analysis::HeadId> heads = ChooseHeads(arguments.heads, traces);
  for (const auto& trace : traces) CheckMethodsRun(*trace, heads);
  Tuning tuning = Describe(arguments, traces);
  tuning.method = method;
  tuning.target = target;
  tuning.grid = analysis::SearchedGrid(*method.spec, LongestOf(traces));
  tuning.num_heads_chosen = heads.size();

  tuning.heads = TuneHeads(heads, traces, arguments, method, target);
  if (!tuning.heads.empty()) WriteTuning(tuning, arguments);
  return tuning.complete() ? kDone : kInterrupted;
}

}  // namespace

void AddTuneCommand(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "tune", "Find each head's cheapest parameters of a method that keep a target share of the attention mass");
  auto arguments = std::make_shared<TuneArguments>();
  command
      ->add_option("traces", arguments->traces,
                   "Traces of one model; of several, a head's setting holds for the rows of all of them together")
      ->required()
      ->type_name("TRACE");
  command
      ->add_option("--method", arguments->method,
                   "Prefill method; its budgets are searched, and k=v sets the other parameters")
      ->required()
      ->type_name("NAME[:k=v,..]");
  command
      ->add_option("--target", arguments->target,
                   "Share of the attention mass, from 0 to 1, that a head must keep: cra=T in every row "
                   "(SampleAttention's CRA), "
                   "cra-p5=T in more than 95 % of the rows (the window's Meet target), cra-mean=T on average")
      ->required()
      ->type_name("cra|cra-p5|cra-mean=T");
  AddRecordedHeadsOption(command, &arguments->heads);
  AddOutputOptions(
      command, &arguments->output, &arguments->force,
      "Write the configuration to .json (schema headscope-tuning-1) or .csv; without it a table is printed");
  AddDeviceOption(command, &arguments->device, "a GPU takes heads recorded in bf16 or fp16");
  AddThreadsOption(command, &arguments->num_threads);
  AddQuietOption(command, &arguments->quiet);
  command->footer(
      "Each head gets the cheapest setting of a grid: of all that reach the target, the one with the fewest kept "
      "pairs; of equal ones, the smallest first budget, then the smallest second. A budget's grid is its minimum, the "
      "multiples of a step, and its maximum. Integer budgets end where they cover the longest trace. Their step is the "
      "registry's (`headscope methods NAME --json`: 50 lines, 64 tokens, 1 block); for shorter traces its largest "
      "divisor that gives at least 64 steps; and twice that while a method with two budgets has more than 800. Shares "
      "of mass go in hundredths. The grid is printed, and stands in the file as \"grid\".\n"
      "Kept shares are of the pairs that the model itself attends to; budgets are in the method's own units "
      "(`headscope "
      "methods NAME`).\nCtrl-C writes no file: it prints the heads that are done and exits with 130.");
  command->callback([=, &action] { action = [=] { return RunTune(*arguments); }; });
}

}  // namespace headscope::app
