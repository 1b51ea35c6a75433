// SPDX-License-Identifier: Apache-2.0
// JSON that somebody else may have written: what it holds is copied and compared level by level, so a document that is
// all nesting would use up the stack.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

namespace headscope::data {

inline constexpr int kMostJsonDepth = 16;

// Nothing where the text is nested more than kMostJsonDepth levels deep; a discarded value where it is no JSON.
template <typename Json>
std::optional<Json> ParseShallowJson(std::string_view text) {
  bool too_deep = false;
  const auto look = [&](int depth, typename Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > kMostJsonDepth;
    return !too_deep;
  };
  Json json = Json::parse(text, look, /*allow_exceptions=*/false);
  return too_deep ? std::nullopt : std::optional<Json>(std::move(json));
}

}  // namespace headscope::data
