#include "table_export.h"

#include <filesystem>
#include <fstream>
#include <functional>

#include "analysis/report.h"
#include "errors.h"
#include "head_results.h"
#include "output_file.h"

namespace headscope::app {
namespace {

struct Forms {
  std::function<std::string()> csv, json;
  std::function<std::vector<data::ResultsColumn>()> columns;
};

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
          .columns = [&] { return ResultColumns(runs); }},
         path);
}

void ExportStatistics(const std::vector<analysis::HeadStatistics>& statistics, const std::string& path) {
  Export({.csv = [&] { return analysis::StatisticsCsv(statistics); },
          .json = [&] { return analysis::StatisticsJson(statistics); },
          .columns = [&] { return StatisticsColumns(statistics); }},
         path);
}

}  // namespace headscope::app
