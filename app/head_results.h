// Between analysis' results and the files and exit codes of headscope.
#pragma once

#include <string>
#include <vector>

#include "analysis/types/comparison.h"
#include "analysis/types/head_statistics.h"
#include "kernels/status.h"

namespace headscope::app {

// Throws what main() turns into the right exit code when `status` is not ok.
void CheckStatus(const kernels::Status& status);

// Refuses (UsageError) a name that does not end in .json, .csv or .h5, and what CheckOutputTarget refuses.
void CheckResultsTarget(const std::string& path, bool force, const std::vector<std::string>& inputs = {});
// To a .json, .csv or .h5 file, through an OutputFile. Throw as CheckResultsTarget does, and CommandError.
void WriteResults(const std::vector<analysis::HeadStatistics>& statistics, const std::string& path, bool force);
void WriteResults(const std::vector<analysis::MethodResult>& results, const std::string& path, bool force);

}  // namespace headscope::app
