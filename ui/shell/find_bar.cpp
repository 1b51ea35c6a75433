// SPDX-License-Identifier: Apache-2.0
#include "find_bar.h"

#include <QHBoxLayout>
#include <QKeyEvent>
#include <QRegularExpression>
#include <QStyle>
#include <QToolButton>
#include <algorithm>
#include <iterator>

#include "shown_text.h"
#include "token_search.h"

namespace headscope::ui {

FindBar::FindBar(const HeadStore* store, QWidget* parent)
    : QFrame(parent), store_(store), title_(new QLabel(this)), result_(new QLabel(this)), input_(new QLineEdit(this)) {
  result_->setTextFormat(Qt::PlainText);
  setObjectName(QStringLiteral("findBar"));
  input_->setObjectName(QStringLiteral("findInput"));
  result_->setObjectName(QStringLiteral("findResult"));
  title_->setBuddy(input_);
  input_->setMaximumWidth(360);
  input_->setAcceptDrops(false);  // a file that is dropped here is for the window
  auto* close = new QToolButton(this);
  close->setAutoRaise(true);
  close->setIcon(style()->standardIcon(QStyle::SP_TitleBarCloseButton));
  close->setToolTip(tr("Close (Esc)"));
  close->setAccessibleName(tr("Close"));
  auto* layout = new QHBoxLayout(this);
  layout->setContentsMargins(12, 5, 6, 5);
  layout->setSpacing(8);
  layout->addWidget(title_);
  layout->addWidget(input_, 1);
  layout->addWidget(result_, 1);
  layout->addWidget(close);
  input_->installEventFilter(this);
  connect(input_, &QLineEdit::textChanged, this, &FindBar::TextChanged);
  connect(close, &QToolButton::clicked, this, &QWidget::hide);
  hide();
}

void FindBar::FollowBottomOf(QWidget* sibling) {
  sibling_ = sibling;
  sibling->installEventFilter(this);
  setAutoFillBackground(true);
  Place();
}

void FindBar::Place() {
  if (sibling_ == nullptr) return;
  const QRect over = sibling_->geometry();
  const int height = sizeHint().height();
  setGeometry(over.left(), over.bottom() + 1 - height, over.width(), height);
  raise();
}

void FindBar::OpenGoTo() {
  Open(Mode::kGoTo);
}
void FindBar::OpenFind() {
  Open(Mode::kFind);
}

void FindBar::Open(Mode mode) {
  mode_ = mode;
  matches_.clear();
  title_->setText(mode == Mode::kGoTo ? tr("Go to") : tr("Find token"));
  input_->setPlaceholderText(mode == Mode::kGoTo
                                 ? tr("query, key: e.g. 1200, 35")
                                 : tr("text in the prompt; Enter: next, Shift: previous, Ctrl: as a key of the query"));
  input_->clear();
  result_->clear();
  Place();
  focus_.Take(this);
  show();
  input_->setFocus();
}

void FindBar::hideEvent(QHideEvent*) {
  if (isHidden()) focus_.GiveBack(this);  // and not with its window
}

bool FindBar::eventFilter(QObject* watched, QEvent* event) {
  if (watched == sibling_) {
    if (event->type() == QEvent::Resize || event->type() == QEvent::Move) Place();
    return QFrame::eventFilter(watched, event);
  }
  if (event->type() == QEvent::KeyPress) {
    const auto* key = static_cast<QKeyEvent*>(event);
    if (key->key() == Qt::Key_Escape) {
      hide();
      return true;
    }
    if (key->key() == Qt::Key_Return || key->key() == Qt::Key_Enter) {
      Accept(key->modifiers().testFlag(Qt::ShiftModifier) ? -1 : 1, key->modifiers().testFlag(Qt::ControlModifier));
      return true;
    }
  }
  return QFrame::eventFilter(watched, event);
}

void FindBar::TextChanged(const QString& text) {
  result_->clear();
  if (mode_ != Mode::kFind) return;
  matches_ = FindTokens(store_->trace().token_text, text);
  match_ = 0;
  visited_ = false;
  if (text.isEmpty()) return;
  result_->setText(matches_.empty()       ? tr("no matches")
                   : matches_.size() == 1 ? tr("1 match")
                                          : tr("%1 matches").arg(CountText(std::ssize(matches_))));
}

void FindBar::Accept(int step, bool as_key) {
  if (mode_ == Mode::kGoTo) {
    GoToTyped();
  } else {
    ShowMatch(step, as_key);
  }
}

void FindBar::GoToTyped() {
  static const QRegularExpression pattern(QStringLiteral("^\\s*(\\d{1,9})\\s*[,: ]\\s*(\\d{1,9})\\s*$"));
  const auto match = pattern.match(input_->text());
  if (!match.hasMatch()) {
    result_->setText(tr("type two numbers, such as 1200, 35"));
    return;
  }
  const TraceSummary& trace = store_->trace();
  const int64_t position = match.captured(1).toLongLong(), column = match.captured(2).toLongLong();
  const auto row = std::lower_bound(trace.row_positions.begin(), trace.row_positions.end(), position);
  if (row == trace.row_positions.end() || column >= trace.num_tokens) {
    result_->setText(tr("the map ends at %1, %2")
                         .arg(trace.row_positions.empty() ? 0 : trace.row_positions.back())
                         .arg(trace.num_tokens - 1));
    return;
  }
  hide();
  Q_EMIT Chosen(row - trace.row_positions.begin(), column);
}

void FindBar::ShowMatch(int step, bool as_key) {
  if (matches_.empty()) return;
  const size_t count = matches_.size();
  if (visited_) match_ = step > 0 ? (match_ + 1) % count : (match_ + count - 1) % count;
  visited_ = true;
  const int64_t token = matches_[match_];
  result_->setText(tr("%1 of %2: token %3").arg(match_ + 1).arg(count).arg(token));
  if (as_key) return void(Q_EMIT ChosenAsKey(token));
  // The token as a key, seen from its own row or, where that was not recorded, from the next row that was.
  const std::vector<int32_t>& rows = store_->trace().row_positions;
  const auto row = std::lower_bound(rows.begin(), rows.end(), token);
  const int64_t last = static_cast<int64_t>(rows.size()) - 1;
  Q_EMIT Chosen(std::min<int64_t>(row - rows.begin(), last), token);
}

}  // namespace headscope::ui
