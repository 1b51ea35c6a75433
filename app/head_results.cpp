#include "head_results.h"

#include "analysis/result_files.h"
#include "capture/errors.h"
#include "errors.h"
#include "output_file.h"

namespace headscope::app {

void CheckStatus(const kernels::Status& status) {
  using kernels::StatusCode;
  switch (status.code()) {
    case StatusCode::kOk:
      return;
    case StatusCode::kInvalidArgument:
    case StatusCode::kUnsupported:
      throw UsageError(status.message());
    case StatusCode::kOutOfMemory:
    case StatusCode::kDeviceMissing:
      throw capture::DeviceError(status.message());
    case StatusCode::kDeviceError:
    case StatusCode::kCancelled:
      throw CommandError(status.message());
  }
}

void CheckResultsTarget(const std::string& path, bool force, const std::vector<std::string>& inputs) {
  if (!analysis::IsResultsPath(path)) throw UsageError("output " + path + ": the extension must be .json, .csv or .h5");
  CheckOutputTarget(path, force, inputs);
}

void WriteResults(const std::vector<analysis::HeadStatistics>& statistics, const std::string& path, bool force) {
  CheckResultsTarget(path, force);
  OutputFile output(path, force);
  output.Write([&](const std::string& temporary_path) { analysis::WriteStatistics(statistics, temporary_path); });
  output.Commit();
}

void WriteResults(const std::vector<analysis::MethodResult>& results, const std::string& path, bool force) {
  CheckResultsTarget(path, force);
  OutputFile output(path, force);
  output.Write([&](const std::string& temporary_path) { analysis::WriteComparison(results, temporary_path); });
  output.Commit();
}

}  // namespace headscope::app
