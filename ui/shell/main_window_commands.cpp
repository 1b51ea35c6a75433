// SPDX-License-Identifier: Apache-2.0
#include <QApplication>
#include <QClipboard>
#include <QFileDialog>
#include <QFileInfo>
#include <QMessageBox>
#include <QMetaEnum>
#include <QScreen>
#include <algorithm>
#include <cmath>

#include "action_step.h"
#include "canvas_commands.h"
#include "keys_dialog.h"
#include "main_window.h"
#include "manual_dialog.h"
#include "shown_text.h"

namespace headscope::ui {

void MainWindow::BindCommands() {
  const auto bind = [this](Command command, auto run) { commands_.Bind(command, [run](bool) { run(); }); };
  bind(Command::kOpen, [this] {
    const QString folder = session_.last_trace.isEmpty() ? QString() : QFileInfo(session_.last_trace).path();
    const QString path =
        QFileDialog::getOpenFileName(this, tr("Open trace"), folder, tr("Traces (*.h5 *.hdf5);;All files (*)"));
    if (!path.isEmpty()) OpenPath(path);
  });
  bind(Command::kCapture, [this] { OpenCapture({}); });
  bind(Command::kExportCanvas, [this] { ExportCanvas(); });
  bind(Command::kExportWidth, [this] { ChooseExportWidth(); });
  bind(Command::kExportHeads, [this] {
    ExportTable(tr("Export heads table"), ExportName(QStringLiteral("heads.csv")), [this](const std::string& path) {
      return workbench_->ExportStatistics(state_.heads.AllStatistics(), path);
    });
  });
  bind(Command::kExportRuns, [this] { ExportRuns(); });
  bind(Command::kLoadRuns, [this] { LoadRuns(); });
  bind(Command::kQuit, [this] { close(); });
  // What a map has just been set to may not have been told yet, and is the last change.
  bind(Command::kUndo, [this] {
    StateChanged();
    state_.parameters.stack()->undo();
  });
  bind(Command::kRedo, [this] {
    StateChanged();
    state_.parameters.stack()->redo();
  });
  bind(Command::kCopyRuns, [this] { QApplication::clipboard()->setText(state_.runs.AsText()); });
  bind(Command::kClearRuns, [this] { ClearRuns(); });
  bind(Command::kPalette, [this] { OpenPalette(); });
  bind(Command::kSettings, [this] { ShowSettings(); });
  bind(Command::kBack, [this] {
    if (const auto head = state_.history.Back()) state_.heads.Select(*head);
  });
  bind(Command::kForward, [this] {
    if (const auto head = state_.history.Forward()) state_.heads.Select(*head);
  });
  bind(Command::kPreviousHead, [this] { StepHead(MapWithFocus(), -1); });
  bind(Command::kNextHead, [this] { StepHead(MapWithFocus(), 1); });
  bind(Command::kLikeHeads, [this] {
    const analysis::HeadId head = *state_.heads.selected();
    state_.heads.AskForFilter(QStringLiteral("like=%1:%2").arg(head.layer).arg(head.head));
  });
  bind(Command::kGoTo, [this] { find_bar_->OpenGoTo(); });
  bind(Command::kFindToken, [this] { find_bar_->OpenFind(); });
  bind(Command::kFit, [this] { canvas_->FitView(); });
  bind(Command::kZoomIn, [this] { canvas_->ZoomIn(); });
  bind(Command::kZoomOut, [this] { canvas_->ZoomOut(); });
  bind(Command::kChooseMethod, [this] { canvas_->ToggleMethodList(); });
  bind(Command::kPreviousMethod, [this] { MapWithFocus()->StepMethod(-1); });
  bind(Command::kNextMethod, [this] { MapWithFocus()->StepMethod(1); });
  commands_.Bind(Command::kLogScale,
                 [this](bool on) { canvas_->SetScale(on ? ColorScale::kLogarithmic : ColorScale::kLinear); });
  commands_.Bind(Command::kMeanReduction, [this](bool on) {
    canvas_->SetReduction(on ? analysis::TileReduction::kMean : analysis::TileReduction::kMax);
  });
  commands_.Bind(Command::kOverlay, [this](bool on) { canvas_->SetOverlay(on); });
  commands_.Bind(Command::kLost, [this](bool on) { canvas_->SetLost(on); });
  commands_.Bind(Command::kPanel, [this](bool on) { canvas_->SetPanelVisible(on); });
  bind(Command::kThemeSystem, [this] { SetTheme(QStringLiteral("system")); });
  bind(Command::kThemeLight, [this] { SetTheme(QStringLiteral("light")); });
  bind(Command::kThemeDark, [this] { SetTheme(QStringLiteral("dark")); });
  commands_.Bind(Command::kFullScreen,
                 [this](bool on) { setWindowState(windowState().setFlag(Qt::WindowFullScreen, on)); });
  bind(Command::kResetLayout, [this] { ResetPanes(); });
  bind(Command::kRun, [this] { canvas_->RunMethod(); });
  bind(Command::kRunAll, [this] { state_.queue.RunAll(); });
  bind(Command::kRunAllAtTarget, [this] { state_.queue.RunAllAtTarget(); });
  bind(Command::kMeetTarget, [this] { state_.queue.MeetTarget(); });
  bind(Command::kCancelWork, [this] { progress_->CancelShown(); });
  bind(Command::kManual, [this] { OpenManual(); });
  bind(Command::kMethodHelp, [this] { OpenManual()->ShowMethod(canvas_->method()); });
  bind(Command::kKeys, [this] { ShowKeys(); });
  bind(Command::kAbout, [this] { ShowAbout(); });
  BindReach();
  BindExport();
  BindSplit();
  BindNotes();
  BindLayouts();
  connect(find_bar_, &FindBar::Chosen, &state_.focus, &QueryFocus::GoTo);
  connect(find_bar_, &FindBar::ChosenAsKey, &state_.focus, [this](qint64 column) {
    // Of the query on show if it sees the key, else of the prompt's last one.
    const std::vector<int32_t>& rows = state_.heads.trace().row_positions;
    const auto last = static_cast<int64_t>(rows.size()) - 1;
    if (last < 0) return;
    const int64_t row = std::clamp<int64_t>(state_.focus.row().value_or(last), 0, last);
    state_.focus.GoTo(rows[static_cast<size_t>(row)] >= column ? row : last, column);
  });
  connect(state_.parameters.stack(), &QUndoStack::indexChanged, this, [this] { UpdateCommands(); });
}

void MainWindow::ConnectCanvas() {
  connect(canvas_, &HeadCanvas::CursorMoved, this, [this](qint64 row, qint64 column, const Exact& exact) {
    ShowCursor(state_.heads.trace(), row, column, exact);
  });
  connect(canvas_, &HeadCanvas::CursorLeft, cursor_label_, &QLabel::clear);
  connect(canvas_, &HeadCanvas::CursorMoved, &state_.focus,
          [this](qint64 row, qint64 column) { state_.focus.Point(row, column); });
  connect(canvas_, &HeadCanvas::CursorLeft, &state_.focus, &QueryFocus::Leave);
  connect(canvas_, &HeadCanvas::ScoreMarked, &state_.focus,
          [this](qint64 row, qint64 column) { state_.focus.ChooseByClick(row, column); });
  connect(canvas_, &HeadCanvas::ScoreMarkTakenBack, &state_.focus, &QueryFocus::TakeBackClick);
  connect(canvas_, &HeadCanvas::MenuWanted, this,
          [this](QPoint global, qint64 row, qint64 column) { ShowMapMenu(canvas_, global, row, column); });
  connect(&state_.focus, &QueryFocus::GoToWanted, canvas_, &HeadCanvas::GoTo);
  connect(canvas_, &HeadCanvas::WorstQueryShown, this, &MainWindow::SayWhatIsLost);
  connect(canvas_, &HeadCanvas::DisplayChanged, this, &MainWindow::SyncViewCommands);
  connect(canvas_, &HeadCanvas::HeadStepRequested, &state_, &WindowState::StepHead);
  connect(canvas_, &HeadCanvas::MethodChanged, this, &MainWindow::UpdateCommands);
  connect(canvas_, &HeadCanvas::GraphicsFailed, notice_, &NoticeBar::ShowError);
  connect(canvas_, &HeadCanvas::PngExported, this, [this](const QString& path, const QString& error) {
    progress_->End(kExportWork);
    if (error.isEmpty()) {
      notice_->ShowMessage(tr("Map saved to %1").arg(path));
    } else {
      notice_->ShowError(error);
    }
  });
}

void MainWindow::ConnectQueue() {
  const auto name = [](RunQueue::Work work) {
    return QStringLiteral("queue-%1")
        .arg(QLatin1String(QMetaEnum::fromType<RunQueue::Work>().valueToKey(static_cast<int>(work))));
  };
  RunQueue* const queue = &state_.queue;
  connect(queue, &RunQueue::Began, this, [this, queue, name](RunQueue::Work work) {
    progress_->Begin(name(work), [queue, work] { queue->Cancel(work); });
  });
  connect(queue, &RunQueue::Progressed, this,
          [this, name](RunQueue::Work work, const ProgressReport& report) { progress_->Update(name(work), report); });
  connect(queue, &RunQueue::Ended, this, [this, name](RunQueue::Work work) { progress_->End(name(work)); });
  connect(queue, &RunQueue::Measured, this, &MainWindow::AddRun);
  connect(&state_, &WindowState::Failed, notice_, &NoticeBar::ShowError);
  connect(&state_, &WindowState::Noticed, notice_, &NoticeBar::ShowMessage);
}

void MainWindow::SyncViewCommands() {
  commands_[Command::kLogScale]->setChecked(canvas_->scale() == ColorScale::kLogarithmic);
  commands_[Command::kMeanReduction]->setChecked(canvas_->reduction() == analysis::TileReduction::kMean);
  commands_[Command::kOverlay]->setChecked(canvas_->overlay());
  commands_[Command::kLost]->setChecked(canvas_->lost());
  commands_[Command::kPanel]->setChecked(canvas_->panel_visible());
  color_box_->setCurrentIndex(color_box_->findData(canvas_->color_map()));
  if (color_box_->currentIndex() >= 0) color_actions_[color_box_->currentIndex()]->setChecked(true);
}

void MainWindow::SyncMetric() {
  const int index = metric_box_->findData(QString::fromStdString(state_.heads.metric()));
  metric_box_->setCurrentIndex(index);
  if (index >= 0) metric_actions_[index]->setChecked(true);
}

void MainWindow::UpdateCommands() {
  const bool has_head = canvas_->HasHead(), has_trace = state_.heads.HasTrace();
  for (const Command command :
       {Command::kExportCanvas, Command::kRun, Command::kRunAll, Command::kRunAllAtTarget, Command::kGoTo,
        Command::kFindToken, Command::kBookmark, Command::kFit, Command::kZoomIn, Command::kZoomOut,
        Command::kPreviousHead, Command::kNextHead, Command::kLikeHeads}) {
    Allow(commands_[command], has_head, tr("no head is open"));
  }
  Allow(commands_[Command::kMeetTarget], state_.queue.CanSearch(),
        has_head ? tr("%1 has no budget to search").arg(canvas_->method()) : tr("no head is open"));
  Allow(commands_[Command::kExportHeads], has_trace, tr("no trace is open"));
  Allow(commands_[Command::kLoadRuns], has_trace, tr("no trace is open"));
  const bool has_runs = state_.runs.rowCount() > 0;
  for (const Command command : {Command::kExportRuns, Command::kCopyRuns, Command::kClearRuns})
    Allow(commands_[command], has_runs, tr("no runs yet"));
  UpdateReach();
  Allow(commands_[Command::kBack], state_.history.CanGoBack(), tr("no earlier head"));
  Allow(commands_[Command::kForward], state_.history.CanGoForward(), tr("no later head"));
  const QUndoStack& undo = *state_.parameters.stack();
  Allow(commands_[Command::kUndo], undo.canUndo(), tr("nothing to undo"));
  Allow(commands_[Command::kRedo], undo.canRedo(), tr("nothing to redo"));
  commands_[Command::kUndo]->setText(undo.canUndo() ? tr("&Undo %1").arg(ShownInMenu(undo.undoText())) : tr("&Undo"));
  commands_[Command::kRedo]->setText(undo.canRedo() ? tr("&Redo %1").arg(ShownInMenu(undo.redoText())) : tr("&Redo"));
}

void MainWindow::ShowHead(analysis::HeadId head) {
  canvas_->ShowHead(head);
  if (commands_[Command::kSplitFollows]->isChecked()) {
    for (HeadCanvas* map : others_) ShowReference(map, head);
  }
  UpdateComparison();
  setWindowTitle(QStringLiteral("%1:%2 – %3 – headscope")
                     .arg(head.layer)
                     .arg(head.head)
                     .arg(Shown(QFileInfo(QString::fromStdString(state_.heads.trace().path)).fileName())));
  UpdateCommands();
}

void MainWindow::ShowCursor(const TraceSummary& trace, qint64 row, qint64 column, const Exact& exact) {
  if (row < 0 || row >= trace.num_rows || column < 0 || column >= trace.num_tokens) return;
  const int32_t position = trace.row_positions[static_cast<size_t>(row)];
  const auto token = [&](int64_t at) { return QString::fromStdString(trace.token_text[static_cast<size_t>(at)]); };
  QString text = tr("query %1 “%2”  →  key %3 “%4”").arg(position).arg(token(position)).arg(column).arg(token(column));
  if (!exact.causal) {
    text += tr("     not visible: the key comes after the query");
  } else if (!exact.in_window) {
    text += tr("     not visible: the key is outside the model's window");
  } else if (!std::isnan(exact.probability)) {
    text += QStringLiteral("     p = %1").arg(exact.probability, 0, 'g', 4);
  }
  cursor_label_->setText(text);
}

void MainWindow::SayWhatIsLost(qint64 row, double kept_mass, const std::vector<LostKey>& lost) {
  constexpr size_t kKeysNamed = 3;
  const TraceSummary& trace = state_.heads.trace();
  if (row < trace.num_rows) state_.focus.Choose(row);
  if (lost.empty() || row >= trace.num_rows) return;
  const auto token = [&](int64_t at) { return QString::fromStdString(trace.token_text[static_cast<size_t>(at)]); };
  QStringList keys;
  for (size_t i = 0; i < std::min(kKeysNamed, lost.size()); ++i)
    keys.append(
        tr("key %1 “%2” (%3)").arg(lost[i].column).arg(token(lost[i].column)).arg(lost[i].probability, 0, 'f', 3));
  const int32_t position = trace.row_positions[static_cast<size_t>(row)];
  notice_->ShowMessage(tr("Query %1 “%2” keeps %3 of its attention. Its largest losses: %4.")
                           .arg(position)
                           .arg(token(position))
                           .arg(kept_mass, 0, 'f', 3)
                           .arg(keys.join(QStringLiteral(", "))));
}

void MainWindow::OpenPalette() {
  UpdateReach();  // whether there is a picture to export is the panes' affair, which tell nobody
  // Without the menu's switches, which bear the panes' bare names: whoever types one wants to go there, and the switch
  // would take away a pane that is open.
  QList<PaletteGroup> groups;
  for (const CommandSpec& spec : CommandTable()) groups.append({MenuName(spec.menu), {commands_[spec.command]}});
  groups += {{tr("map"), canvas_actions_},    {tr("metric"), metric_actions_},     {tr("colours"), color_actions_},
             {tr("pane"), pane_actions_},     {tr("bookmark"), bookmark_actions_}, {tr("layout"), layout_actions_},
             {tr("figure"), figure_actions_}, {tr("picture"), picture_actions_}};
  palette_->Open(groups, PaletteEntries());
}

void MainWindow::BuildCanvasActions() {
  for (const CanvasCommand& command : CanvasCommands()) {
    auto* action = new QAction(QString::fromUtf8(command.text), this);
    action->setObjectName(QLatin1String(command.id));
    action->setStatusTip(QString::fromUtf8(command.help));
    connect(action, &QAction::triggered, this, [this, &command] {
      command.run(*canvas_);
      SyncViewCommands();
    });
    canvas_actions_.append(action);
  }
}

void MainWindow::ShowKeys() {
  std::vector<KeysSection> sections = GestureSections();
  for (const CommandSpec& spec : CommandTable()) {
    const QString keys = ShortcutText(*commands_[spec.command]);
    if (keys.isEmpty()) continue;
    const QString title = commands_.menu(spec.menu)->title().remove(u'&');
    if (sections.back().title != title) sections.push_back({title, {}});
    sections.back().lines.push_back({keys, QString::fromUtf8(spec.help)});
  }
  sections.push_back({tr("Go to a pane"), {}});
  for (const QAction* action : pane_actions_) {
    if (!action->shortcut().isEmpty()) sections.back().lines.push_back({ShortcutText(*action), action->text()});
  }
  auto* dialog = new KeysDialog(std::move(sections), this);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->resize(QSize(680, 640).boundedTo(screen()->availableSize()));
  dialog->show();
  dialog->activateWindow();
}

void MainWindow::ShowSettings() {
  if (settings_ == nullptr) {
    settings_ = new SettingsDialog(&workbench_->memory(), this);
    connect(settings_, &SettingsDialog::MemoryChosen, this, [this](int mebibytes) {
      const auto set = [this](int chosen) {
        workbench_->memory().SetCapacity(chosen > 0 ? int64_t{chosen} << 20 : MemoryBudget::DefaultBytes());
        session_.memory_mib = chosen;
        settings_->Refresh();
        StateChanged();
      };
      if (mebibytes == session_.memory_mib) return;
      state_.parameters.stack()->push(new ActionStep(
          tr("memory for caches"), [set, before = session_.memory_mib] { set(before); },
          [set, mebibytes] { set(mebibytes); }, ActionStep::kToDo, ActionStep::kMemory));
    });
  }
  settings_->show();
  settings_->raise();
  settings_->activateWindow();
}

ManualDialog* MainWindow::OpenManual() {
  if (manual_ == nullptr) manual_ = new ManualDialog(this);
  manual_->show();
  manual_->raise();
  manual_->activateWindow();
  return manual_;
}

void MainWindow::ShowAbout() {
  auto* box = new QMessageBox(QMessageBox::NoIcon, tr("About headscope"),
                              tr("<b>headscope %1</b><br>a profiler for attention heads<br><br>Apache License 2.0. "
                                 "Built with Qt %2 and Dear ImGui.")
                                  .arg(QApplication::applicationVersion(), QString::fromLatin1(qVersion())),
                              QMessageBox::Close, this);
  box->setAttribute(Qt::WA_DeleteOnClose);
  box->setModal(false);
  box->show();
}

}  // namespace headscope::ui
