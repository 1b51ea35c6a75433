// SPDX-License-Identifier: Apache-2.0
#include "capture/prompt_lines.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/errors.h"

namespace headscope::capture {
namespace {

constexpr size_t kMostPrompts = 100'000;
constexpr size_t kLongestName = 100;

[[noreturn]] void Refuse(const std::string& file, int64_t line, const std::string& problem, const std::string& remedy) {
  throw BadInputError({.file = file, .field = "line " + std::to_string(line), .problem = problem, .remedy = remedy});
}

// Takes the fields as they come, so that no tree is made of whatever else a line holds. What it refuses is in
// `problem`.
class LineReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit LineReader(PromptLine* line) : line_(*line) {}
  std::string problem;
  bool named = false;

  bool null() override { return Wrong(); }
  bool boolean(bool) override { return Wrong(); }
  bool number_integer(number_integer_t) override { return WrongToken(); }
  bool number_unsigned(number_unsigned_t value) override {
    if (depth_ != 2 || value > static_cast<uint64_t>(std::numeric_limits<int32_t>::max())) return WrongToken();
    line_.tokens.push_back(static_cast<int32_t>(value));
    return true;
  }
  bool number_float(number_float_t, const string_t&) override { return WrongToken(); }
  bool string(string_t& value) override {
    if (depth_ != 1 || key_ == "tokens") return Wrong();
    if (key_ == "text") {
      line_.text = std::move(value);
    } else {
      line_.name = std::move(value);
      named = true;
    }
    return true;
  }
  bool binary(binary_t&) override { return Wrong(); }
  bool start_object(size_t) override {
    if (depth_ != 0) return Wrong();
    ++depth_;
    return true;
  }
  bool key(string_t& value) override {
    if (value != "text" && value != "tokens" && value != "name")
      return Fail("the key " + Shown(value) + " is not known");
    if (!seen_.insert(value).second) return Fail("has the key " + value + " twice");
    key_ = value;
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array(size_t) override {
    if (depth_ != 1 || key_ != "tokens") return Wrong();
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(size_t at, const std::string&, const nlohmann::json::exception&) override {
    return Fail("is not a JSON object at byte " + std::to_string(at));
  }

 private:
  static std::string Shown(const std::string& key) {
    return nlohmann::json(key.substr(0, 40)).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  }
  bool Fail(const std::string& what) {
    if (problem.empty()) problem = what;
    return false;
  }
  bool Wrong() {
    if (depth_ == 0) return Fail("is not a JSON object");
    return Fail(key_ == "tokens" ? "tokens is not a list of ids" : key_ + " is not a string");
  }
  bool WrongToken() { return depth_ == 2 ? Fail("tokens holds a number that is not an id") : Wrong(); }

  PromptLine& line_;
  int depth_ = 0;
  std::string key_;
  std::set<std::string> seen_;
};

bool IsFileName(std::string_view name) {
  const auto may_stand = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  };
  return !name.empty() && name.size() <= kLongestName && name.front() != '.' && std::ranges::all_of(name, may_stand);
}

PromptLine ParseLine(std::string_view text, int64_t number, const std::string& file) {
  const std::string remedy = R"(write {"text": ".."} or {"tokens": [..]}, with a "name" if you like)";
  PromptLine line;
  line.line = number;
  line.name = "prompt-" + std::to_string(number);
  LineReader reader(&line);
  if (!nlohmann::json::sax_parse(text, &reader) || !reader.problem.empty())
    Refuse(file, number, reader.problem.empty() ? "is not a JSON object" : reader.problem, remedy);
  if (line.text.has_value() == !line.tokens.empty())
    Refuse(file, number, line.text ? "has both a text and tokens" : "has neither a text nor tokens", remedy);
  if (line.text && line.text->empty()) Refuse(file, number, "text is empty", "give at least one character");
  if (!IsFileName(line.name)) {
    Refuse(file, number, "name is not valid as a file name",
           "use up to 100 letters, digits, '-', '_' and '.', and no '.' at the front");
  }
  return line;
}

}  // namespace

std::vector<PromptLine> ParsePromptLines(std::string_view text, const std::string& file) {
  std::vector<PromptLine> lines;
  std::set<std::string> names;
  int64_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (lines.size() == kMostPrompts)
      Refuse(file, number, "is beyond the " + std::to_string(kMostPrompts) + " prompts that a file may hold",
             "split the file");
    lines.push_back(ParseLine(line, number, file));
    if (!names.insert(lines.back().name).second)
      Refuse(file, number, "has the name " + lines.back().name + ", like an earlier line", "give each its own name");
  }
  if (lines.empty())
    throw BadInputError({.file = file, .problem = "holds no prompt", .remedy = "write one JSON object per line"});
  return lines;
}

}  // namespace headscope::capture
