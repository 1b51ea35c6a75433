#include "table_export.h"

#include "head_results.h"

namespace headscope::app {

// The dialog has asked whether an existing file may go.
void ExportRuns(const std::vector<analysis::MethodResult>& runs, const std::string& path) {
  WriteResults(runs, path, /*force=*/true);
}

void ExportStatistics(const std::vector<analysis::HeadStatistics>& statistics, const std::string& path) {
  WriteResults(statistics, path, /*force=*/true);
}

}  // namespace headscope::app
