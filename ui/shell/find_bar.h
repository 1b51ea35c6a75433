// SPDX-License-Identifier: Apache-2.0
// A bar over the map's lower end for "go to row, column" and "find token text"; Escape closes it.
#pragma once

#include <QFrame>
#include <QLabel>
#include <QLineEdit>
#include <vector>

#include "borrowed_focus.h"
#include "head_store.h"

namespace headscope::ui {

class FindBar : public QFrame {
  Q_OBJECT

 public:
  explicit FindBar(const HeadStore* store, QWidget* parent = nullptr);
  // Lies over the lower end of a sibling, and takes no room from it.
  void FollowBottomOf(QWidget* sibling);
  void OpenGoTo();
  void OpenFind();

 Q_SIGNALS:
  // Recorded row and key column, inside the map.
  void Chosen(qint64 row, qint64 column);
  // A token that is to be seen as a key of the query that the panes are about.
  void ChosenAsKey(qint64 column);

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;
  void hideEvent(QHideEvent* event) override;

 private:
  enum class Mode { kGoTo, kFind };
  void Open(Mode mode);
  void Place();
  void TextChanged(const QString& text);
  void Accept(int step, bool as_key);
  void GoToTyped();
  void ShowMatch(int step, bool as_key);

  const HeadStore* const store_;
  QWidget* sibling_ = nullptr;
  Mode mode_ = Mode::kGoTo;
  std::vector<int64_t> matches_;
  size_t match_ = 0;
  bool visited_ = false;  // the current match has been gone to
  QLabel *title_, *result_;
  QLineEdit* input_;
  BorrowedFocus focus_;
};

}  // namespace headscope::ui
