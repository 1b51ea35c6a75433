// SPDX-License-Identifier: Apache-2.0
// The window's part of bookmarks and tags: they are written as they change, and a menu goes to them.
#include <QMenu>

#include "main_window.h"
#include "panes.h"
#include "shown_text.h"

namespace headscope::ui {
namespace {

constexpr int kNumberedBookmarks = 9;

}  // namespace

void MainWindow::BindNotes() {
  commands_.Bind(Command::kBookmark, [this](bool) { AddBookmark(); });
  connect(&state_, &WindowState::BookmarkWanted, this, &MainWindow::AddBookmark);
  connect(&state_, &WindowState::PlaceWanted, canvas_, &HeadCanvas::ZoomTo);
  connect(&state_.notes, &TraceNotes::Put, &keeper_, &TraceKeeper::KeepNote);
  connect(&state_.notes, &TraceNotes::Dropped, &keeper_, &TraceKeeper::DropNote);
  connect(notice_, &NoticeBar::Said, &state_.log, [this](const QString& sentence, bool is_error) {
    state_.log.Add(is_error ? NoticeLog::Kind::kError : NoticeLog::Kind::kNews, sentence);
  });
  bookmark_menu_ = commands_.menu(CommandMenu::kGo)->addMenu(tr("Book&marks"));
  connect(bookmark_menu_, &QMenu::aboutToShow, this, &MainWindow::FillBookmarkMenu);
  for (int i = 0; i < kNumberedBookmarks; ++i) {
    auto* go = new QAction(tr("Go to bookmark %1").arg(i + 1), this);
    go->setObjectName(QStringLiteral("go-bookmark-%1").arg(i + 1));
    go->setShortcut(QKeySequence(tr("Ctrl+%1").arg(i + 1)));
    connect(go, &QAction::triggered, this, [this, i] {
      const std::vector<TraceNote> places = state_.notes.Places();
      if (i < static_cast<int>(places.size())) {
        state_.GoToNote(places[static_cast<size_t>(i)]);
      } else {
        notice_->ShowMessage(tr("There is no bookmark %1 yet; Ctrl+B bookmarks the current view.").arg(i + 1));
      }
    });
    addAction(go);
    bookmark_actions_.append(go);
  }
  FillBookmarkMenu();
  for (const auto changed : {&QAbstractItemModel::rowsInserted, &QAbstractItemModel::rowsRemoved})
    connect(&state_.notes, changed, this, &MainWindow::ShowNotesOnMaps);
  connect(&state_.notes, &QAbstractItemModel::modelReset, this, &MainWindow::ShowNotesOnMaps);
  connect(&state_.notes, &QAbstractItemModel::dataChanged, this, &MainWindow::ShowNotesOnMaps);
  connect(canvas_, &HeadCanvas::NotePressed, this, &MainWindow::GoToNote);
}

void MainWindow::GoToNote(const QString& id) {
  const int row = state_.notes.RowOf(id);
  if (row >= 0) state_.GoToNote(TraceNote(state_.notes.notes()[static_cast<size_t>(row)]));
}

void MainWindow::ShowNotesOnMaps() {
  std::vector<MapNote> shown;
  for (const TraceNote& note : state_.notes.Places()) {
    shown.push_back({note.id.toStdString(), note.head, static_cast<int>(shown.size()) + 1, note.row_begin, note.row_end,
                     note.column_begin, note.column_end, note.text.toStdString()});
  }
  for (HeadCanvas* map : Maps()) {
    const bool is_other_trace = other_workbench_ != nullptr && !others_.empty() && map == others_.front();
    map->SetNotes(is_other_trace ? std::vector<MapNote>() : shown);
  }
}

void MainWindow::FillBookmarkMenu() {
  bookmark_menu_->clear();
  const std::vector<TraceNote> places = state_.notes.Places();
  for (size_t i = 0; i < places.size(); ++i) {
    const TraceNote& note = places[i];
    const QString name = note.text.isEmpty() ? tr("(no note)") : ShownInMenu(note.text.left(80));
    const QString text = tr("%1:%2  %3").arg(note.head.layer).arg(note.head.head).arg(name);
    if (i < kNumberedBookmarks) {
      QAction* go = bookmark_actions_[static_cast<qsizetype>(i)];
      go->setText(text);
      bookmark_menu_->addAction(go);
    } else {
      bookmark_menu_->addAction(text, this, [this, note] { state_.GoToNote(note); });
    }
  }
  if (places.empty()) bookmark_menu_->addAction(tr("None yet; Ctrl+B makes one"))->setEnabled(false);
}

void MainWindow::AddBookmark() {
  if (!canvas_->HasHead()) return;
  const HeadCanvas::Part part = canvas_->VisiblePart();
  const TraceSummary& trace = state_.heads.trace();
  const QString id = part.is_whole ? state_.notes.AddPlace(canvas_->head(), 0, trace.num_rows, 0, trace.num_tokens, {})
                                   : state_.notes.AddPlace(canvas_->head(), part.row_begin, part.row_end,
                                                           part.column_begin, part.column_end, {});
  if (QAction* pane = ActionNamed(GoToPaneName(&MakeNotesPane))) pane->trigger();
  Q_EMIT state_.NoteEditWanted(id);
}

}  // namespace headscope::ui
