// SPDX-License-Identifier: Apache-2.0
#include "command_palette.h"

#include <QKeyEvent>
#include <QPainter>
#include <QStyledItemDelegate>
#include <QVBoxLayout>
#include <algorithm>
#include <limits>
#include <vector>

#include "commands.h"
#include "fuzzy_match.h"

namespace headscope::ui {
namespace {

constexpr int kActionRole = Qt::UserRole, kShortcutRole = Qt::UserRole + 1, kEntryRole = Qt::UserRole + 2;
constexpr size_t kMostShown = 200;

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
  input_->setPlaceholderText(tr("Type a command, a head such as 4:3, a method or a file"));
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

void CommandPalette::Open(const QList<QAction*>& actions, const QList<PaletteEntry>& entries) {
  entries_ = entries;
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
  struct Ranked {
    int score = 0;
    QAction* action = nullptr;
    qsizetype entry = -1;
    qsizetype length = 0;
  };
  std::vector<Ranked> ranked;
  for (const QPointer<QAction>& action : actions_) {
    if (!action) continue;
    int score = FuzzyScore(pattern, PlainText(*action));
    // A whole name of what it leads to beats every likeness: "trace" is the pane before it is Open trace.
    if (score >= 0 && pattern.compare(action->property(kLeadsToProperty).toString(), Qt::CaseInsensitive) == 0 &&
        !pattern.isEmpty())
      score = std::numeric_limits<int>::max();
    if (score >= 0) ranked.push_back({score, action, -1, PlainText(*action).size()});
  }
  for (qsizetype entry = 0; entry < entries_.size(); ++entry) {
    if (pattern.isEmpty() && entries_[entry].only_when_typed) continue;
    const int score = FuzzyScore(pattern, entries_[entry].text);
    if (score >= 0) ranked.push_back({score, nullptr, entry, entries_[entry].text.size()});
  }
  // Of what fits equally well the shortest, of which the letters are the largest part: "maps" is Go to Maps before it
  // is Width of exported maps. Without letters the order is the menus'.
  std::stable_sort(ranked.begin(), ranked.end(), [&pattern](const Ranked& a, const Ranked& b) {
    return a.score != b.score ? a.score > b.score : !pattern.isEmpty() && a.length < b.length;
  });
  if (ranked.size() > kMostShown) ranked.resize(kMostShown);
  list_->clear();
  for (const Ranked& one : ranked) {
    if (one.action != nullptr) {
      auto* item = new QListWidgetItem(PlainText(*one.action), list_);
      item->setToolTip(one.action->statusTip());
      item->setData(kActionRole, QVariant::fromValue(static_cast<QObject*>(one.action)));
      item->setData(kShortcutRole, ShortcutText(*one.action));
    } else {
      const PaletteEntry& entry = entries_[one.entry];
      auto* item = new QListWidgetItem(entry.text, list_);
      item->setToolTip(entry.help);
      item->setData(kEntryRole, one.entry);
      item->setData(kShortcutRole, entry.kind);
    }
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
  const QVariant entry = item->data(kEntryRole);
  if (entry.isValid()) {
    const std::function<void()> choose = entries_[entry.toLongLong()].choose;
    hide();
    choose();
    return;
  }
  const QPointer<QAction> action = qobject_cast<QAction*>(item->data(kActionRole).value<QObject*>());
  hide();
  if (action) action->trigger();
}

}  // namespace headscope::ui
