// SPDX-License-Identifier: Apache-2.0
#include "choices/length_range.h"

#include <charconv>
#include <string_view>

#include "base/errors.h"
#include "base/quoted_text.h"

namespace headscope::app {
namespace {

constexpr int64_t kLongest = int64_t{1} << 31;  // rows and columns have 32 bits

int64_t EdgeOf(const std::string& text, const std::string& field) {
  const bool in_units = text.ends_with('K') || text.ends_with('k');
  const std::string_view digits = std::string_view(text).substr(0, text.size() - (in_units ? 1 : 0));
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const int64_t unit = in_units ? 1024 : 1;
  if (error != std::errc() || end != digits.data() + digits.size() || value < 1 || value > kLongest / unit)
    throw UsageError({.field = field,
                      .value = Quoted(text),
                      .problem = "give lengths from 1 on in tokens, or in units of 1024 as 16K"});
  return value * unit;
}

}  // namespace

std::string RangeText(const LengthRange& range) {
  const bool ends = range.below != LengthRange::kNoEnd;
  if (range.from == 0 && !ends) return "any length";
  if (range.from == 0) return "below " + std::to_string(range.below) + " tokens";
  if (!ends) return std::to_string(range.from) + " tokens and more";
  return std::to_string(range.from) + " to " + std::to_string(range.below - 1) + " tokens";
}

std::vector<LengthRange> RangesBetween(const std::vector<std::string>& edges, const std::string& field) {
  std::vector<LengthRange> ranges(1);
  for (const std::string& text : edges) {
    const int64_t edge = EdgeOf(text, field);
    if (edge <= ranges.back().from)
      throw UsageError({.field = field,
                        .value = Quoted(text),
                        .problem = "lengths rise from one range to the next",
                        .remedy = "put them in order"});
    ranges.back().below = edge;
    ranges.push_back({.from = edge});
  }
  return ranges;
}

}  // namespace headscope::app
