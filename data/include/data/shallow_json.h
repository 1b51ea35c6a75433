// SPDX-License-Identifier: Apache-2.0
// JSON that somebody else may have written: what it holds is copied and compared level by level, so a document that is
// all nesting would use up the stack; and of a name that an object has twice, a parser takes the last without a word.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace headscope::data {

inline constexpr int kMostJsonDepth = 16;

// Nothing where the text is nested more than kMostJsonDepth levels deep, or where an object has a name twice, which
// `twice`, if not null, then has; a discarded value where it is no JSON.
template <typename Json>
std::optional<Json> ParseShallowJson(std::string_view text, std::optional<std::string>* twice = nullptr) {
  bool too_deep = false;
  std::optional<std::string> repeated;
  std::vector<std::set<std::string>> names;  // of the objects that are open
  const auto look = [&](int depth, typename Json::parse_event_t event, Json& parsed) {
    too_deep = too_deep || depth > kMostJsonDepth;
    if (too_deep) return false;
    if (event == Json::parse_event_t::object_start) {
      names.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      names.pop_back();
    } else if (event == Json::parse_event_t::key) {
      const std::string& name = parsed.template get_ref<const std::string&>();
      if (!names.back().insert(name).second && !repeated) repeated = name;
    }
    return true;
  };
  Json json = Json::parse(text, look, /*allow_exceptions=*/false);
  if (too_deep || json.is_discarded()) repeated.reset();
  const bool is_refused = too_deep || repeated;
  if (twice != nullptr) *twice = std::move(repeated);
  return is_refused ? std::nullopt : std::optional<Json>(std::move(json));
}

}  // namespace headscope::data
