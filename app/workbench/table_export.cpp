// SPDX-License-Identifier: Apache-2.0
#include "table_export.h"

#include <nlohmann/json.hpp>

#include "analysis/result_files.h"
#include "analysis/types/printable.h"
#include "choices/head_results.h"

namespace headscope::app {
namespace {

// The file is untrusted, and tables and panels show what it says.
void MakePrintable(analysis::MethodResult* run) {
  for (std::string* text :
       {&run->method, &run->parameters, &run->baseline, &run->device.name, &run->select_device.name, &run->note,
        &run->origin.trace, &run->origin.model, &run->origin.measured_at, &run->origin.version})
    *text = analysis::Printable(*text);
}

}  // namespace

// The dialog has asked whether an existing file may go.
void ExportRuns(const std::vector<analysis::MethodResult>& runs, const std::string& path) {
  WriteResults(runs, path, /*force=*/true);
}

void ExportStatistics(const std::vector<analysis::HeadStatistics>& statistics, const analysis::RunOrigin& origin,
                      const std::string& path) {
  WriteResults(statistics, origin, path, /*force=*/true);
}

std::vector<analysis::MethodResult> ReadRuns(const std::string& path) {
  std::vector<analysis::MethodResult> runs = analysis::ReadComparison(path);
  for (analysis::MethodResult& run : runs) MakePrintable(&run);
  return runs;
}

std::string RunAsJson(const analysis::MethodResult& run) {
  return nlohmann::json::parse(analysis::ComparisonJson({run}))["results"][0].dump();
}

std::optional<analysis::MethodResult> RunFromJson(const std::string& json) {
  const nlohmann::json run = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!run.is_object()) return std::nullopt;
  const nlohmann::json table{{"schema", "headscope-comparison-2"}, {"results", {run}}};
  try {
    analysis::MethodResult read = analysis::ParseComparisonJson(table.dump(), "run").front();
    MakePrintable(&read);
    return read;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace headscope::app
