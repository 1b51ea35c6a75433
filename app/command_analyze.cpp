// headscope analyze TRACE [--heads L:H,..] [--metrics a,b] [-o OUT.json|.csv|.h5]
#include <algorithm>
#include <iomanip>
#include <memory>
#include <sstream>

#include "analysis/statistics.h"
#include "command.h"
#include "data/trace_reader.h"
#include "errors.h"
#include "exit_codes.h"
#include "head_results.h"
#include "interrupt.h"
#include "output_file.h"
#include "progress_line.h"
#include "selection.h"

namespace headscope::app {
namespace {

struct AnalyzeArguments {
  std::string trace, heads, metrics, output;
  int64_t max_rows = 0;
  int32_t threads = 0;
  bool force = false, quiet = false;
};

std::vector<std::string> ChosenMetrics(const std::string& text) {
  std::vector<std::string> names, known;
  for (const analysis::MetricInfo& metric : analysis::Metrics()) known.push_back(metric.name);
  if (text.empty()) return known;
  std::istringstream list(text);
  for (std::string name; std::getline(list, name, ',');) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      std::string all;
      for (const std::string& one : known) all += (all.empty() ? "" : ", ") + one;
      throw UsageError("--metrics: '" + name + "' is not known; choose from " + all);
    }
    names.push_back(name);
  }
  return names;
}

// The table that people read: one line a head, one column a metric.
std::string MetricTable(const std::vector<analysis::HeadStatistics>& all, const std::vector<std::string>& metrics) {
  std::ostringstream out;
  out << "layer:head  " << std::left << std::setw(15) << "class";
  for (const std::string& metric : metrics)
    out << std::right << std::setw(std::max(10, static_cast<int>(metric.size()) + 2)) << metric;
  out << '\n';
  for (const analysis::HeadStatistics& head : all) {
    const std::string id = std::to_string(head.id.layer) + ":" + std::to_string(head.id.head);
    out << std::left << std::setw(12) << id << std::setw(15) << analysis::HeadClassName(head.head_class) << std::right
        << std::fixed << std::setprecision(4);
    for (const std::string& metric : metrics) {
      out << std::setw(std::max(10, static_cast<int>(metric.size()) + 2)) << analysis::MetricValue(head, metric);
    }
    out << '\n';
  }
  return out.str();
}

int RunAnalyze(const AnalyzeArguments& arguments) {
  if (!arguments.output.empty()) CheckResultsTarget(arguments.output, arguments.force, {arguments.trace});
  if (!arguments.metrics.empty() && !arguments.output.empty()) {
    throw UsageError("--metrics " + arguments.metrics +
                     " chooses columns of the printed table, and a file holds every metric: give --metrics or -o");
  }
  const std::vector<std::string> metrics = ChosenMetrics(arguments.metrics);
  const data::TraceReader trace(arguments.trace);
  const std::vector<analysis::HeadId> heads = ParseHeads(arguments.heads, analysis::RecordedHeads(trace));
  analysis::StatisticsOptions options;
  options.max_rows = arguments.max_rows;
  options.num_threads = arguments.threads;
  options.cancelled = InstallInterruptFlag();
  std::vector<analysis::HeadStatistics> all;
  {
    ProgressLine line(arguments.quiet);
    for (const analysis::HeadId& id : heads) {
      all.push_back(analysis::ComputeStatistics(*analysis::LoadHead(trace, id), options));
      if (Interrupted()) return kInterrupted;
      line.Show("analysing", static_cast<int64_t>(all.size()), static_cast<int64_t>(heads.size()), "heads");
    }
  }
  if (arguments.output.empty()) {
    WriteText(MetricTable(all, metrics), "", false);
  } else {
    WriteResults(all, arguments.output, arguments.force);
  }
  return kDone;
}

}  // namespace

void AddAnalyzeCommand(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("analyze", "Statistics and class of every head of a trace");
  auto arguments = std::make_shared<AnalyzeArguments>();
  command->add_option("trace", arguments->trace, "Trace")->required()->type_name("TRACE");
  command->add_option("--heads", arguments->heads, "Heads, such as 4:3,2:* (all recorded)")->type_name("L:H,..");
  command->add_option("--metrics", arguments->metrics, "Columns of the printed table (all)")->type_name("a,b");
  command->add_option("--max-rows", arguments->max_rows, "Sample about this many query rows (0: every row)")
      ->capture_default_str();
  command->add_option("-o,--output", arguments->output, "Write everything to .json, .csv or .h5")->type_name("OUT");
  command->add_option("--threads", arguments->threads, "CPU threads (0: all cores)")->capture_default_str();
  command->add_flag("--force", arguments->force, "Replace an existing output");
  command->add_flag("--quiet", arguments->quiet, "No progress");
  command->callback([=, &action] { action = [=] { return RunAnalyze(*arguments); }; });
}

}  // namespace headscope::app
