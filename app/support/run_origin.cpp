// SPDX-License-Identifier: Apache-2.0
#include "support/run_origin.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>

#include "analysis/csv_text.h"
#include "base/version.h"

namespace headscope::app {

namespace {

std::string Absolute(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.lexically_normal().string();
}

}  // namespace

analysis::RunOrigin OriginOf(const std::vector<std::string>& traces, const std::vector<std::string>& models) {
  analysis::RunOrigin origin;
  for (const std::string& trace : traces) origin.trace += (origin.trace.empty() ? "" : "; ") + Absolute(trace);
  for (auto model = models.begin(); model != models.end(); ++model) {
    if (std::find(models.begin(), model, *model) == model)
      origin.model += (model == models.begin() ? "" : "; ") + *model;
  }
  origin.version = Version();
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  std::array<char, 32> text{};
  if (gmtime_r(&now, &utc) != nullptr && std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc) > 0)
    origin.measured_at = text.data();
  return origin;
}

analysis::RunOrigin OriginOf(const data::TraceReader& trace) {
  return OriginOf({trace.path()}, {trace.layout().model.name});
}

CsvOrigin CsvOriginOf(const CsvColumns& columns) {
  CsvOrigin origin;
  for (const auto& [name, text] : columns) {
    origin.names += "," + name;
    origin.cells += "," + analysis::CsvText(text);
  }
  return origin;
}

CsvColumns OriginColumns(const analysis::RunOrigin& origin) {
  const auto [trace, model, written_at, version] = kOriginNames;
  return {{trace, origin.trace}, {model, origin.model}, {written_at, origin.measured_at}, {version, origin.version}};
}

CsvColumns OriginColumns(const NamedDevice& device, const analysis::RunOrigin& origin) {
  CsvColumns columns = OriginColumns(origin);
  columns.insert(columns.begin(), {"device", device.name});
  return columns;
}

std::string WrittenText(const analysis::RunOrigin& origin) {
  return origin.measured_at.substr(0, origin.measured_at.find('T')) + " by headscope " + origin.version;
}

}  // namespace headscope::app
