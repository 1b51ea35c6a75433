#include "checkpoint/strict_json.h"

#include <cmath>
#include <set>

#include "checkpoint/input_file.h"

namespace headscope::capture {
namespace {

constexpr int kMaxDepth = 64;
constexpr std::string_view kFetchAgain = "fetch the file again";

}  // namespace

std::string JsonProblem(const nlohmann::json::exception& error) {
  // "[json.exception.parse_error.101] parse error at line 1, column 2: ..." - the bracketed part tells a user nothing.
  std::string text = error.what();
  const size_t bracket = text.find("] ");
  if (bracket != std::string::npos) text.erase(0, bracket + 2);
  // The library quotes the last token it read; a file can make that very long.
  constexpr size_t kLongest = 300;
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

nlohmann::json ParseStrictJson(std::string_view text, const std::string& file) {
  using nlohmann::json;
  std::vector<std::set<std::string>> open_objects;
  const auto watch = [&](int depth, json::parse_event_t event, json& value) {
    switch (event) {
      case json::parse_event_t::object_start:
        open_objects.emplace_back();
        break;
      case json::parse_event_t::object_end:
        open_objects.pop_back();
        break;
      case json::parse_event_t::key: {
        const auto& key = value.get_ref<const std::string&>();
        if (!open_objects.back().insert(key).second) {
          Refuse(file, "\"" + key.substr(0, 100) + "\"", "the key stands twice in one object", kFetchAgain);
        }
        break;
      }
      default:
        break;
    }
    if (depth > kMaxDepth) {
      Refuse(file, "", "the JSON is nested more than " + std::to_string(kMaxDepth) + " deep", kFetchAgain);
    }
    return true;
  };
  try {
    return json::parse(text, watch);
  } catch (const json::exception& error) {
    Refuse(file, "", "is not valid JSON: " + JsonProblem(error), kFetchAgain);
  }
}

JsonFields::JsonFields(const nlohmann::json& object, std::string file, std::string path)
    : object_(object), file_(std::move(file)), path_(std::move(path)) {
  if (!object_.is_object()) {
    Refuse(file_, path_, std::string("is ") + object_.type_name() + " and must be an object", kFetchAgain);
  }
}

std::string JsonFields::PathOf(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
}

void JsonFields::RefuseField(std::string_view key, std::string_view problem, std::string_view remedy) const {
  Refuse(file_, PathOf(key), problem, remedy);
}

const nlohmann::json* JsonFields::Find(std::string_view key) const {
  const auto at = object_.find(key);
  return at == object_.end() || at->is_null() ? nullptr : &*at;
}

bool JsonFields::IsNull(std::string_view key) const {
  const auto at = object_.find(key);
  return at != object_.end() && at->is_null();
}

const nlohmann::json& JsonFields::Required(std::string_view key) const {
  const nlohmann::json* value = Find(key);
  if (value == nullptr) RefuseField(key, "the field is missing", "add it to the file");
  return *value;
}

int64_t JsonFields::Integer(std::string_view key, int64_t least, int64_t most, std::optional<int64_t> absent) const {
  if (absent && !Has(key)) return *absent;
  const nlohmann::json& value = Required(key);
  const bool fits = value.is_number_integer() &&
                    !(value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) &&
                    value.get<int64_t>() >= least && value.get<int64_t>() <= most;
  if (!fits) {
    RefuseField(key, "is " + value.dump(-1, ' ', true).substr(0, 60),
                "it must be a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return value.get<int64_t>();
}

double JsonFields::Number(std::string_view key, std::optional<double> absent) const {
  if (absent && !Has(key)) return *absent;
  const nlohmann::json& value = Required(key);
  if (!value.is_number() || !std::isfinite(value.get<double>())) {
    RefuseField(key, "is " + value.dump(-1, ' ', true).substr(0, 60), "it must be a finite number");
  }
  return value.get<double>();
}

bool JsonFields::Boolean(std::string_view key, std::optional<bool> absent) const {
  if (absent && !Has(key)) return *absent;
  const nlohmann::json& value = Required(key);
  if (!value.is_boolean())
    RefuseField(key, "is " + value.dump(-1, ' ', true).substr(0, 60), "it must be true or false");
  return value.get<bool>();
}

std::string JsonFields::Text(std::string_view key, std::optional<std::string> absent) const {
  if (absent && !Has(key)) return *absent;
  const nlohmann::json& value = Required(key);
  if (!value.is_string()) RefuseField(key, "is " + value.dump(-1, ' ', true).substr(0, 60), "it must be a string");
  return value.get<std::string>();
}

JsonFields JsonFields::Object(std::string_view key) const {
  return {Required(key), file_, PathOf(key)};
}

}  // namespace headscope::capture
