// Between analysis' results and the files and exit codes of the command line.
#pragma once

#include <vector>

#include "analysis/types/comparison.h"
#include "analysis/types/head_statistics.h"
#include "data/results_file.h"
#include "kernels/status.h"

namespace headscope::app {

// Throws what main() turns into the right exit code when `status` is not ok.
void CheckStatus(const kernels::Status& status);

std::vector<data::ResultsColumn> StatisticsColumns(const std::vector<analysis::HeadStatistics>& statistics);
std::vector<data::ResultsColumn> ResultColumns(const std::vector<analysis::MethodResult>& results);

}  // namespace headscope::app
