// SPDX-License-Identifier: Apache-2.0
#include "commands/record_plan.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/errors.h"
#include "data/trace_files.h"
#include "support/listed.h"

namespace headscope::app {
namespace {

using Json = nlohmann::json;

const std::vector<std::string>& Keys() {
  static const std::vector<std::string> keys = {"format", "layers", "heads", "kv_heads", "rows",
                                                "points", "decode", "dtype", "files"};
  return keys;
}

class PlanReader {
 public:
  explicit PlanReader(const std::string& file) : file_(file) {}

  [[noreturn]] void Refuse(const std::string& key, const std::string& problem, const std::string& remedy) const {
    throw BadInputError({.file = file_, .field = key, .problem = problem, .remedy = remedy});
  }

  static std::string Shown(const Json& value) {
    return value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace).substr(0, 60);
  }

  std::optional<std::string> Text(const Json& plan, const char* key) const {
    if (!plan.contains(key)) return {};
    const Json& value = plan[key];
    if (!value.is_string()) Refuse(key, "is " + Shown(value) + ", not a string", "write it as the option takes it");
    return value.get<std::string>();
  }

  // Numbers, or the text that the option takes.
  std::optional<std::string> Numbers(const Json& plan, const char* key) const {
    if (!plan.contains(key)) return {};
    const Json& value = plan[key];
    const std::string remedy = R"(write [0, 1, 7] or "0-3,7", or leave it out for all)";
    if (value.is_string()) {
      if (value.get<std::string>().empty()) Refuse(key, "is empty", remedy);
      return value.get<std::string>();
    }
    if (!value.is_array()) Refuse(key, "is " + Shown(value) + ", not a list of numbers", remedy);
    if (value.empty()) Refuse(key, "is empty", remedy);
    std::string text;
    for (const Json& number : value) {
      if (!number.is_number_unsigned() ||
          number.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int32_t>::max()))
        Refuse(key, "holds " + Shown(number) + ", which is not a number from 0 on", remedy);
      text.append(text.empty() ? "" : ",").append(std::to_string(number.get<uint64_t>()));
    }
    return text;
  }

  std::optional<std::vector<std::string>> Names(const Json& plan, const char* key) const {
    if (!plan.contains(key)) return {};
    const Json& value = plan[key];
    const std::string remedy = R"(write a list such as ["pre-rope"])";
    if (!value.is_array()) Refuse(key, "is " + Shown(value) + ", not a list of names", remedy);
    std::vector<std::string> names;
    for (const Json& name : value) {
      if (!name.is_string()) Refuse(key, "holds " + Shown(name) + ", which is not a name", remedy);
      names.push_back(name.get<std::string>());
    }
    return names;
  }

  std::optional<int64_t> Count(const Json& plan, const char* key) const {
    if (!plan.contains(key)) return {};
    const Json& value = plan[key];
    if (!value.is_number_unsigned() ||
        value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int32_t>::max()))
      Refuse(key, "is " + Shown(value) + ", not a number from 0 on", "write how many tokens to generate");
    return value.get<int64_t>();
  }

  std::optional<int32_t> Files(const Json& plan, const char* key) const {
    if (!plan.contains(key)) return {};
    const Json& value = plan[key];
    if (!value.is_number_unsigned() || value.get<uint64_t>() < 1 || value.get<uint64_t>() > data::kMaxTraceFiles)
      Refuse(key, "is " + Shown(value) + ", not a number from 1 to " + std::to_string(data::kMaxTraceFiles),
             "write how many files hold the trace, or leave it out for one");
    return value.get<int32_t>();
  }

 private:
  const std::string& file_;
};

}  // namespace

RecordPlan ParseRecordPlan(std::string_view text, const std::string& file) {
  const PlanReader reader(file);
  const std::string object = std::string(R"(write {"format": ")") + kRecordPlanFormat + R"(", "layers": [0, 1], ..})";
  // JSON lets a key stand twice, and the last would win without a word.
  std::set<std::string> seen;
  std::string twice;
  const auto look = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::key && depth == 1 && !seen.insert(parsed.get<std::string>()).second)
      twice = parsed.get<std::string>();
    return depth < 4;  // nothing that is known lies as deep
  };
  const Json plan = Json::parse(text, look, /*allow_exceptions=*/false);
  if (!plan.is_object()) reader.Refuse("", "is not a JSON object", object);
  if (!twice.empty()) reader.Refuse(reader.Shown(twice), "appears twice", "write it once");
  for (const auto& [key, value] : plan.items()) {
    if (std::find(Keys().begin(), Keys().end(), key) == Keys().end())
      reader.Refuse(reader.Shown(key), "is not known", "the keys are " + Listed(Keys()));
  }
  if (plan.value("format", Json()) != kRecordPlanFormat)
    reader.Refuse("format", "is " + reader.Shown(plan.value("format", Json())) + " instead of " + kRecordPlanFormat,
                  object);
  RecordPlan found;
  found.layers = reader.Numbers(plan, "layers");
  found.heads = reader.Numbers(plan, "heads");
  found.kv_heads = reader.Numbers(plan, "kv_heads");
  if (found.heads && found.kv_heads)
    reader.Refuse("kv_heads", "is given as well as heads, and either alone says which heads are recorded",
                  "write one of them");
  found.rows = reader.Text(plan, "rows");
  found.points = reader.Names(plan, "points");
  found.decode = reader.Count(plan, "decode");
  found.files = reader.Files(plan, "files");
  found.dtype = reader.Text(plan, "dtype");
  return found;
}

}  // namespace headscope::app
