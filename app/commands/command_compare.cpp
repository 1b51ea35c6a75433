// SPDX-License-Identifier: Apache-2.0
// headscope compare TRACE --method NAME[:k=v,..] [--method ..] [--heads ..] [--measure layer|head] [--repeat N]
// [--decode-rows N] [--device ..] [-o OUT.json|.csv|.h5]
#include <algorithm>
#include <memory>

#include "analysis/head_sweeps.h"
#include "base/check_status.h"
#include "base/device.h"
#include "base/errors.h"
#include "commands/command.h"
#include "commands/common_options.h"
#include "commands/comparison_table.h"
#include "commands/device_choice.h"
#include "commands/head_notes.h"
#include "commands/head_results.h"
#include "commands/head_selection.h"
#include "commands/method_choice.h"
#include "commands/torch_decode.h"
#include "data/trace_reader.h"
#include "support/exit_codes.h"
#include "support/interrupt.h"
#include "support/messages.h"
#include "support/output_file.h"
#include "support/progress_line.h"
#include "support/run_origin.h"

namespace headscope::app {
namespace {

struct CompareArguments {
  std::string trace, heads, output, measure = "layer";
  Device device = kCpu;
  std::vector<std::string> methods;
  analysis::CompareOptions options;
  bool force = false, quiet = false;
};

analysis::Measure ParseMeasure(const std::string& text) {
  if (text == "layer") return analysis::Measure::kLayer;
  if (text == "head") return analysis::Measure::kHead;
  throw UsageError("--measure '" + text + "': choose layer or head");
}

int RunCompare(CompareArguments arguments) {
  if (!arguments.output.empty()) CheckResultsTarget(arguments.output, arguments.force, {arguments.trace});
  const std::vector<MethodChoice> choices = ParseMethods(arguments.methods);
  analysis::ComparisonSweep comparison;
  comparison.measure = ParseMeasure(arguments.measure);
  for (const MethodChoice& choice : choices) comparison.methods.push_back({choice.name, choice.values});
  const data::TraceReader trace(arguments.trace);
  const std::vector<analysis::HeadId> heads = ParseHeadsAsTyped(arguments.heads, analysis::RecordedHeads(trace));
  CheckQueryRows(trace);
  CheckMethodsRun(trace, heads);
  UseDevice(arguments.device);
  arguments.options.device = arguments.device;
  if (!arguments.device.is_gpu()) arguments.options.other_dense = TorchDecode(arguments.options.num_threads);

  std::vector<analysis::MethodResult> results;
  HeadNotes head_notes;
  comparison.options = arguments.options;
  comparison.look = [&](const analysis::HeadTensors& head) { head_notes.Look(head, trace); };
  {
    ProgressLine line(arguments.quiet);
    analysis::SweepOptions sweep;
    sweep.stop = StopOnInterrupt();
    sweep.progress = ShowComparing(&line);
    CheckStatus(analysis::SweepComparisons(trace, heads, comparison, sweep, &results));
  }
  for (analysis::MethodResult& result : results) result.origin = OriginOf(trace);
  std::vector<std::string> notes;  // each once, in order
  for (const analysis::MethodResult& result : results) {
    if (!result.note.empty() && std::find(notes.begin(), notes.end(), result.note) == notes.end())
      notes.push_back(result.note);
  }
  head_notes.Print();
  for (const std::string& note : notes) Say(note);
  if (arguments.output.empty()) {
    WriteText(ComparisonTable(results), "", false);
  } else {
    WriteResults(results, arguments.output, arguments.force);
  }
  return kDone;
}

}  // namespace

void AddCompareCommand(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("compare", "Run sparse methods next to dense attention on recorded heads");
  auto arguments = std::make_shared<CompareArguments>();
  command->add_option("trace", arguments->trace, "Trace")->required()->type_name("TRACE");
  command
      ->add_option("--method", arguments->methods,
                   "Method and parameters; may be repeated (`headscope methods` lists them)")
      ->required()
      ->type_name("NAME[:k=v,..]")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  AddRecordedHeadsOption(command, &arguments->heads);
  command
      ->add_option("--measure", arguments->measure,
                   "What is timed: layer, all recorded heads of the head's layer in one launch, as a model attends; or "
                   "head, by itself")
      ->capture_default_str()
      ->type_name("layer|head");
  AddRepeatOption(command, &arguments->options.repeats);
  command->add_option("--decode-rows", arguments->options.decode_rows, "Last query rows that decode methods run on")
      ->capture_default_str();
  AddDeviceOption(command, &arguments->device);
  AddThreadsOption(command, &arguments->options.num_threads);
  AddOutputOptions(command, &arguments->output, &arguments->force, "Write the results to .json, .csv or .h5");
  AddQuietOption(command, &arguments->quiet);
  command->callback([=, &action] { action = [=] { return RunCompare(*arguments); }; });
}

}  // namespace headscope::app
