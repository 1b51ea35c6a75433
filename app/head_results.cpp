#include "head_results.h"

#include <cmath>
#include <stdexcept>

#include "capture/errors.h"
#include "errors.h"

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

std::vector<data::ResultsColumn> StatisticsColumns(const std::vector<analysis::HeadStatistics>& statistics) {
  std::vector<data::ResultsColumn> columns;
  std::vector<double> layers, heads, kv_heads;
  std::vector<std::string> classes;
  for (const analysis::HeadStatistics& head : statistics) {
    layers.push_back(head.id.layer);
    heads.push_back(head.id.head);
    kv_heads.push_back(head.kv_head);
    classes.emplace_back(analysis::HeadClassName(head.head_class));
  }
  columns.push_back({"layer", "", layers});
  columns.push_back({"head", "", heads});
  columns.push_back({"kv_head", "", kv_heads});
  columns.push_back({"class", "", classes});
  for (const analysis::MetricInfo& metric : analysis::Metrics()) {
    std::vector<double> values;
    for (const analysis::HeadStatistics& head : statistics) values.push_back(analysis::MetricValue(head, metric.name));
    columns.push_back({metric.name, metric.unit, values});
  }
  return columns;
}

std::vector<data::ResultsColumn> ResultColumns(const std::vector<analysis::MethodResult>& results) {
  std::vector<data::ResultsColumn> columns;
  const auto numbers = [&](const char* name, const char* unit, auto&& value) {
    std::vector<double> column;
    for (const analysis::MethodResult& result : results) column.push_back(static_cast<double>(value(result)));
    columns.push_back({name, unit, column});
  };
  const auto strings = [&](const char* name, auto&& value) {
    std::vector<std::string> column;
    for (const analysis::MethodResult& result : results) column.push_back(value(result));
    columns.push_back({name, "", column});
  };
  using Result = analysis::MethodResult;
  numbers("layer", "", [](const Result& r) { return r.head.layer; });
  numbers("head", "", [](const Result& r) { return r.head.head; });
  strings("method", [](const Result& r) { return r.method; });
  strings("parameters", [](const Result& r) { return r.parameters; });
  strings("phase", [](const Result& r) { return r.phase; });
  strings("device", [](const Result& r) { return r.device; });
  numbers("kept_fraction", "share", [](const Result& r) { return r.kept_fraction; });
  numbers("cra_min", "share", [](const Result& r) { return r.cra_min; });
  numbers("cra_mean", "share", [](const Result& r) { return r.cra_mean; });
  numbers("select_median", "ms", [](const Result& r) { return r.select.median_ms; });
  numbers("select_mad", "ms", [](const Result& r) { return r.select.mad_ms; });
  numbers("attend_median", "ms", [](const Result& r) { return r.attend.median_ms; });
  numbers("attend_mad", "ms", [](const Result& r) { return r.attend.mad_ms; });
  numbers("dense_attend_median", "ms", [](const Result& r) { return r.dense_attend.median_ms; });
  numbers("dense_attend_mad", "ms", [](const Result& r) { return r.dense_attend.mad_ms; });
  numbers("repeats", "", [](const Result& r) { return r.attend.repeats; });
  numbers("speedup", "", [](const Result& r) { return r.speedup; });
  numbers("relative_error", "", [](const Result& r) { return r.relative_error; });
  numbers("max_error", "", [](const Result& r) { return r.max_error; });
  numbers("cosine", "", [](const Result& r) { return r.cosine; });
  numbers("kernel_error", "", [](const Result& r) { return r.kernel_error; });
  return columns;
}

}  // namespace headscope::app
