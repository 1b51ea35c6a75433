// headscope compare TRACE --method NAME[:k=v,..] [--method ..] [--heads ..] [--repeat N] [--device ..] [-o
// OUT.json|.csv|.h5]
#include <algorithm>
#include <iostream>
#include <memory>

#include "analysis/compare.h"
#include "capture/device_name.h"
#include "command.h"
#include "data/trace_reader.h"
#include "device_choice.h"
#include "errors.h"
#include "exit_codes.h"
#include "head_results.h"
#include "interrupt.h"
#include "method_choice.h"
#include "output_file.h"
#include "progress_line.h"
#include "selection.h"

namespace headscope::app {
namespace {

struct CompareArguments {
  std::string trace, heads, output, device = "cpu";
  std::vector<std::string> methods;
  analysis::CompareOptions options;
  bool force = false, quiet = false;
};

int RunCompare(CompareArguments arguments) {
  const capture::DeviceName device = capture::ParseDeviceName(arguments.device);
  if (!arguments.output.empty()) CheckResultsTarget(arguments.output, arguments.force, {arguments.trace});
  const std::vector<MethodChoice> choices = ParseMethods(arguments.methods);
  const data::TraceReader trace(arguments.trace);
  const std::vector<analysis::HeadId> heads = ParseHeads(arguments.heads, analysis::RecordedHeads(trace));
  CheckQueryRows(trace);
  CheckMethodsRun(trace.layout().model.head_dim, arguments.trace);
  UseDevice(arguments.device);
  arguments.options.device = device.is_gpu ? "cuda" : "cpu";
  arguments.options.cancelled = InstallInterruptFlag();

  std::vector<analysis::MethodResult> results;
  std::vector<std::string> notes;  // each once, in order
  {
    ProgressLine line(arguments.quiet);
    const auto total = static_cast<int64_t>(heads.size() * choices.size());
    for (const analysis::HeadId& id : heads) {
      const auto place = device.is_gpu ? analysis::HeadPlace::kGpuWhereExact : analysis::HeadPlace::kCpu;
      analysis::HeadComparison comparison(analysis::LoadHead(trace, id, place), arguments.options);
      for (const MethodChoice& choice : choices) {
        analysis::MethodResult result;
        CheckStatus(comparison.Run(choice.name, choice.values, &result),
                    arguments.trace + ", head " + HeadText(id) + ", " + choice.name);
        if (!result.note.empty() && std::find(notes.begin(), notes.end(), result.note) == notes.end())
          notes.push_back(result.note);
        results.push_back(std::move(result));
        line.Show("comparing", static_cast<int64_t>(results.size()), total, "runs");
      }
    }
  }
  for (const std::string& note : notes) std::cerr << "headscope: " << note << '\n';
  if (arguments.output.empty()) {
    WriteText(ComparisonTable(results), "", false);
  } else {
    WriteResults(results, arguments.output, arguments.force);
  }
  return kDone;
}

}  // namespace

void AddCompareCommand(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("compare", "Run sparse methods beside dense attention on recorded heads");
  auto arguments = std::make_shared<CompareArguments>();
  command->add_option("trace", arguments->trace, "Trace")->required()->type_name("TRACE");
  command
      ->add_option("--method", arguments->methods,
                   "Method and parameters; may be repeated (`headscope methods` lists them)")
      ->required()
      ->type_name("NAME[:k=v,..]")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--heads", arguments->heads, "Heads, such as 4:3,2:* (all recorded)")->type_name("L:H,..");
  command->add_option("--repeat", arguments->options.repeats, "Timed repeats; the median is printed")
      ->capture_default_str();
  command->add_option("--decode-rows", arguments->options.decode_rows, "Last query rows that decode methods run on")
      ->capture_default_str();
  command->add_option("--device", arguments->device, "cpu, cuda or cuda:N")->capture_default_str();
  command->add_option("--threads", arguments->options.num_threads, "CPU threads (0: all cores)")->capture_default_str();
  command->add_option("-o,--output", arguments->output, "Write the results to .json, .csv or .h5")->type_name("OUT");
  command->add_flag("--force", arguments->force, "Replace an existing output");
  command->add_flag("--quiet", arguments->quiet, "No progress");
  command->callback([=, &action] { action = [=] { return RunCompare(*arguments); }; });
}

}  // namespace headscope::app
