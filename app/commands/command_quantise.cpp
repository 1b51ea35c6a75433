// SPDX-License-Identifier: Apache-2.0
// headscope quantise TRACE [--heads L:H,..] [--formats a,b] [--scales a,b] [--hadamard off|on|both] [--all-scales]
// [-o OUT.json|.csv]
#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>
#include <limits>
#include <memory>
#include <sstream>
#include <stop_token>

#include "analysis/quantise.h"
#include "analysis/types/number_text.h"
#include "base/errors.h"
#include "base/file_format.h"
#include "base/quoted_text.h"
#include "choices/head_results.h"
#include "choices/head_selection.h"
#include "commands/command.h"
#include "commands/common_options.h"
#include "data/trace_reader.h"
#include "support/exit_codes.h"
#include "support/interrupt.h"
#include "support/listed.h"
#include "support/output_file.h"
#include "support/progress_line.h"
#include "support/run_origin.h"

namespace headscope::app {
namespace {

struct QuantiseArguments {
  std::string trace, heads, output, hadamard = "both";
  std::vector<std::string> formats, groups, tensors;
  int64_t max_rows = analysis::QuantisationRequest{}.max_rows;
  int32_t num_threads = 0;
  bool all_scales = false, force = false, quiet = false;
};

// Those that were typed, in the order of `all`; every one when none was.
template <typename Choices>
std::vector<typename Choices::value_type> Chosen(const std::vector<std::string>& typed, const std::string& field,
                                                 const Choices& all) {
  using Choice = typename Choices::value_type;
  const auto name_of = [](Choice choice) { return std::string(analysis::NameOf(choice)); };
  for (const std::string& name : typed) {
    if (std::none_of(all.begin(), all.end(), [&](Choice choice) { return name_of(choice) == name; }))
      throw UsageError(
          {.field = field, .problem = Quoted(name) + " is not known", .remedy = "choose from " + Listed(all, name_of)});
  }
  std::vector<Choice> chosen;
  for (const Choice choice : all) {
    if (typed.empty() || std::find(typed.begin(), typed.end(), name_of(choice)) != typed.end())
      chosen.push_back(choice);
  }
  return chosen;
}

analysis::QuantisationRequest RequestOf(const QuantiseArguments& arguments) {
  analysis::QuantisationRequest request;
  request.formats = Chosen(arguments.formats, "formats", analysis::AllNumberFormats());
  request.groups = Chosen(arguments.groups, "scales", analysis::ChosenScaleGroups());
  if (arguments.hadamard != "off" && arguments.hadamard != "on" && arguments.hadamard != "both")
    throw UsageError({.field = "hadamard",
                      .problem = Quoted(arguments.hadamard) + " is not known",
                      .remedy = "choose from off, on, both"});
  if (arguments.hadamard != "on") request.hadamard.push_back(false);
  if (arguments.hadamard != "off") request.hadamard.push_back(true);
  for (const std::string& name : arguments.tensors) {
    if (name != "q" && name != "k" && name != "v")
      throw UsageError(
          {.field = "tensors", .problem = Quoted(name) + " is not known", .remedy = "choose from q, k, v"});
  }
  const auto is_chosen = [&](const char* name) {
    return arguments.tensors.empty() ||
           std::find(arguments.tensors.begin(), arguments.tensors.end(), name) != arguments.tensors.end();
  };
  request.q = is_chosen("q");
  request.k = is_chosen("k");
  request.v = is_chosen("v");
  request.all_scales = arguments.all_scales;
  request.max_rows = arguments.max_rows;
  request.num_threads = arguments.num_threads;
  return request;
}

// One line a setting: the heads' mean, and the one that suffers most.
std::string SettingTable(const std::vector<analysis::QuantisedHead>& results, size_t num_heads) {
  std::ostringstream out;
  out << "format    scale    hadamard  mean error  worst error  worst head  mean cosine\n";
  const size_t num_settings = num_heads == 0 ? 0 : results.size() / num_heads;
  for (size_t setting = 0; setting < num_settings; ++setting) {
    double error = 0, cosine = 0;
    const analysis::QuantisedHead* worst = &results[setting];
    for (size_t head = 0; head < num_heads; ++head) {
      const analysis::QuantisedHead& result = results[head * num_settings + setting];
      error += result.relative_error / static_cast<double>(num_heads);
      cosine += result.cosine / static_cast<double>(num_heads);
      if (result.relative_error > worst->relative_error) worst = &result;
    }
    out << std::left << std::setw(10) << analysis::NameOf(worst->quantisation.format) << std::setw(9)
        << analysis::NameOf(worst->quantisation.group) << std::setw(8) << (worst->quantisation.hadamard ? "on" : "off")
        << std::right << std::setw(12) << analysis::FormatNumber("%.5f", error) << std::setw(13)
        << analysis::FormatNumber("%.5f", worst->relative_error) << std::setw(12) << HeadText(worst->head)
        << std::setw(13) << analysis::FormatNumber("%.6f", cosine) << '\n';
  }
  return out.str();
}

// One line a head: its sparsity, and of each format the least error among the scales and rotations that were tried.
std::string HeadErrors(const std::vector<analysis::QuantisedHead>& results, size_t num_heads) {
  const size_t num_settings = num_heads == 0 ? 0 : results.size() / num_heads;
  std::vector<analysis::NumberFormat> formats;
  for (size_t setting = 0; setting < num_settings; ++setting) {
    const analysis::NumberFormat format = results[setting].quantisation.format;
    if (std::find(formats.begin(), formats.end(), format) == formats.end()) formats.push_back(format);
  }
  std::ostringstream out;
  out << "head    sparsity_0.95";
  for (const analysis::NumberFormat format : formats) out << std::setw(11) << analysis::NameOf(format);
  out << '\n';
  for (size_t head = 0; head < num_heads; ++head) {
    const auto* const first = &results[head * num_settings];
    out << std::left << std::setw(8) << HeadText(first->head) << std::right << std::setw(13)
        << analysis::FormatNumber("%.4f", first->sparsity);
    for (const analysis::NumberFormat format : formats) {
      double least = std::numeric_limits<double>::infinity();
      for (const auto* of_head = first; of_head != first + num_settings; ++of_head) {
        if (of_head->quantisation.format == format) least = std::min(least, of_head->relative_error);
      }
      out << std::setw(11) << analysis::FormatNumber("%.5f", least);
    }
    out << '\n';
  }
  return out.str();
}

int RunQuantise(const QuantiseArguments& arguments) {
  analysis::QuantisationRequest request = RequestOf(arguments);
  if (!arguments.output.empty()) {
    FormatOfOutput(arguments.output, std::array{FileFormat::kJson, FileFormat::kCsv});
    CheckOutputTarget(arguments.output, arguments.force, {arguments.trace});
  }
  if (arguments.all_scales && (arguments.output.empty() || FindFileFormat(arguments.output) != FileFormat::kJson))
    throw UsageError({.field = "all-scales", .problem = "it is for a JSON file", .remedy = "name one with -o"});
  const data::TraceReader trace(arguments.trace);
  CheckQueryRows(trace);
  const std::vector<analysis::HeadId> heads = ParseHeads(arguments.heads, analysis::RecordedHeads(trace));
  request.stop = StopOnInterrupt();
  std::vector<analysis::QuantisedHead> results;
  {
    ProgressLine line(arguments.quiet);
    request.progress = [&](double share) {
      line.Show("quantising", std::lround(100 * share), 100, ProgressUnit::kPercent);
    };
    results = analysis::QuantiseHeads(trace, heads, request);
  }
  if (arguments.output.empty()) {
    WriteText(SettingTable(results, heads.size()) + "\nError of each head under the best of these settings:\n" +
                  HeadErrors(results, heads.size()),
              "", false);
  } else {
    const CsvColumns origin = OriginColumns(NamedCpu(), OriginOf(trace));
    WriteText(FindFileFormat(arguments.output) == FileFormat::kJson
                  ? analysis::QuantisationJson(results, origin)
                  : analysis::QuantisationCsv(results, CsvOriginOf(origin)),
              arguments.output, arguments.force);
  }
  return kDone;
}

}  // namespace

void AddQuantiseCommand(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand(
      "quantise", "Error of every head's output with Q, K and V in low precision, beside its sparsity");
  auto arguments = std::make_shared<QuantiseArguments>();
  command->add_option("trace", arguments->trace, "Trace")->required()->type_name("TRACE");
  AddRecordedHeadsOption(command, &arguments->heads);
  const auto names = [](auto choice) { return std::string(analysis::NameOf(choice)); };
  command->add_option("--formats", arguments->formats, "Formats (all): " + Listed(analysis::AllNumberFormats(), names))
      ->delimiter(',')
      ->type_name("a,b");
  command
      ->add_option("--scales", arguments->groups,
                   "What shares a scale (all, one after another): " + Listed(analysis::ChosenScaleGroups(), names) +
                       "; mxfp4 has blocks of 32")
      ->delimiter(',')
      ->type_name("a,b");
  command->add_option("--hadamard", arguments->hadamard, "Rotate vectors by a Hadamard matrix: off, on or both")
      ->capture_default_str();
  command->add_option("--tensors", arguments->tensors, "What is quantised (all): q, k, v")
      ->delimiter(',')
      ->type_name("q,k,v");
  AddMaxRowsOption(command, &arguments->max_rows);
  AddOutputOptions(command, &arguments->output, &arguments->force,
                   "Write every head's numbers to .csv, or with the scales to .json");
  command->add_flag(
      "--all-scales", arguments->all_scales,
      "Also write the scales of tokens and of mxfp4's blocks to the .json file, token by token: about 36 bytes per "
      "token, head and setting (at a head_dim of 128)");
  AddThreadsOption(command, &arguments->num_threads);
  AddQuietOption(command, &arguments->quiet);
  command->callback([=, &action] { action = [=] { return RunQuantise(*arguments); }; });
}

}  // namespace headscope::app
