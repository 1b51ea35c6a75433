// SPDX-License-Identifier: Apache-2.0
#include "choices/held_out_rows.h"

#include <algorithm>

#include "base/errors.h"
#include "base/quoted_text.h"

namespace headscope::app {

HeldOutRows::HeldOutRows(const std::string& text, const std::string& field) : text_(text), field_(field) {
  if (!text.empty()) rows_ = RowSelection::SomeOf(text, field);
}

std::function<std::vector<uint8_t>(const analysis::HeadFrame&)> HeldOutRows::Judge(bool held_out) const {
  if (!any()) return {};
  return
      [*this, held_out](const analysis::HeadFrame& head) { return Of(head.row_positions, head.num_tokens, held_out); };
}

void HeldOutRows::CheckTrace(const data::TraceReader& trace) const {
  if (!any()) return;
  std::vector<uint8_t> held;
  try {
    held = Of(trace.row_positions(), trace.num_tokens(), /*held_out=*/true);
  } catch (const UsageError&) {  // a range behind the prompt's end
    throw UsageError(
        {.field = field_,
         .value = Quoted(text_),
         .problem = "the prompt of " + trace.path() + " has the rows 0 to " + std::to_string(trace.num_tokens() - 1),
         .remedy = "choose rows that every trace has, such as every:4"});
  }
  const auto count = std::ranges::count(held, uint8_t{1});
  if (count > 0 && count < std::ssize(held)) return;
  throw UsageError({.field = field_,
                    .value = Quoted(text_),
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
