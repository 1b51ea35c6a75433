// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/strict_json.h"

#include <cmath>

#include "model/input_file.h"

namespace headscope::model {

std::string JsonProblem(const std::exception& error) {
  // "[json.exception.parse_error.101] parse error at line 1, column 2: ..." - the bracketed part tells a user nothing.
  std::string text = error.what();
  const size_t bracket = text.find("] ");
  if (bracket != std::string::npos) text.erase(0, bracket + 2);
  // The library quotes the last token it read; a file can make that very long.
  constexpr size_t kLongest = 300;
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

JsonFields::JsonFields(JsonValue object, std::string file, std::string path)
    : object_(object), file_(std::move(file)), path_(std::move(path)) {
  if (!object_.IsObject()) {
    Refuse(file_, path_, std::string("is ") + object_.KindName() + " and must be an object", kFetchAgain);
  }
}

std::string JsonFields::PathOf(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

void JsonFields::RefuseField(std::string_view key, std::string_view problem, std::string_view remedy) const {
  Refuse(file_, PathOf(key), problem, remedy);
}

void JsonFields::RefuseUnsupported(std::string_view key, std::string_view problem, std::string_view supported) const {
  std::string remedy =
      supported.empty() ? "record it with " : std::string(supported) + "; a model with any other is recorded with ";
  RefuseField(key, problem, remedy += kRecordFromPython);
}

std::optional<JsonValue> JsonFields::Find(std::string_view key) const {
  std::optional<JsonValue> found = object_.Find(key);
  if (found && found->IsNull()) found.reset();
  return found;
}

bool JsonFields::IsNull(std::string_view key) const {
  const std::optional<JsonValue> found = object_.Find(key);
  return found && found->IsNull();
}

JsonValue JsonFields::Required(std::string_view key) const {
  const std::optional<JsonValue> value = Find(key);
  if (!value) RefuseField(key, "the field is missing", "add it to the file");
  return *value;
}

int64_t JsonFields::Integer(std::string_view key, int64_t least, int64_t most, std::optional<int64_t> absent) const {
  if (absent && !Has(key)) return *absent;
  const JsonValue value = Required(key);
  const std::optional<int64_t> number = value.IntegerIn(least, most);
  if (!number) {
    RefuseField(key, "is " + value.Shortened(),
                "it must be a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return *number;
}

double JsonFields::Number(std::string_view key, std::optional<double> absent) const {
  if (absent && !Has(key)) return *absent;
  const JsonValue value = Required(key);
  if (!value.IsNumber() || !std::isfinite(value.Number()))
    RefuseField(key, "is " + value.Shortened(), "it must be a finite number");
  return value.Number();
}

bool JsonFields::Boolean(std::string_view key, std::optional<bool> absent) const {
  if (absent && !Has(key)) return *absent;
  const JsonValue value = Required(key);
  if (!value.IsBoolean()) RefuseField(key, "is " + value.Shortened(), "it must be true or false");
  return value.kind() == JsonValue::Kind::kTrue;
}

std::string JsonFields::Text(std::string_view key, std::optional<std::string> absent) const {
  if (absent && !Has(key)) return *absent;
  const JsonValue value = Required(key);
  if (!value.IsString()) RefuseField(key, "is " + value.Shortened(), "it must be a string");
  return std::string(value.Text());
}

JsonFields JsonFields::Object(std::string_view key) const {
  return {Required(key), file_, PathOf(key)};
}

JsonValue JsonFields::Array(std::string_view key) const {
  const std::optional<JsonValue> value = Find(key);
  if (!value || !value->IsArray()) RefuseField(key, "must be an array", "correct it");
  return *value;
}

}  // namespace headscope::model
