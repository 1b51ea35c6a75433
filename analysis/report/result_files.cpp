// SPDX-License-Identifier: Apache-2.0
// Results as JSON and CSV. Field names are part of the schemas; a change of meaning raises the schema's number.
#include "analysis/result_files.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "analysis/csv_text.h"
#include "analysis/result_fields.h"
#include "analysis/types/printable.h"
#include "base/errors.h"
#include "data/results_file.h"

namespace headscope::analysis {
namespace {

using OrderedJson = nlohmann::ordered_json;
template <typename Row>
using FieldsOf = std::function<std::vector<ResultField>(const Row&)>;

OrderedJson ToJson(const std::vector<ResultField>& fields) {
  OrderedJson json;
  for (const ResultField& field : fields) {
    if (field.json.empty()) continue;
    OrderedJson& member = json[OrderedJson::json_pointer(field.json)];
    std::visit([&member](const auto& value) { member = value; }, field.value);
  }
  return json;
}

OrderedJson ToJson(const HeadStatistics& statistics, const RunOrigin& origin) {
  OrderedJson json = ToJson(StatisticsFields(statistics, origin));
  json["top_k_mass"] = OrderedJson::array();
  for (const TopKMass& entry : statistics.top_k_mass)
    json["top_k_mass"].push_back({{"k", entry.k}, {"mean", entry.mean}});
  json["top_k_agreement"] = OrderedJson::array();
  for (const TopKAgreement& entry : statistics.agreement) {
    json["top_k_agreement"].push_back({{"r", entry.r}, {"k", entry.k}, {"mean", entry.mean}});
  }
  json["sparsity_at_cra"] = OrderedJson::array();
  for (const SparsityAtCra& entry : statistics.sparsity) {
    json["sparsity_at_cra"].push_back({{"target", entry.target}, {"sparsity", entry.sparsity}});
  }
  json["column_profile"] = statistics.column_profile;
  json["diagonal_profile"] = statistics.diagonal_profile;
  json["logit_profile"] = statistics.logit_profile;
  return json;
}

template <typename Entry, typename EntryJson>
std::string Document(const char* schema, const char* list, const std::vector<Entry>& entries, EntryJson&& json_of) {
  OrderedJson json;
  json["schema"] = schema;
  json[list] = OrderedJson::array();
  for (const Entry& entry : entries) json[list].push_back(json_of(entry));
  return PrintableJson(json.dump(2, ' ', /*ensure_ascii=*/false, OrderedJson::error_handler_t::replace)) + "\n";
}

// The fields that name the columns: of the first row, for all have the same; a table without rows has its header too.
template <typename Row>
std::vector<ResultField> HeaderFields(const std::vector<Row>& rows, const FieldsOf<Row>& fields_of) {
  return fields_of(rows.empty() ? Row{} : rows.front());
}

// One line per row.
template <typename Row>
std::string Csv(const std::vector<Row>& rows, const FieldsOf<Row>& fields_of) {
  std::string csv;
  for (const ResultField& field : HeaderFields(rows, fields_of)) csv += (csv.empty() ? "" : ",") + field.name;
  csv += '\n';
  for (const Row& row : rows) {
    std::string line;
    for (const ResultField& field : fields_of(row)) {
      line += std::visit([](const auto& value) { return CsvText(value); }, field.value);
      line += ',';
    }
    line.back() = '\n';
    csv += line;
  }
  return csv;
}

// The columns of an HDF5 table, numbers as float64. A table without rows keeps the columns' names and types.
template <typename Row>
std::vector<data::ResultsColumn> Columns(const std::vector<Row>& rows, const FieldsOf<Row>& fields_of) {
  std::vector<data::ResultsColumn> columns;
  for (const ResultField& field : HeaderFields(rows, fields_of)) {
    data::ResultsColumn column{field.name, field.unit, std::vector<double>{}};
    if (std::holds_alternative<std::string>(field.value)) column.values = std::vector<std::string>{};
    columns.push_back(std::move(column));
  }
  for (const Row& row : rows) {
    const std::vector<ResultField> fields = fields_of(row);
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

void WriteText(const std::string& text, const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file)
    throw FailedError(
        {.file = path, .problem = std::strerror(errno), .remedy = "check the folder's permissions and free space"});
}

template <typename Row>
void Write(const std::vector<Row>& rows, const FieldsOf<Row>& fields_of,
           const std::function<std::string(const std::vector<Row>&)>& json_of, const std::string& path) {
  switch (FormatOfOutput(path, kResultFormats)) {
    case FileFormat::kJson:
      return WriteText(json_of(rows), path);
    case FileFormat::kCsv:
      return WriteText(Csv(rows, fields_of), path);
    default:
      return data::WriteResults(path, Columns(rows, fields_of));
  }
}

struct KeptRow {
  const MethodResult* run = nullptr;
  RowMass row;
};

std::vector<ResultField> KeptRowFields(const KeptRow& kept) {
  static const MethodResult no_run;
  const MethodResult& run = kept.run != nullptr ? *kept.run : no_run;
  return {{"layer", "", "", int64_t{run.head.layer}},
          {"head", "", "", int64_t{run.head.head}},
          {"method", "", "", run.method},
          {"parameters", "", "", run.parameters},
          {"position", "", "", int64_t{kept.row.position}},
          {"kept_mass", "share", "", static_cast<double>(kept.row.mass)}};
}

}  // namespace

std::string StatisticsJson(const std::vector<HeadStatistics>& statistics, const RunOrigin& origin) {
  return Document("headscope-statistics-1", "heads", statistics,
                  [&origin](const HeadStatistics& head) { return ToJson(head, origin); });
}

std::string ComparisonJson(const std::vector<MethodResult>& results) {
  return Document("headscope-comparison-2", "results", results,
                  [](const MethodResult& result) { return ToJson(ComparisonFields(result)); });
}

void WriteStatistics(const std::vector<HeadStatistics>& statistics, const RunOrigin& origin, const std::string& path) {
  Write<HeadStatistics>(
      statistics, [&origin](const HeadStatistics& head) { return StatisticsFields(head, origin); },
      [&origin](const std::vector<HeadStatistics>& heads) { return StatisticsJson(heads, origin); }, path);
}

void WriteComparison(const std::vector<MethodResult>& results, const std::string& path) {
  Write<MethodResult>(results, &ComparisonFields, &ComparisonJson, path);
}

void WriteKeptRows(const std::vector<MethodResult>& results, const std::string& path) {
  std::vector<KeptRow> rows;
  for (const MethodResult& run : results) {
    for (const RowMass& row : run.kept_mass) rows.push_back({&run, row});
  }
  const FieldsOf<KeptRow> fields_of = &KeptRowFields;
  if (FormatOfOutput(path, kRowFormats) == FileFormat::kCsv) {
    WriteText(Csv(rows, fields_of), path);
  } else {
    data::WriteResults(path, Columns(rows, fields_of));
  }
}

}  // namespace headscope::analysis
