// Tables of the window as files: the same tables and writers as the command line's.
#pragma once

#include <string>
#include <vector>

#include "analysis/types/comparison.h"
#include "analysis/types/head_statistics.h"

namespace headscope::app {

// .csv, .json or .h5 by the path's extension. An existing file is replaced, and only by a complete one. Throws
// std::exception with one sentence.
void ExportRuns(const std::vector<analysis::MethodResult>& runs, const std::string& path);
void ExportStatistics(const std::vector<analysis::HeadStatistics>& statistics, const std::string& path);

}  // namespace headscope::app
