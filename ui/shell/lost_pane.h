// SPDX-License-Identifier: Apache-2.0
// The keys that the method takes from the query under the pointer, or from the one chosen last: the most probable
// first. A click, or Enter, shows one on the map.
#pragma once

#include <QLabel>
#include <QTableWidget>
#include <QTimer>
#include <QWidget>

#include "window_state.h"

namespace headscope::ui {

class LostPane : public QWidget {
  Q_OBJECT

 public:
  // `state` outlives the pane.
  explicit LostPane(WindowState* state, QWidget* parent = nullptr);
  bool HasKeys() const { return !lost_.empty(); }
  TableDrawing Drawing() const;

 protected:
  void showEvent(QShowEvent* event) override;
  void hideEvent(QHideEvent* event) override;

 private:
  void Ask();
  void Show(int64_t row, const std::vector<LostKey>& lost);
  void Say(const QString& text);
  void GoTo(int line);

  WindowState* const state_;
  QLabel* title_;
  QTableWidget* table_;
  QTimer delay_;
  std::vector<LostKey> lost_;
  int64_t row_ = -1;  // of lost_
  int64_t asked_row_ = -1, asked_mask_ = 0;
};

}  // namespace headscope::ui
