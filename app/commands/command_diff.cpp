// SPDX-License-Identifier: Apache-2.0
// headscope diff TRACE_A TRACE_B [--heads L:H,..] [--metrics a,b | --all] [-o OUT.json|.csv]
// headscope diff TRACE --method NAME[:k=v,..] --method NAME[:k=v,..] [--heads L:H,..] [-o OUT.json|.csv]
#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>

#include "analysis/compare.h"
#include "analysis/head_differences.h"
#include "analysis/head_sweeps.h"
#include "analysis/mask_pair.h"
#include "analysis/sweep.h"
#include "analysis/types/metric_list.h"
#include "analysis/types/number_text.h"
#include "base/check_status.h"
#include "base/errors.h"
#include "base/file_format.h"
#include "base/quoted_text.h"
#include "choices/head_results.h"
#include "choices/head_selection.h"
#include "choices/method_choice.h"
#include "commands/command.h"
#include "commands/common_options.h"
#include "commands/head_notes.h"
#include "data/trace_reader.h"
#include "support/exit_codes.h"
#include "support/interrupt.h"
#include "support/listed.h"
#include "support/messages.h"
#include "support/output_file.h"
#include "support/progress_line.h"
#include "support/run_origin.h"

namespace headscope::app {
namespace {

using analysis::HeadId;
using analysis::MetricInfo;

// What `analyze` shows unasked of whole traces.
std::vector<std::string> ShownUnasked() {
  std::vector<std::string> names;
  for (const MetricInfo& metric : analysis::Metrics()) {
    if (analysis::IsShownUnasked(metric, /*of_cut_trace=*/false)) names.push_back(metric.name);
  }
  return names;
}

struct DiffArguments {
  std::vector<std::string> traces, methods;
  std::vector<std::string> metrics = ShownUnasked();
  std::string heads, output;
  analysis::StatisticsOptions options;
  bool all = false, metrics_were_given = false, force = false, quiet = false;
};

std::vector<MetricInfo> ChosenMetrics(const DiffArguments& arguments) {
  if (arguments.all || (!arguments.output.empty() && !arguments.metrics_were_given)) return analysis::Metrics();
  std::vector<MetricInfo> chosen;
  for (const std::string& name : arguments.metrics) {
    const auto found = std::find_if(analysis::Metrics().begin(), analysis::Metrics().end(),
                                    [&](const MetricInfo& metric) { return metric.name == name; });
    if (found == analysis::Metrics().end()) {
      throw UsageError({.field = "metrics",
                        .problem = Quoted(name) + " is not known",
                        .remedy = "choose from " + Listed(analysis::Metrics(), &MetricInfo::name)});
    }
    chosen.push_back(*found);
  }
  return chosen;
}

void CheckTarget(const DiffArguments& arguments) {
  if (arguments.output.empty()) return;
  FormatOfOutput(arguments.output, std::array{FileFormat::kJson, FileFormat::kCsv});
  CheckOutputTarget(arguments.output, arguments.force, arguments.traces);
}

std::vector<HeadId> CommonHeads(const data::TraceReader& first, const data::TraceReader& second,
                                const DiffArguments& arguments) {
  const std::vector<HeadId> there = analysis::RecordedHeads(second);
  std::vector<HeadId> heads = ParseHeads(arguments.heads, analysis::RecordedHeads(first));
  const size_t chosen = heads.size();
  std::erase_if(heads, [&](HeadId head) { return !std::binary_search(there.begin(), there.end(), head); });
  if (heads.empty()) {
    throw BadInputError({.file = arguments.traces[1],
                         .problem = "it holds none of the chosen heads of " + arguments.traces[0],
                         .remedy = "compare traces that recorded heads of the same layers and numbers"});
  }
  if (heads.size() < chosen)
    Say(arguments.traces[1] + ": holds " + std::to_string(heads.size()) + " of " + std::to_string(chosen) +
        " heads; the others are left out");
  return heads;
}

std::vector<analysis::HeadStatistics> StatisticsOf(const data::TraceReader& trace, const std::string& path,
                                                   const std::vector<HeadId>& heads, const DiffArguments& arguments,
                                                   const std::stop_token& stop) {
  std::vector<analysis::HeadStatistics> all;
  std::vector<HeadNotes> of_heads(heads.size());
  ProgressLine line(arguments.quiet);
  analysis::SweepOptions sweep;
  sweep.num_threads = arguments.options.num_threads;
  sweep.stop = stop;
  sweep.progress = [&](const analysis::SweepProgress& at) {
    line.Show("analysing", static_cast<int64_t>(at.done), static_cast<int64_t>(at.total), ProgressUnit::kHeads);
  };
  const auto look = [&](size_t at, const analysis::HeadTensors& head, const analysis::HeadStatistics&) {
    of_heads[at].Look(head, trace);
  };
  const kernels::Status status = analysis::SweepStatistics(trace, heads, kCpu, arguments.options, sweep, look, &all);
  CheckStatus(status, path);
  HeadNotes notes;
  for (const HeadNotes& of_head : of_heads) notes.Append(of_head);
  notes.Print();
  return all;
}

std::string SignedText(double value) {
  return std::isnan(value) ? "-" : analysis::FormatNumber(value > 0 ? "+%.4f" : "%.4f", value);
}

// A line a head, a column a metric: what the second trace has more. Below, the largest of each column.
std::string DifferenceTable(const std::vector<analysis::MetricDifference>& differences,
                            const std::vector<MetricInfo>& metrics) {
  std::ostringstream out;
  const auto column = [&](const MetricInfo& metric) -> std::ostream& {
    return out << std::right << std::setw(std::max(10, static_cast<int>(metric.name.size()) + 2));
  };
  out << std::left << std::setw(8) << "head";
  for (const MetricInfo& metric : metrics) column(metric) << metric.name;
  out << '\n';
  for (size_t i = 0; i < differences.size(); i += metrics.size()) {
    out << std::left << std::setw(8) << HeadText(differences[i].head);
    for (size_t m = 0; m < metrics.size(); ++m) column(metrics[m]) << SignedText(differences[i + m].Difference());
    out << '\n';
  }
  out << "\nlargest differences, second minus first\n";
  for (size_t m = 0; m < metrics.size(); ++m) {
    const analysis::MetricDifference* largest = nullptr;
    for (size_t i = m; i < differences.size(); i += metrics.size()) {
      const double size = std::fabs(differences[i].Difference());
      if (!std::isnan(size) && (largest == nullptr || size > std::fabs(largest->Difference())))
        largest = &differences[i];
    }
    if (largest == nullptr) continue;
    out << std::left << std::setw(22) << metrics[m].name << std::setw(8) << HeadText(largest->head)
        << SignedText(largest->Difference()) << "  (" << analysis::FormatNumber("%.4f", largest->first) << " to "
        << analysis::FormatNumber("%.4f", largest->second) << (metrics[m].unit.empty() ? "" : " " + metrics[m].unit)
        << ")\n";
  }
  return out.str();
}

int DiffTraces(const DiffArguments& arguments) {
  const std::vector<MetricInfo> metrics = ChosenMetrics(arguments);
  const data::TraceReader first(arguments.traces[0]), second(arguments.traces[1]);
  CheckQueryRows(first);
  CheckQueryRows(second);
  const std::vector<HeadId> heads = CommonHeads(first, second, arguments);
  const std::stop_token stop = StopOnInterrupt();
  const auto of_first = StatisticsOf(first, arguments.traces[0], heads, arguments, stop);
  const auto of_second = StatisticsOf(second, arguments.traces[1], heads, arguments, stop);
  const auto differences = analysis::DifferencesOf(of_first, of_second, metrics);
  if (arguments.output.empty()) {
    WriteText(DifferenceTable(differences, metrics), "", false);
    return kDone;
  }
  const analysis::RunOrigin origin = OriginOf(first), other = OriginOf(second);
  const CsvColumns from = {{"device", NamedCpu().name},  {"trace", origin.trace},
                           {"model", origin.model},      {"other_trace", other.trace},
                           {"other_model", other.model}, {"written_at", other.measured_at},
                           {"version", other.version}};
  WriteText(FindFileFormat(arguments.output) == FileFormat::kCsv
                ? analysis::DifferencesCsv(differences, CsvOriginOf(from))
                : analysis::DifferencesJson({arguments.traces[0], arguments.traces[1]}, differences, from),
            arguments.output, arguments.force);
  return kDone;
}

std::string OverlapTable(const std::vector<analysis::HeadOverlap>& overlaps) {
  std::ostringstream out;
  out << std::left << std::setw(8) << "head" << std::right << std::setw(14) << "first only" << std::setw(14)
      << "second only" << std::setw(14) << "both" << std::setw(14) << "pairs" << std::setw(9) << "both/all"
      << std::setw(10) << "jaccard" << '\n';
  for (const analysis::HeadOverlap& of_head : overlaps) {
    const analysis::MaskOverlap& overlap = of_head.overlap;
    const double share =
        overlap.pairs == 0 ? 0 : static_cast<double>(overlap.both) / static_cast<double>(overlap.pairs);
    out << std::left << std::setw(8) << HeadText(of_head.head) << std::right << std::setw(14) << overlap.first_alone
        << std::setw(14) << overlap.second_alone << std::setw(14) << overlap.both << std::setw(14) << overlap.pairs
        << std::setw(9) << analysis::FormatNumber("%.4f", share) << std::setw(10)
        << analysis::FormatNumber("%.4f", overlap.Jaccard()) << '\n';
  }
  return out.str();
}

int DiffMasks(const DiffArguments& arguments) {
  std::vector<MethodChoice> choices = ParseMethods(arguments.methods);
  for (const MethodChoice& choice : choices) {
    if (choice.prefill == nullptr)
      throw UsageError({.field = "method",
                        .value = choice.name,
                        .problem = "it is a decode method, and diff compares what prefill methods keep",
                        .remedy = "give a prefill method"});
  }
  const data::TraceReader trace(arguments.traces[0]);
  CheckQueryRows(trace);
  const std::vector<HeadId> heads = ParseHeads(arguments.heads, analysis::RecordedHeads(trace));
  CheckMethodsRun(trace, heads);
  for (const MethodChoice& choice : choices) CheckMethodIsOfModel(choice.name, trace);
  const std::stop_token stop = StopOnInterrupt();
  std::vector<std::optional<analysis::HeadOverlap>> of_heads;
  {
    ProgressLine line(arguments.quiet);
    analysis::SweepOptions options;
    options.num_threads = arguments.options.num_threads;
    options.most_at_once = analysis::HeadsAtOnce(kCpu, analysis::LargestHeadBytes(trace, heads));
    options.stop = stop;
    options.progress = [&line](const analysis::SweepProgress& progress) {
      line.Show("comparing", static_cast<int64_t>(progress.done), static_cast<int64_t>(progress.total),
                ProgressUnit::kHeads);
    };
    const kernels::Status swept = analysis::Sweep<analysis::HeadOverlap>(
        {heads.size()}, options,
        [&](const analysis::SweepCell& cell, analysis::HeadOverlap* overlap) {
          const HeadId id = heads[cell.head];
          const analysis::HeadTensorsPtr head = analysis::LoadHead(trace, id);
          std::vector<analysis::KeptMask> masks;
          for (const MethodChoice& choice : choices) {
            analysis::MaskPreview preview;
            const kernels::Status status =
                analysis::PreviewMask(*head, *choice.prefill, choice.values, cell.num_threads, stop, &preview);
            if (!status.ok()) {
              return kernels::Status(status.code(), arguments.traces[0] + ", head " + HeadText(id) + ", " +
                                                        choice.name + ": " + status.message());
            }
            masks.push_back({preview.index, preview.window, nullptr});
          }
          *overlap = {id, analysis::CountMaskOverlap(masks[0], masks[1], cell.num_threads, stop)};
          return kernels::Status();
        },
        &of_heads);
    CheckStatus(swept);
  }
  std::vector<analysis::HeadOverlap> overlaps;
  for (std::optional<analysis::HeadOverlap>& overlap : of_heads) overlaps.push_back(std::move(overlap.value()));
  if (arguments.output.empty()) {
    WriteText(OverlapTable(overlaps), "", false);
  } else if (FindFileFormat(arguments.output) == FileFormat::kCsv) {
    CsvColumns columns = {{"method", arguments.methods[0]}, {"other_method", arguments.methods[1]}};
    for (auto& column : OriginColumns(NamedCpu(), OriginOf(trace))) columns.push_back(std::move(column));
    WriteText(analysis::OverlapsCsv(overlaps, CsvOriginOf(columns)), arguments.output, arguments.force);
  } else {
    WriteText(analysis::OverlapsJson(arguments.traces[0], {arguments.methods[0], arguments.methods[1]}, overlaps,
                                     OriginColumns(NamedCpu(), OriginOf(trace))),
              arguments.output, arguments.force);
  }
  return kDone;
}

int RunDiff(const DiffArguments& arguments) {
  CheckTarget(arguments);
  if (arguments.methods.empty()) {
    if (arguments.traces.size() != 2)
      throw UsageError({.problem = "diff compares two traces, or two methods on one",
                        .remedy = "give TRACE_A TRACE_B, or TRACE and --method twice"});
    return DiffTraces(arguments);
  }
  if (arguments.traces.size() != 1 || arguments.methods.size() != 2)
    throw UsageError({.problem = "comparing two methods takes one trace and two methods",
                      .remedy = "give TRACE and --method twice"});
  if (arguments.all || arguments.metrics_were_given)
    throw UsageError({.field = arguments.all ? "all" : "metrics",
                      .problem = "it is for two traces",
                      .remedy = "leave it out with --method"});
  return DiffMasks(arguments);
}

}  // namespace

void AddDiffCommand(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("diff", "How the heads of two traces differ, or what two methods keep on one");
  auto arguments = std::make_shared<DiffArguments>();
  command->add_option("trace", arguments->traces, "Two traces, or one with --method given twice")->type_name("TRACE..");
  AddMethodsOption(command, &arguments->methods, "A prefill method whose mask is compared; given twice");
  AddRecordedHeadsOption(command, &arguments->heads);
  CLI::Option* metrics = AddMetricsOption(command, &arguments->metrics,
                                          "Metrics of the heads, as analyze has them (a file holds every one)")
                             ->capture_default_str();
  command->add_flag("--all", arguments->all, "Every metric");
  AddMaxRowsOption(command, &arguments->options.max_rows);
  AddOutputOptions(command, &arguments->output, &arguments->force, "Write to .json or .csv");
  AddThreadsOption(command, &arguments->options.num_threads);
  AddQuietOption(command, &arguments->quiet);
  command->callback([=, &action] {
    arguments->metrics_were_given = metrics->count() > 0;
    action = [=] { return RunDiff(*arguments); };
  });
}

}  // namespace headscope::app
