// SPDX-License-Identifier: Apache-2.0
#include "choices/head_selection.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/error_with_help.h"
#include "base/errors.h"
#include "base/quoted_text.h"

namespace headscope::app {
namespace {

constexpr int64_t kLargestNumber = 1'000'000;

UsageError Refusal(const std::string& field, const std::string& text, const std::string& problem,
                   const std::string& remedy = "") {
  return UsageError({.field = field, .value = Quoted(text), .problem = problem, .remedy = remedy});
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

int64_t ParseNumber(std::string_view text, const std::string& whole, const std::string& field) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty() || value < 0) {
    throw Refusal(field, whole, Quoted(text) + " is not a number from 0 on");
  }
  return value;
}

// Both ends included; "*" is everything.
std::pair<int64_t, int64_t> ParseSpan(std::string_view text, const std::string& whole, const std::string& field) {
  if (text == "*") return {0, kLargestNumber};
  const size_t dash = text.find('-');
  if (dash == std::string_view::npos) {
    const int64_t value = ParseNumber(text, whole, field);
    return {value, value};
  }
  const int64_t first = ParseNumber(text.substr(0, dash), whole, field);
  const int64_t last = ParseNumber(text.substr(dash + 1), whole, field);
  if (last < first) {
    throw Refusal(field, whole, "the range " + std::string(text) + " runs backwards", "swap its ends");
  }
  return {first, last};
}

// A range may run over numbers that were not recorded, but not end past the last one that was: part of it would
// silently mean nothing.
void RefuseEndPastTheLast(std::pair<int64_t, int64_t> span, int64_t last_recorded, const char* what,
                          const std::string& whole, const std::string& field) {
  const bool everything = span.second == kLargestNumber;
  if (everything || span.first == span.second || span.second <= last_recorded) return;
  throw Refusal(field, whole,
                "the range " + std::to_string(span.first) + "-" + std::to_string(span.second) + " ends past " + what +
                    " " + std::to_string(last_recorded) + ", the last recorded one",
                "end it there, or write *");
}

}  // namespace

std::vector<int32_t> ParseNumberList(const std::string& text, const std::string& field) {
  std::vector<int32_t> numbers;
  if (text.empty()) return numbers;
  for (std::string_view item : Split(text, ',')) {
    const auto [first, last] = ParseSpan(item, text, field);
    if (last >= kLargestNumber) throw Refusal(field, text, "give numbers or ranges such as 0-3,7");
    for (int64_t value = first; value <= last; ++value) numbers.push_back(static_cast<int32_t>(value));
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

std::vector<analysis::HeadId> ParseHeadsAsTyped(const std::string& text, const std::vector<analysis::HeadId>& recorded,
                                                const std::string& field) {
  if (text.empty()) return recorded;
  int32_t last_layer = 0, last_head = 0;
  for (const analysis::HeadId& id : recorded) {
    last_layer = std::max(last_layer, id.layer);
    last_head = std::max(last_head, id.head);
  }
  std::vector<analysis::HeadId> heads;
  for (std::string_view item : Split(text, ',')) {
    const size_t colon = item.find(':');
    if (colon == std::string_view::npos) {
      throw Refusal(field, text, Quoted(item) + " lacks its colon", "write layer:head such as 4:3, 2:* or *:0-3");
    }
    const auto [layer_first, layer_last] = ParseSpan(item.substr(0, colon), text, field);
    const auto [head_first, head_last] = ParseSpan(item.substr(colon + 1), text, field);
    RefuseEndPastTheLast({layer_first, layer_last}, last_layer, "layer", text, field);
    RefuseEndPastTheLast({head_first, head_last}, last_head, "head", text, field);
    bool any = false;
    for (const analysis::HeadId& id : recorded) {
      if (id.layer >= layer_first && id.layer <= layer_last && id.head >= head_first && id.head <= head_last) {
        any = true;
        if (std::find(heads.begin(), heads.end(), id) == heads.end()) heads.push_back(id);
      }
    }
    if (!any) {
      throw ErrorWithHelp<UsageError>(Refusal(field, text, "no recorded head matches " + std::string(item)).fault(),
                                      Help::kListTrace);
    }
  }
  return heads;
}

std::vector<analysis::HeadId> ParseHeads(const std::string& text, const std::vector<analysis::HeadId>& recorded,
                                         const std::string& field) {
  std::vector<analysis::HeadId> heads = ParseHeadsAsTyped(text, recorded, field);
  std::sort(heads.begin(), heads.end());
  return heads;
}

std::string HeadText(analysis::HeadId id) {
  std::string text = std::to_string(id.layer);
  return text.append(":").append(std::to_string(id.head));
}

std::pair<int64_t, int64_t> ParseRange(const std::string& text, int64_t limit, const std::string& field) {
  if (text.empty()) return {0, limit};
  const size_t colon = text.find(':');
  if (colon == std::string::npos) throw Refusal(field, text, "write begin:end, such as 0:1024");
  const std::string_view view(text);
  const int64_t begin = colon == 0 ? 0 : ParseNumber(view.substr(0, colon), text, field);
  const int64_t end = colon + 1 == text.size() ? limit : ParseNumber(view.substr(colon + 1), text, field);
  if (begin >= end || end > limit) {
    throw Refusal(field, text, "must be an increasing range within 0:" + std::to_string(limit));
  }
  return {begin, end};
}

std::pair<int32_t, int32_t> ParseSize(const std::string& text, const std::string& field) {
  const size_t cross = text.find('x');
  if (cross == std::string::npos) throw Refusal(field, text, "write WIDTHxHEIGHT, such as 800x800");
  const std::string_view view(text);
  const int64_t width = ParseNumber(view.substr(0, cross), text, field);
  const int64_t height = ParseNumber(view.substr(cross + 1), text, field);
  if (std::min(width, height) < 16 || std::max(width, height) > 16384) {
    throw Refusal(field, text, "each side must be from 16 to 16384 pixels");
  }
  return {static_cast<int32_t>(width), static_cast<int32_t>(height)};
}

}  // namespace headscope::app
