// SPDX-License-Identifier: Apache-2.0
#include "query_focus.h"

namespace headscope::ui {

void QueryFocus::Set(std::optional<int64_t> pointed, std::optional<int64_t> column, std::optional<int64_t> chosen) {
  const bool changed = row() != (pointed ? pointed : chosen) || column_ != column;
  pointed_ = pointed;
  column_ = column;
  chosen_ = chosen;
  if (changed) Q_EMIT Changed();
}

void QueryFocus::Point(int64_t row, int64_t column) {
  // It stays when the pointer leaves for a pane: what the pane says of it can then be clicked.
  Set(row, column, row);
}
void QueryFocus::Leave() {
  Set(std::nullopt, std::nullopt, chosen_);
}
void QueryFocus::Choose(int64_t row) {
  Set(std::nullopt, std::nullopt, row);
}
void QueryFocus::Clear() {
  Set(std::nullopt, std::nullopt, std::nullopt);
}
void QueryFocus::GoTo(int64_t row, int64_t column) {
  Choose(row);
  Q_EMIT GoToWanted(row, column);
}

}  // namespace headscope::ui
