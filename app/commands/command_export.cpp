// SPDX-License-Identifier: Apache-2.0
// headscope export TRACE [--layers ..] [--heads ..] [--tokens a:b] -o OUT.h5|.csv|.json
#include <memory>
#include <stop_token>

#include "base/errors.h"
#include "commands/command.h"
#include "commands/common_options.h"
#include "commands/head_selection.h"
#include "data/trace_export.h"
#include "data/trace_reader.h"
#include "support/exit_codes.h"
#include "support/interrupt.h"
#include "support/output_file.h"
#include "support/progress_line.h"

namespace headscope::app {
namespace {

struct ExportArguments {
  std::string trace, layers, heads, tokens, output;
  bool force = false, quiet = false;
};

int RunExport(const ExportArguments& arguments) {
  const std::string extension = Extension(arguments.output);
  if (extension != "h5" && extension != "csv" && extension != "json") {
    throw UsageError(OutputFault(arguments.output, "the extension must be .h5, .csv or .json"));
  }
  CheckOutputTarget(arguments.output, arguments.force, {arguments.trace});
  const data::TraceReader trace(arguments.trace);
  data::ExportSelection selection;
  selection.layers = ParseNumberList(arguments.layers, "--layers");
  selection.qo_heads = ParseNumberList(arguments.heads, "--heads");
  if (trace.num_tokens() > 0)  // an empty trace is refused by its own name, not by the range
    std::tie(selection.first_token, selection.end_token) = ParseRange(arguments.tokens, trace.num_tokens(), "--tokens");

  const std::stop_token stop = StopOnInterrupt();
  OutputFile output(arguments.output, arguments.force);
  bool whole = false;
  {
    ProgressLine line(arguments.quiet);
    const auto progress = [&](double share) {
      line.Show("exporting", static_cast<int64_t>(share * 100), 100, ProgressUnit::kPercent);
    };
    const auto write = extension == "h5" ? data::ExportTrace : extension == "csv" ? data::ExportCsv : data::ExportJson;
    output.Write([&](const std::string& path) { whole = write(trace, selection, path, progress, stop); });
  }
  if (!whole) return kInterrupted;
  output.Commit();
  return kDone;
}

}  // namespace

void AddExportCommand(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("export", "Write part of a trace as a smaller trace, CSV or JSON");
  auto arguments = std::make_shared<ExportArguments>();
  command->add_option("trace", arguments->trace, "Trace")->required()->type_name("TRACE");
  AddModelHeadsOptions(command, &arguments->layers, &arguments->heads, "the KV heads that they read come along");
  command
      ->add_option(
          "--tokens", arguments->tokens,
          "Tokens begin:end (all). The file counts them from 0 and records where they were; lse still covers every "
          "key that the model saw (lse_keys says how many)")
      ->type_name("a:b");
  AddOutputOptions(command, &arguments->output, &arguments->force, "File to write: .h5, .csv or .json")->required();
  AddQuietOption(command, &arguments->quiet);
  command->callback([=, &action] { action = [=] { return RunExport(*arguments); }; });
}

}  // namespace headscope::app
