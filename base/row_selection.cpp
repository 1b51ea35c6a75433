// SPDX-License-Identifier: Apache-2.0
#include "base/row_selection.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>
#include <utility>

#include "base/errors.h"
#include "base/quoted_text.h"
#include "base/random.h"

namespace headscope {

RowSelection::RowSelection(const std::string& text, const std::string& field)
    : RowSelection(text, field, /*may_be_all=*/true) {}

RowSelection RowSelection::SomeOf(const std::string& text, const std::string& field) {
  return {text, field, /*may_be_all=*/false};
}

RowSelection::RowSelection(const std::string& text, const std::string& field, bool may_be_all)
    : text_(text), field_(field) {
  if (may_be_all && text == "all") return;
  if (!text.empty() && text.front() >= '0' && text.front() <= '9') {
    ParseRanges();
    return;
  }
  const size_t colon = text.find(':');
  const std::string_view name = std::string_view(text).substr(0, colon);
  const char* end = text.data() + text.size();
  bool valid = colon != std::string::npos && (name == "last" || name == "every" || name == "random");
  if (valid) {
    kind_ = name == "last" ? Kind::kLast : name == "every" ? Kind::kEvery : Kind::kRandom;
    auto [parsed, error] = std::from_chars(text.data() + colon + 1, end, count_);
    valid = error == std::errc() && count_ >= 1;
    if (valid && kind_ == Kind::kRandom && parsed != end && *parsed == ':') {
      const std::from_chars_result seed = std::from_chars(parsed + 1, end, seed_);
      parsed = seed.ptr;
      error = seed.ec;
    }
    valid = valid && error == std::errc() && parsed == end;
  }
  if (!valid)
    Refuse(std::string("it must be ") + (may_be_all ? "all, " : "") +
           "last:N, every:N, random:N or random:N:SEED with N at least 1, or ranges such as 0:16,100:200");
}

void RowSelection::Refuse(const std::string& problem) const {
  throw UsageError({.field = field_, .value = Quoted(text_), .problem = problem});
}

void RowSelection::ParseRanges() {
  kind_ = Kind::kRanges;
  const char* at = text_.data();
  const char* const end = at + text_.size();
  while (true) {
    Range range{};
    const std::from_chars_result begin = std::from_chars(at, end, range.begin);
    if (begin.ec != std::errc() || begin.ptr == end || *begin.ptr != ':') Refuse("a range is written A:B");
    const std::from_chars_result last = std::from_chars(begin.ptr + 1, end, range.end);
    if (last.ec != std::errc()) Refuse("a range is written A:B");
    if (range.end <= range.begin || range.begin < 0)
      Refuse("a range A:B holds the rows A to B-1, so B must be above A");
    ranges_.push_back(range);
    if (last.ptr == end) break;
    if (*last.ptr != ',') Refuse("ranges are separated by commas");
    at = last.ptr + 1;
  }
  std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::vector<Range> apart;
  for (const Range& range : ranges_) {
    if (!apart.empty() && range.begin <= apart.back().end)
      apart.back().end = std::max(apart.back().end, range.end);
    else
      apart.push_back(range);
  }
  ranges_ = std::move(apart);
}

void RowSelection::Draw(int64_t prompt_tokens) {
  if (kind_ == Kind::kRanges && ranges_.back().end > prompt_tokens)
    Refuse("the prompt has the rows 0 to " + std::to_string(prompt_tokens - 1));
  if (kind_ != Kind::kRandom) return;
  // Floyd's way: each draw is of one row more, and a row that is there already stands for the new one.
  Random random(seed_);
  std::set<int64_t> drawn;
  for (int64_t bound = prompt_tokens - Count(prompt_tokens); bound < prompt_tokens; ++bound) {
    const auto row = static_cast<int64_t>(random.Below(static_cast<uint64_t>(bound) + 1));
    drawn.insert(drawn.contains(row) ? bound : row);
  }
  drawn_.assign(drawn.begin(), drawn.end());
}

bool RowSelection::Keeps(int64_t position, int64_t prompt_tokens) const {
  if (position >= prompt_tokens) return true;
  switch (kind_) {
    case Kind::kAll:
      return true;
    case Kind::kLast:
      return position >= prompt_tokens - count_;
    case Kind::kEvery:
      return position % count_ == 0;
    case Kind::kRandom:
      return std::binary_search(drawn_.begin(), drawn_.end(), position);
    case Kind::kRanges:
      return std::any_of(ranges_.begin(), ranges_.end(),
                         [&](const Range& range) { return position >= range.begin && position < range.end; });
  }
  return true;
}

int64_t RowSelection::Count(int64_t prompt_tokens) const {
  switch (kind_) {
    case Kind::kLast:
    case Kind::kRandom:
      return std::min(count_, prompt_tokens);
    case Kind::kEvery:
      return (prompt_tokens - 1) / count_ + 1;  // rows 0, count, 2 count, ..; a prompt has at least one token
    case Kind::kRanges: {
      int64_t rows = 0;
      for (const Range& range : ranges_) rows += std::max<int64_t>(0, std::min(range.end, prompt_tokens) - range.begin);
      return rows;
    }
    case Kind::kAll:
      break;
  }
  return prompt_tokens;
}

}  // namespace headscope
