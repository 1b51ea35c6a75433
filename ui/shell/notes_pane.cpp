// SPDX-License-Identifier: Apache-2.0
#include "notes_pane.h"

#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QShortcut>
#include <QVBoxLayout>

#include "allowed.h"
#include "panes.h"
#include "selected_rows.h"

namespace headscope::ui {

NotesPane::NotesPane(WindowState* state, QWidget* parent)
    : QWidget(parent),
      state_(state),
      view_(new QTableView),
      tag_(new QLineEdit),
      bookmark_(new QPushButton(tr("Bookmark"))),
      add_tag_(new QPushButton(tr("Tag head"))),
      go_(new QPushButton(tr("Go to"))),
      rename_(new QPushButton(tr("Edit note"))),
      delete_(new QPushButton(tr("Delete"))) {
  view_->setObjectName(QStringLiteral("notesTable"));
  view_->setAccessibleName(tr("Bookmarks and tags"));
  ListRows(view_, &state->notes);
  // A double click and Enter go there; typing must not start an edit.
  view_->setEditTriggers(QAbstractItemView::EditKeyPressed);
  view_->setColumnWidth(TraceNotes::kPlace,
                        fontMetrics().horizontalAdvance(QStringLiteral("queries 0000–0000, keys 0000–0000")) + 16);
  view_->setColumnWidth(TraceNotes::kHead, fontMetrics().horizontalAdvance(QStringLiteral("000:000")) + 12);
  bookmark_->setObjectName(QStringLiteral("addBookmark"));
  bookmark_->setToolTip(tr("Bookmark the part of the map that is in view (Ctrl+B)"));
  tag_->setObjectName(QStringLiteral("tagInput"));
  tag_->setPlaceholderText(tr("tag, e.g. sink"));
  tag_->setAccessibleName(tr("Tag for this head"));
  tag_->setMaxLength(100);
  tag_->setAcceptDrops(false);
  add_tag_->setObjectName(QStringLiteral("addTag"));
  add_tag_->setToolTip(tr("Tag the open head; #tag in the filter of the heads finds it"));
  go_->setToolTip(tr("Open the head and show the place (Enter, double-click)"));
  rename_->setObjectName(QStringLiteral("editNote"));
  rename_->setToolTip(tr("Change the note or the tag (F2)"));
  delete_->setObjectName(QStringLiteral("deleteNote"));
  delete_->setToolTip(tr("Delete the selected notes (Delete); Ctrl+Z brings them back"));
  auto* add = new QHBoxLayout;
  add->addWidget(bookmark_);
  add->addWidget(tag_, 1);
  add->addWidget(add_tag_);
  auto* buttons = new QHBoxLayout;
  for (QPushButton* button : {go_, rename_, delete_}) buttons->addWidget(button);
  buttons->addStretch(1);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(6, 6, 6, 6);
  layout->addLayout(add);
  layout->addWidget(view_, 1);
  layout->addLayout(buttons);

  connect(bookmark_, &QPushButton::clicked, state, &WindowState::BookmarkWanted);
  const auto tag = [this] {
    if (!state_->heads.selected()) return;
    state_->notes.AddTag(*state_->heads.selected(), tag_->text());
    tag_->clear();
  };
  connect(add_tag_, &QPushButton::clicked, this, tag);
  connect(tag_, &QLineEdit::returnPressed, this, tag);
  connect(tag_, &QLineEdit::textChanged, this, &NotesPane::Update);
  connect(go_, &QPushButton::clicked, this, [this] { GoTo(view_->currentIndex()); });
  connect(rename_, &QPushButton::clicked, this,
          [this] { view_->edit(view_->currentIndex().siblingAtColumn(TraceNotes::kText)); });
  connect(delete_, &QPushButton::clicked, this, &NotesPane::Delete);
  connect(view_, &QTableView::activated, this, &NotesPane::GoTo);
  connect(new QShortcut(QKeySequence::Delete, view_, nullptr, nullptr, Qt::WidgetShortcut), &QShortcut::activated, this,
          &NotesPane::Delete);
  // F2 edits the note, whichever column the cursor is in.
  connect(new QShortcut(QKeySequence(Qt::Key_F2), view_, nullptr, nullptr, Qt::WidgetShortcut), &QShortcut::activated,
          rename_, &QPushButton::click);
  connect(state, &WindowState::NoteEditWanted, this, [this](const QString& id) {
    const int row = state_->notes.RowOf(id);
    if (row < 0) return;
    const QModelIndex index = state_->notes.index(row, TraceNotes::kText);
    view_->setFocus();
    view_->setCurrentIndex(index);
    view_->edit(index);
  });
  connect(view_->selectionModel(), &QItemSelectionModel::selectionChanged, this, &NotesPane::Update);
  connect(&state->heads, &HeadStore::SelectionChanged, this, &NotesPane::Update);
  connect(&state->notes, &QAbstractItemModel::modelReset, this, &NotesPane::Update);
  connect(&state->notes, &QAbstractItemModel::rowsRemoved, this, &NotesPane::Update);
  Update();
}

void NotesPane::GoTo(const QModelIndex& index) {
  if (index.isValid()) state_->GoToNote(state_->notes.notes()[static_cast<size_t>(index.row())]);
}

void NotesPane::Delete() {
  state_->notes.Remove(SelectedRows(view_));
}

void NotesPane::Update() {
  const bool has_head = state_->heads.selected().has_value();
  Allow(bookmark_, has_head, tr("no head is open"));
  Allow(add_tag_, has_head && !tag_->text().trimmed().isEmpty(),
        has_head ? tr("type the tag first") : tr("no head is open"));
  const size_t selected = SelectedRows(view_).size();
  Allow(go_, selected == 1, tr("select one note"));
  Allow(rename_, selected == 1, tr("select one note"));
  Allow(delete_, selected > 0, tr("no note is selected"));
}

QWidget* MakeNotesPane(WindowState* state) {
  return new NotesPane(state);
}

}  // namespace headscope::ui
