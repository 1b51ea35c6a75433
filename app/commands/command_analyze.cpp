// SPDX-License-Identifier: Apache-2.0
// headscope analyze TRACE [--heads L:H,..] [--device ..] [--metrics a,b | --all | -o OUT.json|.csv|.h5]
#include <algorithm>
#include <cmath>
#include <iomanip>
#include <memory>
#include <set>
#include <sstream>
#include <utility>

#include "analysis/head_sweeps.h"
#include "analysis/types/metric_list.h"
#include "analysis/types/number_text.h"
#include "base/check_status.h"
#include "base/device.h"
#include "base/errors.h"
#include "base/quoted_text.h"
#include "choices/device_choice.h"
#include "choices/head_results.h"
#include "choices/head_selection.h"
#include "commands/command.h"
#include "commands/common_options.h"
#include "commands/head_notes.h"
#include "data/trace_reader.h"
#include "support/exit_codes.h"
#include "support/interrupt.h"
#include "support/listed.h"
#include "support/option_checks.h"
#include "support/output_file.h"
#include "support/progress_line.h"
#include "support/run_origin.h"

namespace headscope::app {
namespace {

using analysis::MetricInfo;

constexpr size_t kDeviceWidth = 22;  // of the table's first two columns, with a space after it

struct AnalyzeArguments {
  std::string trace, heads, output;
  Device device = kCpu;
  std::vector<std::string> metrics, alarms;
  ClassOptions classes;
  analysis::StatisticsOptions options;
  bool all = false, print_classes = false, force = false, quiet = false;
};

std::vector<MetricInfo>::iterator FindMetric(const std::string& name, const char* field,
                                             std::vector<MetricInfo>* metrics) {
  const auto metric =
      std::find_if(metrics->begin(), metrics->end(), [&](const MetricInfo& one) { return one.name == name; });
  if (metric == metrics->end()) {
    throw UsageError({.field = field,
                      .problem = Quoted(name) + " is not known",
                      .remedy = "choose from " + Listed(*metrics, &MetricInfo::name)});
  }
  return metric;
}

// "largest_logit=100": values above it are marked.
std::pair<std::string, double> ParseAlarm(const std::string& text) {
  return NameAndNumber("alarm", text, "a metric and a number, such as largest_logit=100");
}

// The metrics that statistics with these options have.
std::vector<MetricInfo> ComputedMetrics(const AnalyzeArguments& arguments) {
  const analysis::StatisticsOptions& options = arguments.options;
  analysis::HeadStatistics shape;
  for (const double target : options.cra_targets) shape.sparsity.push_back({target, 0});
  for (const int32_t r : options.agreement_r) {
    for (const int32_t k : options.agreement_k) shape.agreement.push_back({r, k, 0});
  }
  std::vector<MetricInfo> metrics = analysis::MetricsOf(shape);
  for (const std::string& alarm : arguments.alarms) {
    const auto [name, value] = ParseAlarm(alarm);
    FindMetric(name, "alarm", &metrics)->alarm = value;
  }
  return metrics;
}

// Whether a metric is printed when none is asked for: what says most in the 80 columns of a terminal, and whatever
// comes of targets and budgets that were asked for. A trace that was cut behind its first tokens has none of the first
// ones, and tells what is not there instead; where some head has a learned sink, its mass is told.
bool IsPrintedByDefault(const MetricInfo& metric, const analysis::StatisticsOptions& options,
                        const data::TraceLayout& layout) {
  static const analysis::StatisticsOptions defaults;
  if (metric.of_sinks) {
    return std::any_of(layout.facts.begin(), layout.facts.end(),
                       [](const data::LayerFacts& facts) { return !facts.sinks.empty(); });
  }
  if (metric.list == analysis::MetricList::kSparsity && options.cra_targets != defaults.cra_targets) return true;
  if (metric.list == analysis::MetricList::kAgreement)
    return options.agreement_r != defaults.agreement_r || options.agreement_k != defaults.agreement_k;
  return analysis::IsShownUnasked(metric, /*of_cut_trace=*/layout.first_token > 0);
}

int64_t NumAlarming(const std::vector<analysis::HeadStatistics>& all, const MetricInfo& metric) {
  return std::count_if(all.begin(), all.end(), [&](const analysis::HeadStatistics& head) {
    return analysis::MetricValue(head, metric.name) > metric.alarm;
  });
}

// The columns of the printed table. A metric whose alarm was set has one; what alarms has one unless columns were
// chosen.
std::vector<MetricInfo> ChosenMetrics(const AnalyzeArguments& arguments, const data::TraceLayout& layout,
                                      const std::vector<analysis::HeadStatistics>& all) {
  std::vector<MetricInfo> known = ComputedMetrics(arguments), chosen;
  if (arguments.all) return known;
  std::set<std::string> watched;
  for (const std::string& alarm : arguments.alarms) watched.insert(ParseAlarm(alarm).first);
  if (arguments.metrics.empty()) {
    std::erase_if(known, [&](const MetricInfo& metric) {
      return !IsPrintedByDefault(metric, arguments.options, layout) && !watched.contains(metric.name) &&
             NumAlarming(all, metric) == 0;
    });
    return known;
  }
  for (const std::string& name : arguments.metrics) {
    chosen.push_back(*FindMetric(name, "metrics", &known));
    watched.erase(name);
  }
  for (const std::string& name : watched) chosen.push_back(*FindMetric(name, "alarm", &known));
  return chosen;
}

// Sorted and each once, as the statistics and the columns of the files want them.
template <typename Number>
void SortUnique(std::vector<Number>* numbers) {
  std::sort(numbers->begin(), numbers->end());
  numbers->erase(std::unique(numbers->begin(), numbers->end()), numbers->end());
}

void CheckArguments(const AnalyzeArguments& arguments) {
  for (const double target : arguments.options.cra_targets) {
    if (target > 0 && target < 1) continue;
    std::ostringstream text;
    text << target << " is not a share of a row's mass";
    throw UsageError({.field = "cra-targets", .problem = text.str(), .remedy = "give numbers between 0 and 1"});
  }
  if (arguments.all && !arguments.metrics.empty()) {
    throw UsageError({.field = "metrics",
                      .problem = "it chooses columns of the printed table, and --all prints every one",
                      .remedy = "give only one of them"});
  }
  if (arguments.output.empty()) return;
  CheckResultsTarget(arguments.output, arguments.force, {arguments.trace});
  if (arguments.all || !arguments.metrics.empty()) {
    throw UsageError({.field = arguments.all ? "all" : "metrics",
                      .problem = "it chooses columns of the printed table, and a file always holds every metric",
                      .remedy = "leave it out, or leave -o out"});
  }
}

// "on cpu", or the GPU's name; where some heads were computed elsewhere than others, both.
std::string DeviceText(const std::vector<analysis::HeadStatistics>& all) {
  std::set<std::string> devices;
  for (const analysis::HeadStatistics& head : all) devices.insert(head.device.name);
  return devices.empty() ? std::string() : "on " + Listed(devices);
}

// The table that people read: one line a head, one column a metric; below the names their units, and where they were
// computed.
std::string MetricTable(const std::vector<analysis::HeadStatistics>& all, const std::vector<MetricInfo>& metrics) {
  std::ostringstream out;
  const auto column = [&](const MetricInfo& metric) -> std::ostream& {
    return out << std::right << std::setw(std::max(9, static_cast<int>(metric.name.size()) + 2));
  };
  const auto begin = [&](const std::string& head, const std::string& head_class) {
    out << std::left << std::setw(8) << head << std::setw(15) << head_class;
  };
  begin("head", "class");
  for (const MetricInfo& metric : metrics) column(metric) << metric.name;
  out << '\n';
  std::string device = DeviceText(all);
  if (device.size() > kDeviceWidth) {  // a line of its own
    out << device << '\n';
    device.clear();
  }
  out << std::left << std::setw(static_cast<int>(kDeviceWidth) + 1) << device;
  for (const MetricInfo& metric : metrics) column(metric) << metric.unit;
  out << '\n';
  for (const analysis::HeadStatistics& head : all) {
    begin(HeadText(head.id), analysis::HeadClassName(head.head_class));
    for (const MetricInfo& metric : metrics) {
      const double value = analysis::MetricValue(head, metric.name);
      const std::string text = std::isnan(value) ? "-" : analysis::FormatNumber("%.4f", value);
      column(metric) << (value > metric.alarm ? "!" + text : text);
    }
    out << '\n';
  }
  return out.str();
}

// Below the table, what its marks mean, and which columns that were not chosen would have some.
std::string AlarmText(const std::vector<analysis::HeadStatistics>& all, const std::vector<MetricInfo>& metrics) {
  std::string text;
  for (const MetricInfo& metric : metrics) {
    if (const int64_t above = NumAlarming(all, metric); above > 0) {
      text += "!  " + metric.name + " above " + analysis::ShortestNumber(metric.alarm) + ": " + std::to_string(above) +
              " of " + std::to_string(all.size()) + " heads\n";
    }
  }
  return text;
}

int RunAnalyze(AnalyzeArguments arguments) {
  arguments.options.classes = RulesOf(arguments.classes);
  if (arguments.print_classes) {
    WriteText(analysis::ClassRulesJson(arguments.options.classes), arguments.output, arguments.force);
    return kDone;
  }
  if (arguments.trace.empty()) throw UsageError({.problem = "a TRACE is missing", .remedy = "name the one to analyse"});
  analysis::StatisticsOptions& options = arguments.options;
  SortUnique(&options.cra_targets);
  SortUnique(&options.agreement_r);
  SortUnique(&options.agreement_k);
  CheckArguments(arguments);
  static_cast<void>(ChosenMetrics(arguments, {}, {}));  // a wrong name is refused before the trace is read
  const data::TraceReader trace(arguments.trace);
  CheckQueryRows(trace);
  const std::vector<analysis::HeadId> heads = ParseHeads(arguments.heads, analysis::RecordedHeads(trace));
  UseDevice(arguments.device);
  const std::stop_token stop = StopOnInterrupt();
  std::vector<analysis::HeadStatistics> all;
  std::vector<HeadNotes> of_heads(heads.size());
  {
    ProgressLine line(arguments.quiet);
    analysis::SweepOptions sweep;
    sweep.num_threads = options.num_threads;
    sweep.stop = stop;
    sweep.progress = [&](const analysis::SweepProgress& at) {
      line.Show("analysing", static_cast<int64_t>(at.done), static_cast<int64_t>(at.total), ProgressUnit::kHeads);
    };
    const auto look = [&](size_t at, const analysis::HeadTensors& head, const analysis::HeadStatistics& statistics) {
      of_heads[at].Look(head, trace);
      if (head.gpu == nullptr) return;
      if (statistics.device.is_gpu()) {
        of_heads[at].PartOnCpu(statistics.note);
      } else {
        of_heads[at].OnCpu(statistics.note);
      }
    };
    const kernels::Status status =
        analysis::SweepStatistics(trace, heads, arguments.device, options, sweep, look, &all);
    CheckStatus(status, arguments.trace);
  }
  HeadNotes notes;
  for (const HeadNotes& of_head : of_heads) notes.Append(of_head);
  notes.Print();
  if (arguments.output.empty()) {
    WriteText(
        MetricTable(all, ChosenMetrics(arguments, trace.layout(), all)) + AlarmText(all, ComputedMetrics(arguments)),
        "", false);
  } else {
    WriteResults(all, OriginOf(trace), arguments.output, arguments.force);
  }
  return kDone;
}

}  // namespace

void AddAnalyzeCommand(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("analyze", "Statistics and class of every head of a trace");
  auto arguments = std::make_shared<AnalyzeArguments>();
  command->add_option("trace", arguments->trace, "Trace; optional with --print-classes")->type_name("TRACE");
  AddRecordedHeadsOption(command, &arguments->heads);
  analysis::StatisticsOptions& options = arguments->options;
  AddMetricsOption(
      command, &arguments->metrics,
      "Columns of the printed table (the most telling ones): " + Listed(analysis::Metrics(), &MetricInfo::name));
  command->add_flag("--all", arguments->all, "Print every metric");
  command
      ->add_option("--alarm", arguments->alarms,
                   "Mark values of a metric above a number with !, and print its column (largest_logit=100, where "
                   "QK-clip acts)")
      ->delimiter(',')
      ->type_name("METRIC=VALUE,..");
  AddClassOptions(command, &arguments->classes);
  command->add_flag("--print-classes", arguments->print_classes, "Print the thresholds as JSON and stop");
  command
      ->add_option("--cra-targets", options.cra_targets,
                   "Shares of a row's mass to keep: reports the sparsity at each (metrics sparsity_T)")
      ->delimiter(',')
      ->capture_default_str()
      ->type_name("T,..");
  LimitIntegers(
      command->add_option("--agreement-r", options.agreement_r,
                          "Components of q used in the estimated scores of top-k agreement (metrics agreement_rR_kK)"),
      1, 65'536)
      ->delimiter(',')
      ->capture_default_str()
      ->type_name("R,..");
  LimitIntegers(command->add_option("--agreement-k", options.agreement_k, "Top keys that these scores should find"), 1)
      ->delimiter(',')
      ->capture_default_str()
      ->type_name("K,..");
  AddMaxRowsOption(command, &options.max_rows);
  AddDeviceOption(command, &arguments->device, "a GPU takes heads recorded in bf16 or fp16, and only all rows of them");
  AddOutputOptions(command, &arguments->output, &arguments->force, "Write everything to .json, .csv or .h5");
  AddThreadsOption(command, &options.num_threads);
  AddQuietOption(command, &arguments->quiet);
  command->callback([=, &action] { action = [=] { return RunAnalyze(*arguments); }; });
}

}  // namespace headscope::app
