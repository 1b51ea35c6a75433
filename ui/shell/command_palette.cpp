// SPDX-License-Identifier: Apache-2.0
#include "command_palette.h"

#include <QCoreApplication>
#include <QKeyEvent>
#include <QPainter>
#include <QStyledItemDelegate>
#include <QVBoxLayout>
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "allowed.h"
#include "commands.h"
#include "fuzzy_match.h"
#include "shown_text.h"

namespace headscope::ui {
namespace {

constexpr int kActionRole = Qt::UserRole, kShortcutRole = Qt::UserRole + 1, kEntryRole = Qt::UserRole + 2,
              kCategoryRole = Qt::UserRole + 3;
constexpr int kShortcutWidth = 120, kCategoryWidth = 90;  // pixels
constexpr size_t kMostShown = 200;
constexpr qsizetype kLeastLettersOfHelp = 4;      // fewer are in every other help
constexpr qsizetype kLeastLettersOfCategory = 2;  // one begins several of them

QString PlainText(const QAction& action) {
  return action.text().remove(u'&').remove(u'…');
}

// The category that a pattern such as "view:zoom" asks for, and what is behind it; none: of all of them. A head's
// "4:3" names no category.
std::pair<QString, QString> CategoryAndRest(const QString& pattern, const QStringList& categories) {
  const qsizetype colon = pattern.indexOf(u':');
  const QString wanted = pattern.left(std::max<qsizetype>(colon, 0)).trimmed();
  const bool is_one = wanted.size() >= kLeastLettersOfCategory &&
                      std::any_of(categories.begin(), categories.end(),
                                  [&](const QString& one) { return one.startsWith(wanted, Qt::CaseInsensitive); });
  if (!is_one) return {{}, pattern};
  return {wanted, pattern.mid(colon + 1).trimmed()};
}

// The name at the left, category and shortcut at the right.
class ShortcutDelegate : public QStyledItemDelegate {
 public:
  using QStyledItemDelegate::QStyledItemDelegate;
  void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    QStyledItemDelegate::paint(painter, option, index);
    const bool selected = option.state.testFlag(QStyle::State_Selected);
    QColor ink = option.palette.color(selected ? QPalette::HighlightedText : QPalette::Text);
    ink.setAlphaF(0.7f);
    painter->setPen(ink);
    const QRect rect = option.rect.adjusted(0, 0, -8, 0);
    painter->drawText(rect, Qt::AlignRight | Qt::AlignVCenter, index.data(kShortcutRole).toString());
    painter->drawText(rect.adjusted(0, 0, -kShortcutWidth, 0), Qt::AlignRight | Qt::AlignVCenter,
                      index.data(kCategoryRole).toString());
  }
  void initStyleOption(QStyleOptionViewItem* option, const QModelIndex& index) const override {
    QStyledItemDelegate::initStyleOption(option, index);
    if (index.data(kCategoryRole).isNull()) return;  // a line about the list, which has all of the width
    // The style elides to the whole width, of which the other columns have the end.
    option->text = option->fontMetrics.elidedText(option->text, Qt::ElideRight,
                                                  std::max(option->rect.width() - kShortcutWidth - kCategoryWidth, 80));
  }
  QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    // As wide as the list: for its longest line all others would have their shortcuts out of sight.
    return {1, QStyledItemDelegate::sizeHint(option, index).height() + 8};
  }
};

}  // namespace

CommandPalette::CommandPalette(QWidget* window)
    : QFrame(window), input_(new QLineEdit(this)), list_(new QListWidget(this)) {
  setObjectName(QStringLiteral("palette"));
  setFrameShape(QFrame::StyledPanel);
  setAutoFillBackground(true);
  input_->setObjectName(QStringLiteral("paletteInput"));
  input_->setPlaceholderText(tr("Type a command, a head such as 4:3, a method or a file; view: lists a category"));
  input_->setAccessibleName(tr("Command palette"));
  list_->setAccessibleName(tr("Commands that match"));
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

void CommandPalette::Open(const QList<PaletteGroup>& groups, const QList<PaletteEntry>& entries) {
  entries_ = entries;
  actions_.clear();
  for (const PaletteGroup& group : groups) {
    for (QAction* action : group.actions) {
      // One that cannot be had now is listed where that is said why.
      if (!action->text().isEmpty() && (action->isEnabled() || !WhyNotAllowed(*action).isEmpty()))
        actions_.append({group.category, action});
    }
  }
  const QWidget* window = parentWidget();
  const int palette_width = std::min(680, window->width() - 40);
  setGeometry((window->width() - palette_width) / 2, 40, palette_width, std::min(420, window->height() - 80));
  before_.Take(this);
  input_->clear();
  Rank({});
  show();
  raise();
  input_->setFocus();
}

void CommandPalette::Close() {
  before_.GiveBack(this);
  hide();
}

void CommandPalette::Rank(const QString& typed) {
  QStringList categories;
  for (const Listed& one : actions_) categories.append(one.category);
  for (const PaletteEntry& entry : entries_) categories.append(entry.category);
  const auto [category, letters] = CategoryAndRest(typed, categories);
  const QString& pattern = letters;  // a lambda cannot capture the other
  struct Ranked {
    int score = 0;
    const Listed* action = nullptr;
    qsizetype entry = -1;
    qsizetype length = 0;
  };
  std::vector<Ranked> ranked, unavailable;
  // What only its help names ("roofline", a word of a method's paper) comes last.
  const auto score_of = [&pattern](const QString& text, const QString& help) {
    const int score = FuzzyScore(pattern, text);
    const bool named = pattern.size() >= kLeastLettersOfHelp && help.contains(pattern, Qt::CaseInsensitive);
    return score < 0 && named ? 0 : score;
  };
  for (const Listed& one : actions_) {
    const QAction* const action = one.action;
    if (action == nullptr || !one.category.startsWith(category, Qt::CaseInsensitive)) continue;
    int score = score_of(PlainText(*action), action->statusTip());
    // A whole name of what it leads to beats every likeness: "trace" is the pane before it is Open trace.
    if (score >= 0 && pattern.compare(action->property(kLeadsToProperty).toString(), Qt::CaseInsensitive) == 0 &&
        !pattern.isEmpty())
      score = std::numeric_limits<int>::max();
    if (score < 0) continue;
    const Ranked found{score, &one, -1, PlainText(*action).size()};
    if (action->isEnabled()) {
      ranked.push_back(found);
    } else if (!pattern.isEmpty() || !category.isEmpty()) {
      unavailable.push_back(found);
    }
  }
  for (qsizetype entry = 0; entry < entries_.size(); ++entry) {
    if (!entries_[entry].category.startsWith(category, Qt::CaseInsensitive)) continue;
    if (typed.isEmpty() && entries_[entry].only_when_typed) continue;
    const int score = score_of(entries_[entry].text, entries_[entry].help);
    if (score >= 0) ranked.push_back({score, nullptr, entry, entries_[entry].text.size()});
  }
  // Of what fits equally well the shortest, of which the letters are the largest part: "maps" is Go to Maps before it
  // is Width of exported pictures. Without letters the order is the menus'.
  const auto fits_better = [&pattern](const Ranked& a, const Ranked& b) {
    return a.score != b.score ? a.score > b.score : !pattern.isEmpty() && a.length < b.length;
  };
  std::stable_sort(ranked.begin(), ranked.end(), fits_better);
  std::stable_sort(unavailable.begin(), unavailable.end(), fits_better);
  // What can be had comes first, and what cannot has the lines that are left.
  const size_t found = ranked.size() + unavailable.size();
  ranked.resize(std::min(ranked.size(), kMostShown));
  unavailable.resize(std::min(unavailable.size(), kMostShown - ranked.size()));
  const size_t left_out = found - ranked.size() - unavailable.size();
  list_->clear();
  for (const Ranked& one : ranked) {
    if (one.action != nullptr) {
      QAction* const action = one.action->action;
      auto* item = new QListWidgetItem(PlainText(*action), list_);
      item->setToolTip(action->statusTip());
      item->setData(kActionRole, QVariant::fromValue(static_cast<QObject*>(action)));
      item->setData(kShortcutRole, ShortcutText(*action));
      item->setData(kCategoryRole, one.action->category);
    } else {
      const PaletteEntry& entry = entries_[one.entry];
      auto* item = new QListWidgetItem(entry.text, list_);
      item->setToolTip(entry.help);
      item->setData(kEntryRole, one.entry);
      item->setData(kCategoryRole, entry.category);
    }
  }
  num_choices_ = list_->count();
  const auto say = [this](const QString& text) {
    auto* item = new QListWidgetItem(text, list_);
    item->setFlags(Qt::NoItemFlags);
    item->setToolTip(text);
  };
  if (ranked.empty() && unavailable.empty()) say(tr("Nothing matches: type fewer letters, or a head's layer:head"));
  for (const Ranked& one : unavailable) {
    const QAction& action = *one.action->action;
    say(tr("%1 – unavailable: %2").arg(PlainText(action), WhyNotAllowed(action)));
  }
  if (left_out > 0) {
    say(left_out == 1 ? tr("1 more matches: type more letters")
                      : tr("%1 more match: type more letters").arg(CountText(static_cast<qint64>(left_out))));
  }
  list_->setCurrentRow(0);
}

bool CommandPalette::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::FocusOut) Close();  // the window may only be left
  if (event->type() != QEvent::KeyPress) return QFrame::eventFilter(watched, event);
  switch (static_cast<QKeyEvent*>(event)->key()) {
    case Qt::Key_Escape:
      Close();
      return true;
    case Qt::Key_Return:
    case Qt::Key_Enter:
      Choose();
      return true;
    case Qt::Key_Down:
      list_->setCurrentRow(std::max(std::min(list_->currentRow() + 1, num_choices_ - 1), 0));
      return true;
    case Qt::Key_PageDown:
    case Qt::Key_PageUp: {
      const int before = list_->currentRow(), last = std::max(num_choices_ - 1, 0);
      const bool sent = QCoreApplication::sendEvent(list_, event);
      // The list does not go on to a line that cannot be chosen.
      const bool stays = list_->currentRow() == before && static_cast<QKeyEvent*>(event)->key() == Qt::Key_PageDown;
      list_->setCurrentRow(stays ? last : std::clamp(list_->currentRow(), 0, last));
      return sent;
    }
    case Qt::Key_Up:
      list_->setCurrentRow(std::max(list_->currentRow() - 1, 0));
      return true;
    default:
      return QFrame::eventFilter(watched, event);
  }
}

void CommandPalette::Choose() {
  const QListWidgetItem* item = list_->currentItem();
  if (item == nullptr || item->flags() == Qt::NoItemFlags) return;
  const QVariant entry = item->data(kEntryRole);
  if (entry.isValid()) {
    const std::function<void()> choose = entries_[entry.toLongLong()].choose;
    Close();
    choose();
    return;
  }
  const QPointer<QAction> action = qobject_cast<QAction*>(item->data(kActionRole).value<QObject*>());
  Close();
  if (action) action->trigger();
}

}  // namespace headscope::ui
