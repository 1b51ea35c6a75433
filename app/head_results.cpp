#include "head_results.h"

#include <utility>

#include "analysis/result_fields.h"
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

namespace {

// The table's columns, numbers as float64. A table without rows keeps the columns' names and types.
template <typename Row>
std::vector<data::ResultsColumn> Columns(const std::vector<Row>& rows,
                                         std::vector<analysis::ResultField> (*fields_of)(const Row&)) {
  std::vector<data::ResultsColumn> columns;
  for (const analysis::ResultField& field : fields_of(Row{})) {
    data::ResultsColumn column{field.name, field.unit, std::vector<double>{}};
    if (std::holds_alternative<std::string>(field.value)) column.values = std::vector<std::string>{};
    columns.push_back(std::move(column));
  }
  for (const Row& row : rows) {
    const std::vector<analysis::ResultField> fields = fields_of(row);
    for (size_t i = 0; i < fields.size(); ++i) {
      if (const auto* text = std::get_if<std::string>(&fields[i].value)) {
        std::get<std::vector<std::string>>(columns[i].values).push_back(*text);
      } else {
        const auto* whole = std::get_if<int64_t>(&fields[i].value);
        std::get<std::vector<double>>(columns[i].values)
            .push_back(whole != nullptr ? static_cast<double>(*whole) : std::get<double>(fields[i].value));
      }
    }
  }
  return columns;
}

}  // namespace

std::vector<data::ResultsColumn> StatisticsColumns(const std::vector<analysis::HeadStatistics>& statistics) {
  return Columns(statistics, &analysis::StatisticsFields);
}

std::vector<data::ResultsColumn> ResultColumns(const std::vector<analysis::MethodResult>& results) {
  return Columns(results, &analysis::ComparisonFields);
}

}  // namespace headscope::app
