// Results as JSON and CSV. Field names are part of the schemas; a change of meaning raises the schema's number.
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "analysis/report.h"
#include "analysis/result_fields.h"

namespace headscope::analysis {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const std::vector<ResultField>& fields) {
  Json json;
  for (const ResultField& field : fields) {
    if (field.json.empty()) continue;
    Json& member = json[Json::json_pointer(field.json)];
    std::visit([&member](const auto& value) { member = value; }, field.value);
  }
  return json;
}

Json ToJson(const HeadStatistics& statistics) {
  Json json = ToJson(StatisticsFields(statistics));
  json["top_k_mass"] = Json::array();
  for (const TopKMass& entry : statistics.top_k_mass)
    json["top_k_mass"].push_back({{"k", entry.k}, {"mean", entry.mean}});
  json["top_k_agreement"] = Json::array();
  for (const TopKAgreement& entry : statistics.agreement) {
    json["top_k_agreement"].push_back({{"r", entry.r}, {"k", entry.k}, {"mean", entry.mean}});
  }
  json["sparsity_at_cra"] = Json::array();
  for (const SparsityAtCra& entry : statistics.sparsity) {
    json["sparsity_at_cra"].push_back({{"target", entry.target}, {"sparsity", entry.sparsity}});
  }
  json["column_profile"] = statistics.column_profile;
  json["diagonal_profile"] = statistics.diagonal_profile;
  return json;
}

Json ToJson(const MethodResult& result) {
  return ToJson(ComparisonFields(result));
}

template <typename Entry>
std::string Document(const char* schema, const char* list, const std::vector<Entry>& entries) {
  Json json;
  json["schema"] = schema;
  json[list] = Json::array();
  for (const Entry& entry : entries) json[list].push_back(ToJson(entry));
  return json.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

// RFC 4180: quotes where a comma, a quote or a line end is inside.
std::string CsvText(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char character : text) quoted.append(character == '"' ? 2 : 1, character);
  return quoted + "\"";
}

// Shortest text that reads back as the same number.
std::string CsvText(double value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

std::string CsvText(int64_t value) {
  return std::to_string(value);
}

// One line per row. The names come from the fields of an empty row, so a table without rows has its header too.
template <typename Row>
std::string Csv(const std::vector<Row>& rows, std::vector<ResultField> (*fields_of)(const Row&)) {
  std::string csv;
  for (const ResultField& field : fields_of(Row{})) csv += (csv.empty() ? "" : ",") + field.name;
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

}  // namespace

std::string StatisticsJson(const std::vector<HeadStatistics>& statistics) {
  return Document("headscope-statistics-1", "heads", statistics);
}

std::string ComparisonJson(const std::vector<MethodResult>& results) {
  return Document("headscope-comparison-1", "results", results);
}

std::string StatisticsCsv(const std::vector<HeadStatistics>& statistics) {
  return Csv(statistics, &StatisticsFields);
}

std::string ComparisonCsv(const std::vector<MethodResult>& results) {
  return Csv(results, &ComparisonFields);
}

}  // namespace headscope::analysis
