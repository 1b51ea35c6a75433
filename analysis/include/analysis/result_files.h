// SPDX-License-Identifier: Apache-2.0
// Statistics of heads and measured runs as files: JSON, CSV or HDF5, by the extension of the name.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "analysis/types/comparison.h"
#include "analysis/types/head_statistics.h"
#include "base/file_format.h"

namespace headscope::analysis {

// Stable, versioned schemas ("schema": "headscope-statistics-1", "headscope-comparison-2").
std::string StatisticsJson(const std::vector<HeadStatistics>& statistics, const RunOrigin& origin = {});
std::string ComparisonJson(const std::vector<MethodResult>& results);

inline constexpr std::array kResultFormats = {FileFormat::kJson, FileFormat::kCsv, FileFormat::kHdf5};
// The same fields in each of the three (analysis/result_fields.h). `path` must not exist when it ends in .h5. Throws
// UsageError for another kind of file, FailedError when the file cannot be written.
void WriteStatistics(const std::vector<HeadStatistics>& statistics, const RunOrigin& origin, const std::string& path);
void WriteComparison(const std::vector<MethodResult>& results, const std::string& path);

inline constexpr std::array kRowFormats = {FileFormat::kCsv, FileFormat::kHdf5};
// A line for each row of each run that has kept its rows (CompareOptions::keep_rows). As WriteComparison.
void WriteKeptRows(const std::vector<MethodResult>& results, const std::string& path);

// Runs as WriteComparison wrote them to .json or .csv, or as the window keeps them beside a trace
// (NAME.h5.headscope.json, "headscope-trace-state-1"): of `text`, or of a file by its extension (.json or .csv). Fields
// that are missing keep their defaults. Throws BadInputError with one sentence that names `source` and what is
// wrong with it: no such table, or an entry without a method.
std::vector<MethodResult> ParseComparisonJson(const std::string& text, const std::string& source);
std::vector<MethodResult> ParseComparisonCsv(const std::string& text, const std::string& source);
std::vector<MethodResult> ReadComparison(const std::string& path);

}  // namespace headscope::analysis
