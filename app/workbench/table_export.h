// SPDX-License-Identifier: Apache-2.0
// Tables of the window as files: the same tables, writers and readers as the command line's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/types/comparison.h"
#include "analysis/types/head_statistics.h"

namespace headscope::app {

// .csv, .json or .h5 by the path's extension. An existing file is replaced, and only by a complete one. Throws
// std::exception with one sentence.
void ExportRuns(const std::vector<analysis::MethodResult>& runs, const std::string& path);
void ExportStatistics(const std::vector<analysis::HeadStatistics>& statistics, const analysis::RunOrigin& origin,
                      const std::string& path);

// What ExportRuns or `headscope compare` wrote to .json or .csv. Throws std::exception with one sentence.
std::vector<analysis::MethodResult> ReadRuns(const std::string& path);
// One run as a JSON object, and back; nothing for a text that is none.
std::string RunAsJson(const analysis::MethodResult& run);
std::optional<analysis::MethodResult> RunFromJson(const std::string& json);

}  // namespace headscope::app
