// SPDX-License-Identifier: Apache-2.0
// headscope export TRACE [--layers ..] [--heads ..] [--tokens a:b] [--dtype fp32|bf16|fp16] [--compress]
// -o OUT.h5|.csv|.json
#include <array>
#include <memory>
#include <stop_token>

#include "base/element_type.h"
#include "base/errors.h"
#include "base/file_format.h"
#include "choices/head_selection.h"
#include "commands/command.h"
#include "commands/common_options.h"
#include "data/trace_export.h"
#include "data/trace_reader.h"
#include "support/exit_codes.h"
#include "support/interrupt.h"
#include "support/output_file.h"
#include "support/output_trace.h"
#include "support/progress_line.h"
#include "support/run_origin.h"

namespace headscope::app {
namespace {

struct ExportArguments {
  std::string trace, layers, heads, tokens, dtype, output;
  bool force = false, quiet = false, compress = false;
  int32_t num_files = 1;
};

data::ExportStorage StorageOf(const ExportArguments& arguments, FileFormat format) {
  if (format != FileFormat::kHdf5 && arguments.num_files > 1) {
    throw UsageError({.field = "files",
                      .value = std::to_string(arguments.num_files),
                      .problem = "only a trace is written in several files",
                      .remedy = "leave it out, or write .h5"});
  }
  if (format != FileFormat::kHdf5 && (arguments.compress || !arguments.dtype.empty())) {
    throw UsageError({.field = arguments.compress ? "compress" : "dtype",
                      .problem = std::string(format == FileFormat::kCsv ? ".csv" : ".json") +
                                 " holds numbers as text that reads back exactly",
                      .remedy = "leave it out, or write .h5"});
  }
  data::ExportStorage storage{.num_files = arguments.num_files};
  if (arguments.compress) storage.storage = data::TraceStorage::kCompressed;
  if (!arguments.dtype.empty()) storage.encoding = ParseElementType(arguments.dtype);
  return storage;
}

int RunExport(const ExportArguments& arguments) {
  constexpr std::array kKinds = {FileFormat::kHdf5, FileFormat::kCsv, FileFormat::kJson};
  const FileFormat format = FormatOfOutput(arguments.output, kKinds);
  const data::ExportStorage storage = StorageOf(arguments, format);
  CheckOutputTarget(arguments.output, arguments.force, {arguments.trace});
  const data::TraceReader trace(arguments.trace);
  data::ExportSelection selection;
  selection.layers = ParseNumberList(arguments.layers, "layers");
  selection.qo_heads = ParseNumberList(arguments.heads, "heads");
  if (trace.num_tokens() > 0)  // an empty trace is refused by its own name, not by the range
    std::tie(selection.first_token, selection.end_token) = ParseRange(arguments.tokens, trace.num_tokens(), "tokens");

  const std::stop_token stop = StopOnInterrupt();
  const auto write = [&](const std::string& path) {
    ProgressLine line(arguments.quiet);
    const auto progress = [&](double share) {
      line.Show("exporting", static_cast<int64_t>(share * 100), 100, ProgressUnit::kPercent);
    };
    if (format == FileFormat::kHdf5) return data::ExportTrace(trace, selection, storage, path, progress, stop);
    if (format == FileFormat::kCsv)
      return data::ExportCsv(trace, selection, CsvOriginOf(OriginColumns(OriginOf(trace))), path, progress, stop);
    data::ExportJson(trace, selection, path, progress, stop);
  };
  const auto into = [&](auto&& output) {
    output.Write(write);
    output.Commit();
    return kDone;
  };
  if (format != FileFormat::kHdf5) return into(OutputFile(arguments.output, arguments.force));
  return into(OutputTrace(arguments.output, arguments.num_files, arguments.force, trace.files()));
}

}  // namespace

void AddExportCommand(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("export", "Write a trace or a part of it as a trace, CSV or JSON");
  auto arguments = std::make_shared<ExportArguments>();
  command->add_option("trace", arguments->trace, "Trace")->required()->type_name("TRACE");
  AddModelHeadsOptions(command, &arguments->layers, &arguments->heads, "the KV heads that they read come along");
  command
      ->add_option("--tokens", arguments->tokens,
                   "Tokens begin:end (all). The file counts them from 0 and records their original place; lse still "
                   "covers every key that the model saw (lse_keys says how many)")
      ->type_name("a:b");
  command
      ->add_option("--dtype", arguments->dtype,
                   "Precision of a trace's vectors: fp32, bf16 or fp16 (unchanged); lse keeps the model's own values")
      ->type_name("fp32|bf16|fp16");
  command->add_flag("--compress", arguments->compress,
                    "Compress a trace's vectors (shuffle and deflate): smaller, but slower to read");
  AddFilesOption(command, &arguments->num_files);
  AddOutputOptions(command, &arguments->output, &arguments->force, "File to write: .h5, .csv or .json")->required();
  AddQuietOption(command, &arguments->quiet);
  command->callback([=, &action] { action = [=] { return RunExport(*arguments); }; });
}

}  // namespace headscope::app
