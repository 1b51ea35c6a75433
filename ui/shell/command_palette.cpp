// SPDX-License-Identifier: Apache-2.0
#include "command_palette.h"

#include <QKeyEvent>
#include <QPainter>
#include <QStyledItemDelegate>
#include <QVBoxLayout>
#include <algorithm>
#include <vector>

#include "commands.h"
#include "fuzzy_match.h"

namespace headscope::ui {
namespace {

constexpr int kActionRole = Qt::UserRole, kShortcutRole = Qt::UserRole + 1;

QString PlainText(const QAction& action) {
  return action.text().remove(u'&').remove(u'…');
}

// The name at the left, the shortcut at the right.
class ShortcutDelegate : public QStyledItemDelegate {
 public:
  using QStyledItemDelegate::QStyledItemDelegate;
  void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    QStyledItemDelegate::paint(painter, option, index);
    const bool selected = option.state.testFlag(QStyle::State_Selected);
    QColor ink = option.palette.color(selected ? QPalette::HighlightedText : QPalette::Text);
    ink.setAlphaF(0.7f);
    painter->setPen(ink);
    painter->drawText(option.rect.adjusted(0, 0, -8, 0), Qt::AlignRight | Qt::AlignVCenter,
                      index.data(kShortcutRole).toString());
  }
  QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    return QStyledItemDelegate::sizeHint(option, index) + QSize(0, 8);
  }
};

}  // namespace

CommandPalette::CommandPalette(QWidget* window)
    : QFrame(window), input_(new QLineEdit(this)), list_(new QListWidget(this)) {
  setObjectName(QStringLiteral("palette"));
  setFrameShape(QFrame::StyledPanel);
  setAutoFillBackground(true);
  input_->setObjectName(QStringLiteral("paletteInput"));
  input_->setPlaceholderText(tr("Type a command"));
  list_->setObjectName(QStringLiteral("paletteList"));
  list_->setFocusPolicy(Qt::NoFocus);
  list_->setFrameShape(QFrame::NoFrame);
  list_->setItemDelegate(new ShortcutDelegate(list_));
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(8, 8, 8, 8);
  layout->addWidget(input_);
  layout->addWidget(list_);
  input_->installEventFilter(this);
  connect(input_, &QLineEdit::textChanged, this, &CommandPalette::Rank);
  connect(list_, &QListWidget::itemClicked, this, &CommandPalette::Choose);
  hide();
}

void CommandPalette::Open(const QList<QAction*>& actions) {
  actions_.clear();
  for (QAction* action : actions) {
    if (action->isEnabled() && !action->text().isEmpty()) actions_.append(action);
  }
  const QWidget* window = parentWidget();
  const int palette_width = std::min(560, window->width() - 40);
  setGeometry((window->width() - palette_width) / 2, 40, palette_width, std::min(420, window->height() - 80));
  input_->clear();
  Rank({});
  show();
  raise();
  input_->setFocus();
}

void CommandPalette::Rank(const QString& pattern) {
  std::vector<std::pair<int, QAction*>> ranked;
  for (const QPointer<QAction>& action : actions_) {
    if (!action) continue;
    const int score = FuzzyScore(pattern, PlainText(*action));
    if (score >= 0) ranked.emplace_back(score, action);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  list_->clear();
  for (const auto& [score, action] : ranked) {
    auto* item = new QListWidgetItem(PlainText(*action), list_);
    item->setToolTip(action->statusTip());
    item->setData(kActionRole, QVariant::fromValue(static_cast<QObject*>(action)));
    item->setData(kShortcutRole, ShortcutText(*action));
  }
  list_->setCurrentRow(0);
}

bool CommandPalette::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::FocusOut) hide();
  if (event->type() != QEvent::KeyPress) return QFrame::eventFilter(watched, event);
  switch (static_cast<QKeyEvent*>(event)->key()) {
    case Qt::Key_Escape:
      hide();
      return true;
    case Qt::Key_Return:
    case Qt::Key_Enter:
      Choose();
      return true;
    case Qt::Key_Down:
      list_->setCurrentRow(std::min(list_->currentRow() + 1, list_->count() - 1));
      return true;
    case Qt::Key_Up:
      list_->setCurrentRow(std::max(list_->currentRow() - 1, 0));
      return true;
    default:
      return QFrame::eventFilter(watched, event);
  }
}

void CommandPalette::Choose() {
  const QListWidgetItem* item = list_->currentItem();
  if (item == nullptr) return;
  const QPointer<QAction> action = qobject_cast<QAction*>(item->data(kActionRole).value<QObject*>());
  hide();
  if (action) action->trigger();
}

}  // namespace headscope::ui
