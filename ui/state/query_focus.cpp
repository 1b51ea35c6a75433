// SPDX-License-Identifier: Apache-2.0
#include "query_focus.h"

namespace headscope::ui {

void QueryFocus::Set(std::optional<int64_t> pointed, std::optional<int64_t> column, std::optional<int64_t> chosen) {
  before_click_.reset();
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
void QueryFocus::ChooseByClick(int64_t row) {
  const Before before{.pointed = pointed_, .column = column_, .chosen = chosen_};
  Choose(row);
  before_click_ = before;
}
void QueryFocus::TakeBackClick() {
  if (const std::optional<Before> before = before_click_) Set(before->pointed, before->column, before->chosen);
}
void QueryFocus::Clear() {
  Set(std::nullopt, std::nullopt, std::nullopt);
}
void QueryFocus::GoTo(int64_t row, int64_t column) {
  Choose(row);
  Q_EMIT GoToWanted(row, column);
}

}  // namespace headscope::ui
