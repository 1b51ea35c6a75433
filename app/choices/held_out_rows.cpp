// SPDX-License-Identifier: Apache-2.0
#include "choices/held_out_rows.h"

#include <algorithm>

#include "base/errors.h"

namespace headscope::app {

namespace {

constexpr const char* kField = "check-rows";

}  // namespace

HeldOutRows::HeldOutRows(const std::string& text) : text_(text) {
  if (!text.empty()) rows_.emplace(text, kField);
}

std::function<std::vector<uint8_t>(const analysis::HeadFrame&)> HeldOutRows::Judge(bool held_out) const {
  if (!any()) return {};
  return
      [*this, held_out](const analysis::HeadFrame& head) { return Of(head.row_positions, head.num_tokens, held_out); };
}

void HeldOutRows::CheckTrace(const data::TraceReader& trace) const {
  if (!any()) return;
  const std::vector<uint8_t> held = Of(trace.row_positions(), trace.num_tokens(), /*held_out=*/true);
  const auto count = std::ranges::count(held, uint8_t{1});
  if (count > 0 && count < std::ssize(held)) return;
  throw UsageError({.field = kField,
                    .value = "\"" + text_ + "\"",
                    .problem = std::string(count == 0 ? "none" : "every one") + " of the " +
                               std::to_string(held.size()) + " query rows of " + trace.path() + " is held out",
                    .remedy = "choose some of them, such as every:4"});
}

// Every row of a trace counts as its prompt's, generated ones too.
std::vector<uint8_t> HeldOutRows::Of(const std::vector<int32_t>& row_positions, int64_t num_tokens,
                                     bool held_out) const {
  RowSelection rows = *rows_;
  rows.Draw(num_tokens);
  std::vector<uint8_t> judged;
  judged.reserve(row_positions.size());
  for (const int32_t position : row_positions) judged.push_back(rows.Keeps(position, num_tokens) == held_out ? 1 : 0);
  return judged;
}

}  // namespace headscope::app
