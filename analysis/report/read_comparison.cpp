// SPDX-License-Identifier: Apache-2.0
// Measured runs read back from the JSON and CSV that they were written to. The files are untrusted.
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/csv_text.h"
#include "analysis/result_fields.h"
#include "analysis/result_files.h"
#include "base/error_with_help.h"
#include "base/errors.h"
#include "base/file_format.h"
#include "base/quoted_text.h"
#include "data/shallow_json.h"

namespace headscope::analysis {
namespace {

using ReadJson = nlohmann::json;

constexpr std::streamoff kMostBytes = 64 << 20;

[[noreturn]] void Refuse(const std::string& source, const std::string& why) {
  throw ErrorWithHelp<BadInputError>(
      {.file = source, .problem = why, .remedy = "choose a .json or .csv file of runs that headscope wrote"},
      Help::kMeasure);
}

std::optional<FieldValue> FromJson(const ReadJson& entry, const ResultField& field) {
  const ReadJson::json_pointer pointer(field.json);
  if (!entry.contains(pointer)) return std::nullopt;
  const ReadJson& member = entry[pointer];
  if (std::holds_alternative<std::string>(field.value))
    return member.is_string() ? std::optional<FieldValue>(member.get<std::string>()) : std::nullopt;
  if (std::holds_alternative<int64_t>(field.value))
    return member.is_number_integer() ? std::optional<FieldValue>(member.get<int64_t>()) : std::nullopt;
  if (member.is_null()) return std::numeric_limits<double>::quiet_NaN();  // JSON has no other word for it
  return member.is_number() ? std::optional<FieldValue>(member.get<double>()) : std::nullopt;
}

// The run whose fields are what `value_of` says of them; an error names the file.
MethodResult RunFrom(const std::function<std::optional<FieldValue>(const ResultField& field)>& value_of,
                     const std::string& source) {
  try {
    return ComparisonFrom(value_of);
  } catch (BadInputError& error) {
    error.SetFile(source);
    throw;
  }
}

std::optional<FieldValue> FromCsv(const std::string& text, const ResultField& field) {
  if (std::holds_alternative<std::string>(field.value)) return text;
  char* end = nullptr;
  if (std::holds_alternative<int64_t>(field.value)) {
    const int64_t whole = std::strtoll(text.c_str(), &end, 10);
    return text.empty() || *end != '\0' ? std::nullopt : std::optional<FieldValue>(whole);
  }
  if (text.empty()) return std::numeric_limits<double>::quiet_NaN();
  const double number = std::strtod(text.c_str(), &end);
  return *end != '\0' ? std::nullopt : std::optional<FieldValue>(number);
}

}  // namespace

std::vector<MethodResult> ParseComparisonJson(const std::string& text, const std::string& source) {
  std::optional<std::string> twice;
  const std::optional<ReadJson> parsed = data::ParseShallowJson<ReadJson>(text, &twice);
  if (twice) Refuse(source, Quoted(*twice) + " appears twice in one object");
  if (!parsed) Refuse(source, "it is nested more than " + std::to_string(data::kMostJsonDepth) + " levels deep");
  const ReadJson& json = *parsed;
  const ReadJson schema = json.is_object() ? json.value("schema", ReadJson()) : ReadJson();
  // What the first schema has no word for keeps its default. The window keeps each run with an id of its own.
  const bool is_kept = schema == "headscope-trace-state-1";
  const char* const list = is_kept ? "runs" : "results";
  if ((!is_kept && schema != "headscope-comparison-1" && schema != "headscope-comparison-2") || !json.contains(list) ||
      !json[list].is_array()) {
    Refuse(source, "it is not a JSON table of runs (schema headscope-comparison-1 or -2)");
  }
  std::vector<MethodResult> results;
  for (const ReadJson& listed : json[list]) {
    const ReadJson entry = !is_kept ? listed : listed.is_object() ? listed.value("run", ReadJson()) : ReadJson();
    MethodResult result;
    if (entry.is_object()) result = RunFrom([&](const ResultField& field) { return FromJson(entry, field); }, source);
    if (result.method.empty())
      Refuse(source, "entry " + std::to_string(results.size()) + " of " + list + " has no method");
    results.push_back(std::move(result));
  }
  return results;
}

std::vector<MethodResult> ParseComparisonCsv(const std::string& text, const std::string& source) {
  std::vector<std::vector<std::string>> records;
  std::string_view rest = text;
  while (!rest.empty()) {
    const bool unended = rest.find('\n') == std::string_view::npos;
    records.push_back(TakeCsvRecord(&rest));
    if (unended && records.back() == std::vector<std::string>(1))
      records.pop_back();  // nothing, or a lone carriage return
  }
  std::map<std::string, size_t> columns;
  if (!records.empty()) {
    for (size_t i = 0; i < records[0].size(); ++i) columns[records[0][i]] = i;
  }
  for (const char* needed : {"layer", "head", "method", "phase"}) {
    if (!columns.contains(needed)) Refuse(source, std::string("its first line names no column ") + needed);
  }
  std::vector<MethodResult> results;
  for (size_t line = 1; line < records.size(); ++line) {
    const auto value_of = [&](const ResultField& field) -> std::optional<FieldValue> {
      const auto column = columns.find(field.name);
      if (column == columns.end() || column->second >= records[line].size()) return std::nullopt;
      return FromCsv(records[line][column->second], field);
    };
    results.push_back(RunFrom(value_of, source));
    if (results.back().method.empty()) Refuse(source, "run " + std::to_string(line) + " has no method");
  }
  return results;
}

std::vector<MethodResult> ReadComparison(const std::string& path) {
  const std::optional<FileFormat> format = FindFileFormat(path);
  if (format != FileFormat::kJson && format != FileFormat::kCsv) Refuse(path, "runs are read from .json and .csv");
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file)
    throw BadInputError({.file = path, .problem = "it cannot be opened", .remedy = "check its name and permissions"});
  const std::streamoff size = file.tellg();
  if (size < 0 || size > kMostBytes) Refuse(path, "it is larger than any table of runs");
  file.seekg(0);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return format == FileFormat::kJson ? ParseComparisonJson(text, path) : ParseComparisonCsv(text, path);
}

}  // namespace headscope::analysis
