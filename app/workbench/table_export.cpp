#include "table_export.h"

#include <filesystem>
#include <fstream>
#include <functional>

#include "analysis/report.h"
#include "data/results_file.h"
#include "errors.h"
#include "output_file.h"

namespace headscope::app {
namespace {

using Columns = std::vector<data::ResultsColumn>;

struct Forms {
  std::function<std::string()> csv, json;
  std::function<Columns()> columns;
};

Columns StatisticsColumns(const std::vector<analysis::HeadStatistics>& statistics) {
  Columns columns;
  const auto numbers = [&](const std::string& name, const std::string& unit, auto&& value) {
    std::vector<double> values;
    for (const analysis::HeadStatistics& head : statistics) values.push_back(static_cast<double>(value(head)));
    columns.push_back({name, unit, std::move(values)});
  };
  using Head = analysis::HeadStatistics;
  numbers("layer", "", [](const Head& head) { return head.id.layer; });
  numbers("head", "", [](const Head& head) { return head.id.head; });
  numbers("kv_head", "", [](const Head& head) { return head.kv_head; });
  numbers("rows", "", [](const Head& head) { return head.num_rows; });
  std::vector<std::string> classes;
  for (const Head& head : statistics) classes.emplace_back(analysis::HeadClassName(head.head_class));
  columns.push_back({"class", "", std::move(classes)});
  for (const analysis::MetricInfo& metric : analysis::Metrics()) {
    numbers(metric.name, metric.unit, [&](const Head& head) { return analysis::MetricValue(head, metric.name); });
  }
  return columns;
}

Columns RunColumns(const std::vector<analysis::MethodResult>& runs) {
  using Run = analysis::MethodResult;
  Columns columns;
  const auto numbers = [&](const char* name, const char* unit, auto&& value) {
    std::vector<double> values;
    for (const Run& run : runs) values.push_back(static_cast<double>(value(run)));
    columns.push_back({name, unit, std::move(values)});
  };
  const auto texts = [&](const char* name, std::string Run::*member) {
    std::vector<std::string> values;
    for (const Run& run : runs) values.push_back(run.*member);
    columns.push_back({name, "", std::move(values)});
  };
  numbers("layer", "", [](const Run& run) { return run.head.layer; });
  numbers("head", "", [](const Run& run) { return run.head.head; });
  texts("method", &Run::method);
  texts("parameters", &Run::parameters);
  texts("phase", &Run::phase);
  texts("device", &Run::device);
  numbers("kept_fraction", "share", [](const Run& run) { return run.kept_fraction; });
  numbers("cra_min", "share", [](const Run& run) { return run.cra_min; });
  numbers("cra_mean", "share", [](const Run& run) { return run.cra_mean; });
  numbers("select_median", "ms", [](const Run& run) { return run.select.median_ms; });
  numbers("select_mad", "ms", [](const Run& run) { return run.select.mad_ms; });
  numbers("attend_median", "ms", [](const Run& run) { return run.attend.median_ms; });
  numbers("attend_mad", "ms", [](const Run& run) { return run.attend.mad_ms; });
  numbers("dense_attend_median", "ms", [](const Run& run) { return run.dense_attend.median_ms; });
  numbers("dense_attend_mad", "ms", [](const Run& run) { return run.dense_attend.mad_ms; });
  numbers("repeats", "", [](const Run& run) { return run.attend.repeats; });
  numbers("speedup", "", [](const Run& run) { return run.speedup; });
  numbers("relative_error", "", [](const Run& run) { return run.relative_error; });
  numbers("max_error", "", [](const Run& run) { return run.max_error; });
  numbers("cosine", "", [](const Run& run) { return run.cosine; });
  numbers("kernel_error", "", [](const Run& run) { return run.kernel_error; });
  return columns;
}

void Export(const Forms& forms, const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension().string();
  if (extension != ".csv" && extension != ".json" && extension != ".h5") {
    throw UsageError("The file " + path + " cannot be written: its name must end in .csv, .json or .h5.");
  }
  // The dialog has asked whether an existing file may go.
  OutputFile output(path, /*force=*/true);
  if (extension == ".h5") {
    data::WriteResults(output.temporary_path(), forms.columns());
  } else {
    std::ofstream file(output.temporary_path(), std::ios::binary | std::ios::trunc);
    file << (extension == ".csv" ? forms.csv() : forms.json());
    file.flush();
    if (!file)
      throw CommandError("The file " + path +
                         " cannot be written: the folder is missing or read-only, or the disk is full.");
  }
  output.Commit();
}

}  // namespace

void ExportRuns(const std::vector<analysis::MethodResult>& runs, const std::string& path) {
  Export({.csv = [&] { return analysis::ComparisonCsv(runs); },
          .json = [&] { return analysis::ComparisonJson(runs); },
          .columns = [&] { return RunColumns(runs); }},
         path);
}

void ExportStatistics(const std::vector<analysis::HeadStatistics>& statistics, const std::string& path) {
  Export({.csv = [&] { return analysis::StatisticsCsv(statistics); },
          .json = [&] { return analysis::StatisticsJson(statistics); },
          .columns = [&] { return StatisticsColumns(statistics); }},
         path);
}

}  // namespace headscope::app
