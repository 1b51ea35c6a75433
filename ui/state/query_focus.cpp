// SPDX-License-Identifier: Apache-2.0
#include "query_focus.h"

namespace headscope::ui {

void QueryFocus::Set(const Place& place) {
  before_click_.reset();
  const std::optional<int64_t> old_row = row(), old_column = column(), old_key = key();
  pointed_ = place.pointed;
  column_ = place.column;
  chosen_ = place.chosen;
  key_ = place.key;
  if (row() != old_row || column() != old_column || key() != old_key) Q_EMIT Changed();
}

void QueryFocus::Point(int64_t row, int64_t column) {
  // It stays when the pointer leaves for a pane: what the pane says of it can then be clicked.
  Set({.pointed = row, .column = column, .chosen = row, .key = column});
}
void QueryFocus::Leave() {
  Set({.pointed = std::nullopt, .column = std::nullopt, .chosen = chosen_, .key = key_});
}
void QueryFocus::Choose(int64_t row) {
  Set({.pointed = std::nullopt, .column = std::nullopt, .chosen = row, .key = std::nullopt});
}
void QueryFocus::ChooseByClick(int64_t row, int64_t key) {
  const Place before{.pointed = pointed_, .column = column_, .chosen = chosen_, .key = key_};
  Set({.pointed = std::nullopt, .column = std::nullopt, .chosen = row, .key = key});
  before_click_ = before;
}
void QueryFocus::TakeBackClick() {
  if (const std::optional<Place> before = before_click_) Set(*before);
}
void QueryFocus::Clear() {
  Set({});
}
void QueryFocus::GoTo(int64_t row, int64_t column) {
  Set({.pointed = std::nullopt, .column = std::nullopt, .chosen = row, .key = column});
  Q_EMIT GoToWanted(row, column);
}

}  // namespace headscope::ui
