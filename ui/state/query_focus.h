// SPDX-License-Identifier: Apache-2.0
// The query that panes beside the map are about, with one of its keys: under the pointer, else chosen last. They ask
// here for a place on the map, too. Rows are recorded rows.
#pragma once

#include <QObject>
#include <cstdint>
#include <optional>

namespace headscope::ui {

class QueryFocus : public QObject {
  Q_OBJECT

 public:
  using QObject::QObject;

  std::optional<int64_t> row() const { return pointed_ ? pointed_ : chosen_; }
  std::optional<int64_t> column() const { return column_; }  // under the pointer
  std::optional<int64_t> key() const { return column_ ? column_ : key_; }

  void Point(int64_t row, int64_t column);
  void Leave();              // the pointer has left the map
  void Choose(int64_t row);  // stays when the pointer leaves
  void Clear();              // another trace
  // As Choose, by a click that may turn out to be the first one of a double click: then what was before it is put back,
  // unless something else has come since.
  void ChooseByClick(int64_t row, int64_t key);
  void TakeBackClick();
  // The map shows and marks this score; its query and key are chosen.
  void GoTo(int64_t row, int64_t column);

 Q_SIGNALS:
  void Changed();  // row(), column() or key()
  void GoToWanted(qint64 row, qint64 column);

 private:
  struct Place {
    std::optional<int64_t> pointed, column, chosen, key;
  };
  void Set(const Place& place);

  std::optional<int64_t> pointed_, column_, chosen_, key_;
  std::optional<Place> before_click_;
};

}  // namespace headscope::ui
