// SPDX-License-Identifier: Apache-2.0
// What a table of results is as CSV: written to a file, as the program does, and read back as text.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "analysis/result_files.h"

namespace headscope::analysis {

template <typename Write>
std::string TextOfCsv(Write&& write) {
  const std::string path = ::testing::TempDir() + "csv_files_" + std::to_string(::getpid()) + ".csv";
  write(path);
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  file.close();
  std::filesystem::remove(path);
  return text;
}

inline std::string StatisticsCsv(const std::vector<HeadStatistics>& statistics, const RunOrigin& origin = {}) {
  return TextOfCsv([&](const std::string& path) { WriteStatistics(statistics, origin, path); });
}
inline std::string ComparisonCsv(const std::vector<MethodResult>& results) {
  return TextOfCsv([&](const std::string& path) { WriteComparison(results, path); });
}

}  // namespace headscope::analysis
