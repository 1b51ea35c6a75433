// SPDX-License-Identifier: Apache-2.0
#include "report_export.h"

#include <algorithm>
#include <filesystem>

#include "analysis/report.h"
#include "base/stop.h"
#include "map_export.h"
#include "support/output_file.h"
#include "support/run_origin.h"

namespace headscope::app {

void WriteReport(OpenedTrace& trace, const std::vector<analysis::HeadStatistics>& statistics,
                 const std::vector<analysis::MethodResult>& runs, const std::vector<ui::MapDrawing>& pictures,
                 bool alone, const std::string& path, const std::function<void(double share)>& progress,
                 const std::stop_token& stop) {
  const std::filesystem::path page(path);
  analysis::ReportInput report;
  const ui::TraceSummary& summary = trace.summary;
  report.title =
      summary.model_name + ", " + summary.prompt_source + ", " + std::to_string(summary.num_tokens) + " tokens";
  report.trace_path = std::filesystem::path(summary.path).filename().string();
  report.written = WrittenText(OriginOf(trace.reader));
  report.statistics = statistics;
  report.results = runs;
  if (!runs.empty()) {
    report.environment = runs.front().device.name;
    // A dense row has the date of the run that it stands beside.
    const auto dated =
        std::find_if(runs.begin(), runs.end(), [](const auto& run) { return !run.origin.measured_at.empty(); });
    if (dated != runs.end()) report.environment += ", " + dated->origin.measured_at.substr(0, 10);
  }
  for (size_t i = 0; i < pictures.size(); ++i) {
    const analysis::HeadId id = pictures[i].head;
    const std::string name =
        page.stem().string() + "-" + std::to_string(id.layer) + "-" + std::to_string(id.head) + ".png";
    const auto tell = [&](double share) {
      progress((static_cast<double>(i) + share) / static_cast<double>(pictures.size()));
    };
    WriteMapFile(trace, pictures[i], alone, (page.parent_path() / name).string(), tell, stop);
    StopIfAsked(stop);
    const auto known =
        std::find_if(statistics.begin(), statistics.end(), [id](const auto& one) { return one.id == id; });
    report.pictures.push_back({id,
                               known == statistics.end() ? std::string()
                                                         : std::string(analysis::HeadClassName(known->head_class)) +
                                                               ": " + known->class_reason,
                               name});
  }
  WriteText(analysis::ReportHtml(report), path, /*force=*/true);
}

}  // namespace headscope::app
