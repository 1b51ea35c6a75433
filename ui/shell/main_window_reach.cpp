// SPDX-License-Identifier: Apache-2.0
// What reaches beyond one head, and out of the window: sweeps over all heads, pictures in files, command lines.
#include <QApplication>
#include <QClipboard>
#include <QFileDialog>
#include <QFileInfo>
#include <QMenu>
#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "class_dialog.h"
#include "command_line.h"
#include "main_window.h"
#include "panes.h"
#include "save_dialog.h"
#include "selected_rows.h"
#include "shown_file_name.h"
#include "shown_text.h"
#include "while_alive.h"

namespace headscope::ui {
namespace {

// A terminal is in another folder than the program was started in, and a name that begins with a dash is an option.
QString AbsolutePath(const std::string& path) {
  return path.empty() ? QString() : QFileInfo(QString::fromStdString(path)).absoluteFilePath();
}

}  // namespace

QString MainWindow::TracePath() const {
  return state_.heads.HasTrace() ? session_.last_trace : QString();
}

QString MainWindow::DifferenceCommand() const {
  if (other_workbench_ != nullptr) {
    // A class or a tuned result is no metric of the command's: it then shows those that it shows unasked.
    const analysis::MetricInfo* const metric = state_.heads.metric_info();
    const bool is_known = metric != nullptr && !state_.heads.IsResultMetric();
    return TraceDifferenceCommand(TracePath(), AbsolutePath(second_canvas()->trace().path),
                                  is_known ? QString::fromStdString(metric->name) : QString());
  }
  const MethodTrial& other = state_.references.front();
  if (canvas_->comparison() != Comparison::kMasks || state_.trial.is_decode() || other.is_decode()) return {};
  const auto argument = [this](const MethodTrial& of) {
    return QString::fromStdString(workbench_->MethodArgument(of.method()->name, of.values().ToString(*of.method())));
  };
  return MaskDifferenceCommand(TracePath(), canvas_->head(), argument(state_.trial), argument(other));
}

void MainWindow::BindReach() {
  const auto bind = [this](Command command, auto run) { commands_.Bind(command, [run](bool) { run(); }); };
  BindConfiguration();
  bind(Command::kSweepTune, [this] {
    if (MayDropTuning(tr("Another tuning discards it."))) state_.sweep.Start(HeadSweep::Kind::kTune);
  });
  bind(Command::kSweepResume, [this] { state_.sweep.Resume(); });
  bind(Command::kExportTuning, [this] { ExportTuning(); });
  bind(Command::kExportFigure, [this] { ExportFigure(); });
  bind(Command::kCopyFigureCommand, [this] {
    const QString kept = keeper_.FileOfRuns();
    FigureDrawing drawing = state_.figures.Drawing();
    drawing.other_trace = AbsolutePath(drawing.other_trace).toStdString();
    CopyText(FigureCommand(TracePath(), drawing, state_.classes.defaults(),
                           kept.isEmpty() ? ExportName(QStringLiteral("runs.csv")) : kept));
  });
  ConnectFigures();
  ConnectQuantise();
  picture_menu_ = new QMenu(tr("Export pictur&e of pane"), this);
  commands_.menu(CommandMenu::kFile)->insertMenu(commands_[Command::kExportFigure], picture_menu_);
  connect(picture_menu_, &QMenu::aboutToShow, this, &MainWindow::UpdateReach);
  connect(&state_.offers, &PaneOffers::PicturesChanged, this, &MainWindow::FillPictureMenu);
  FillPictureMenu();
  bind(Command::kCopyRunCommand, [this] {
    const auto run = RunToCopy();
    if (!run) return;
    const QString method = QString::fromStdString(workbench_->MethodArgument(run->method, run->parameters));
    CopyText(CompareCommand(TracePath(), method, *run));
  });
  bind(Command::kCopyMassCommand, [this] {
    const kernels::MethodSpec* const method = state_.trial.method();
    const std::optional<LiveMask>& mask = state_.trial.mask();
    if (method == nullptr || !mask) return;
    const bool is_decode = state_.trial.is_decode();
    const std::string argument = workbench_->MethodArgument(method->name, state_.trial.values().ToString(*method));
    CopyText(KeptMassCommand(TracePath(), canvas_->head(), QString::fromStdString(argument),
                             is_decode ? mask->distribution.num_rows : 0, is_decode && workbench_->measures_alone()));
  });
  bind(Command::kCopyTradeOffCommand, [this] {
    const std::vector<analysis::MethodResult> runs = RunsOfTradeOff();
    QStringList methods;
    for (const analysis::MethodResult& run : runs) {
      const QString method = QString::fromStdString(workbench_->MethodArgument(run.method, run.parameters));
      if (!methods.contains(method)) methods.append(method);
    }
    if (!runs.empty()) CopyText(TradeOffCommand(TracePath(), methods, runs.front()));
  });
  bind(Command::kTuneDialog, [this] { OpenTuneDialog(); });
  bind(Command::kCopyTuneCommand, [this] { CopyTuneCommand(state_.sweep.TrialsTuning()); });
  bind(Command::kCopyViewCommand, [this] {
    MapDrawing drawing = DrawingOfMap();
    const auto as_argument = [this](std::string* method, std::string* parameters) {
      if (!method->empty()) *method = workbench_->MethodArgument(*method, std::exchange(*parameters, {}));
    };
    as_argument(&drawing.method, &drawing.parameters);
    as_argument(&drawing.other_method, &drawing.other_parameters);
    const bool of_steps = (!drawing.method.empty() && state_.trial.is_decode()) ||
                          (!drawing.other_method.empty() && state_.references.front().is_decode());
    CopyText(RenderCommand(TracePath(), drawing, of_steps && workbench_->measures_alone()));
  });
  bind(Command::kClasses, [this] { OpenClasses(); });
  bind(Command::kCopyHeadsCommand, [this] { CopyText(AnalyzeCommand(TracePath(), state_.classes)); });
  bind(Command::kCopyDifferenceCommand, [this] {
    if (const QString command = DifferenceCommand(); !command.isEmpty()) CopyText(command);
  });
  bind(Command::kWelcome, [this] { ShowWelcome(); });
  connect(canvas_, &HeadCanvas::FitToTraceRequested, &state_.queue, &RunQueue::MeetTarget);
  connect(welcome_, &WelcomePage::OpenRequested, this, [this](const QString& path) {
    if (path.isEmpty()) {
      commands_[Command::kOpen]->trigger();
    } else {
      OpenPath(path);
    }
  });
  // Tab goes round the page, and so did the keyboard when it was gone: to a button that nobody saw.
  connect(
      welcome_, &WelcomePage::Gone, this,
      [this] {
        if (!welcome_->isVisible() && focusWidget() != nullptr && welcome_->isAncestorOf(focusWidget()))
          canvas_->setFocus(Qt::OtherFocusReason);
      },
      Qt::QueuedConnection);
  connect(welcome_, &WelcomePage::ExampleRequested, this, &MainWindow::OpenExample);
  connect(welcome_, &WelcomePage::CaptureRequested, commands_[Command::kCapture], &QAction::trigger);
  connect(canvas_, &HeadCanvas::PanelMoved, welcome_, &WelcomePage::FollowPart);
  connect(welcome_, &WelcomePage::HeadRequested, &state_.heads, &HeadStore::Select);
  connect(welcome_, &WelcomePage::TourShows, this, [this](const QString& name) {
    QAction* action = ActionNamed(name);
    if (action == commands_[Command::kPanel]) {
      canvas_->OpenPanel();  // in a small window it is rolled up
      return welcome_->Frame(canvas_,
                             [this] { return canvas_->PanelControl(QStringLiteral("panel")).toAlignedRect(); });
    }
    if (action != nullptr && !(action->isCheckable() && action->isChecked())) action->trigger();
    QWidget* shown = canvas_;
    for (QDockWidget* dock : docks_) {
      if (GoToDockName(*dock) == name) shown = dock;
    }
    welcome_->Frame(shown, [shown] { return shown->rect(); });
  });
  connect(&state_.offers, &PaneOffers::RunsMenuWanted, this, [this](QPoint at, const QList<QAction*>& more) {
    auto* menu = new QMenu(this);
    menu->setObjectName(QStringLiteral("runsMenu"));
    menu->setAttribute(Qt::WA_DeleteOnClose);
    for (const Command command : {Command::kCopyRunCommand, Command::kCopyRuns, Command::kExportRuns})
      menu->addAction(commands_[command]);
    AddFromPane(menu, more);
    menu->popup(at);
  });
  connect(&state_.offers, &PaneOffers::HeadsMenuWanted, this, &MainWindow::ShowHeadsMenu);
}

MapDrawing MainWindow::DrawingOfMap() const {
  const HeadCanvas::Part part = canvas_->ComparedPart();
  MapDrawing drawing;
  drawing.head = canvas_->head();
  if (!part.is_whole) {
    drawing.row_begin = part.row_begin;
    drawing.row_end = part.row_end;
    drawing.column_begin = part.column_begin;
    drawing.column_end = part.column_end;
  }
  drawing.logarithmic = canvas_->scale() == ColorScale::kLogarithmic;
  drawing.mean = canvas_->reduction() == analysis::TileReduction::kMean;
  drawing.dark = !canvas_->pictures_light();
  drawing.color_map = canvas_->color_map().toStdString();
  drawing.range = canvas_->range();
  drawing.lost = canvas_->lost();
  drawing.profiles = canvas_->profiles();
  if (canvas_->overlay() && state_.trial.method() != nullptr) {
    drawing.method = canvas_->method().toStdString();
    drawing.parameters = state_.trial.values().ToString(*state_.trial.method());
  }
  const HeadCanvas* const second = second_canvas();
  const Comparison comparison = canvas_->comparison();
  if (comparison == Comparison::kValues) {
    drawing.other_head = second->head();
    if (other_workbench_ != nullptr) drawing.other_trace = AbsolutePath(second->trace().path).toStdString();
  } else if (comparison == Comparison::kMasks && !drawing.method.empty()) {
    drawing.other_method = second->method().toStdString();
    drawing.other_parameters = second->method_values().ToString(*state_.references.front().method());
  }
  const double pixels = PixelsPerExported();
  const QRectF map = canvas_->MapRect();
  const auto side = [&](double size) {
    return static_cast<int32_t>(std::clamp(std::lround(size * pixels), 64L, long{HeadCanvas::kMostPictureSide}));
  };
  // As much of the map's room as the part in view takes.
  const auto rows = static_cast<double>(part.row_end - part.row_begin),
             columns = static_cast<double>(part.column_end - part.column_begin);
  drawing.width = side(std::min(map.width(), columns / canvas_->ScoresPerPixel()));
  drawing.height = side(std::min(map.height(), rows / canvas_->ScoresPerPixel()));
  return drawing;
}

QAction* MainWindow::ActionNamed(const QString& name) const {
  for (QAction* action : commands_.all() + pane_actions_ + picture_actions_) {
    if (action->objectName() == name) return action;
  }
  return nullptr;
}

void MainWindow::ShowWelcome() {
  welcome_->Open(maps_, session_.recent, HeadsWorthALook(state_.heads), workbench_->examples());
}

void MainWindow::CopyText(const QString& text) {
  QApplication::clipboard()->setText(text);
  // A prompt, or the names of a thousand heads, would take the map's room.
  constexpr qsizetype kMostSaid = 300;
  const qsizetype end = kMostSaid - (text.size() > kMostSaid && text[kMostSaid - 1].isHighSurrogate() ? 1 : 0);
  notice_->ShowMessage(tr("Copied: %1").arg(Shown(text.size() > kMostSaid ? text.left(end) + QChar(0x2026) : text)));
}

std::optional<analysis::MethodResult> MainWindow::RunToCopy() const {
  if (const auto selected = state_.runs.SelectedRun()) return selected;
  if (state_.trial.result()) return state_.trial.result();
  for (const analysis::MethodResult& run : state_.runs.runs()) {
    if (!IsDenseRun(run)) return run;
  }
  return std::nullopt;
}

std::vector<analysis::MethodResult> MainWindow::RunsOfTradeOff() const {
  const kernels::Phase phase = state_.trial.is_decode() ? kernels::Phase::kDecode : kernels::Phase::kPrefill;
  std::vector<analysis::MethodResult> runs;
  for (const analysis::MethodResult& run : state_.runs.runs()) {
    if (!IsDenseRun(run) && state_.heads.selected() == run.head && run.phase == phase) runs.push_back(run);
  }
  return runs;
}

void MainWindow::ConnectSweep() {
  HeadSweep* const sweep = &state_.sweep;
  connect(sweep, &HeadSweep::Began, this, [this, sweep] {
    progress_->Begin(kSweepWork, [sweep] { sweep->Stop(); });
    ShowSweepsResults();  // what a person waits for
  });
  connect(sweep, &HeadSweep::Progressed, this,
          [this](const ProgressReport& report) { progress_->Update(kSweepWork, report); });
  connect(sweep, &HeadSweep::Measured, this, &MainWindow::AddRun);
  connect(sweep, &HeadSweep::Ended, this, [this, sweep] {
    progress_->End(kSweepWork);
    UpdateCommands();
    if (sweep->CanResume()) OfferToResume();
  });
  connect(sweep, &HeadSweep::Finished, this, [this, sweep] {
    UpdateCommands();
    if (!sweep->failures().isEmpty()) {
      notice_->ShowError(sweep->Summary());
    } else if (sweep->kind() == HeadSweep::Kind::kTune) {
      OfferToExport();
    } else {
      notice_->ShowMessage(sweep->Summary());
    }
  });
}

QString MainWindow::DescribeHeads() const {
  if (!canvas_->HasHead()) return {};
  const auto name = [](const HeadCanvas* map) {
    return tr("layer %1, head %2").arg(map->head().layer).arg(map->head().head);
  };
  const HeadCanvas* const second = second_canvas();
  if (second == nullptr || !second->HasHead()) return name(canvas_);
  QString beside = name(second);
  if (other_workbench_ != nullptr) beside += tr(" of %1").arg(ShownFileName(second->trace().path));
  return tr("%1 beside %2, %3").arg(name(canvas_), beside, second->method());
}

void MainWindow::UpdateReach() {
  UpdateExport();
  const bool has_head = canvas_->HasHead(), has_trace = state_.heads.HasTrace();
  Allow(commands_[Command::kCopyViewCommand], has_head, tr("no head is open"));
  Allow(commands_[Command::kCopyRunCommand], RunToCopy().has_value(), tr("no runs yet"));
  Allow(commands_[Command::kCopyMassCommand], has_head && state_.trial.mask().has_value(),
        has_head ? tr("no kept mass is known yet") : tr("no head is open"));
  Allow(commands_[Command::kCopyTradeOffCommand], !RunsOfTradeOff().empty(), tr("no runs of this head yet"));
  Allow(commands_[Command::kCopyQuantiseCommand], has_head, tr("no head is open"));
  Allow(commands_[Command::kCopyHeadsCommand], has_trace, tr("no trace is open"));
  Allow(commands_[Command::kCopyDifferenceCommand], !DifferenceCommand().isEmpty(),
        tr("neither two traces nor the masks of two prefill methods are compared"));
  Allow(commands_[Command::kSweepMeasure], has_trace, tr("no trace is open"));
  const QString why_not_tune =
      has_trace ? tr("%1 has no budget to search").arg(canvas_->method()) : tr("no trace is open");
  Allow(commands_[Command::kSweepTune], state_.sweep.CanTune(), why_not_tune);
  Allow(commands_[Command::kTuneDialog], has_trace, tr("no trace is open"));
  Allow(commands_[Command::kCopyTuneCommand], state_.sweep.CanTune(), why_not_tune);
  Allow(commands_[Command::kSweepResume], state_.sweep.CanResume(), tr("nothing was stopped"));
  Allow(commands_[Command::kExportTuning], !state_.sweep.Tuned().empty(), tr("no head is tuned yet"));
  UpdateConfiguration();
  const HeadCanvas* const second = second_canvas();
  for (const Command command : {Command::kSplitFollows, Command::kMapDifference})
    Allow(commands_[command], second != nullptr, tr("the map is not split"));
  Allow(commands_[Command::kExchangeMaps], second != nullptr && other_workbench_ == nullptr && !coming_,
        second == nullptr ? tr("the map is not split") : tr("the second map shows another trace"));
  Allow(commands_[Command::kCompareTrace], has_trace, tr("no trace is open"));
  Allow(commands_[Command::kHeadDifferences], other_workbench_ != nullptr, tr("no other trace is open"));
  head_label_->setText(DescribeHeads());
  for (qsizetype i = 0; i < picture_actions_.size(); ++i) {
    const QString why_not = state_.offers.pictures()[static_cast<size_t>(i)].why_not();
    Allow(picture_actions_[i], why_not.isEmpty(), why_not);
  }
}

void MainWindow::ConnectFigures() {
  FigureStudy* const figures = &state_.figures;
  connect(figures, &FigureStudy::Began, this,
          [this, figures] { progress_->Begin(kFigureWork, [figures] { figures->Cancel(); }); });
  connect(figures, &FigureStudy::Progressed, this,
          [this](const ProgressReport& report) { progress_->Update(kFigureWork, report); });
  connect(figures, &FigureStudy::Ended, this, [this] { progress_->End(kFigureWork); });
  connect(figures, &FigureStudy::Changed, this, [this] {
    const QString why_not = state_.figures.WhyNot();
    for (const Command command : {Command::kExportFigure, Command::kCopyFigureCommand})
      Allow(commands_[command], why_not.isEmpty(), why_not);
  });
  connect(figures, &FigureStudy::SaveWanted, commands_[Command::kExportFigure], &QAction::trigger);
  connect(figures, &FigureStudy::CommandWanted, commands_[Command::kCopyFigureCommand], &QAction::trigger);
  Q_EMIT figures->Changed();
  for (const FigureChoice& choice : figures->choices()) {
    const QString name = QString::fromStdString(choice.name);
    auto* show = new QAction(tr("Figure: %1").arg(QString::fromStdString(choice.title)), this);
    show->setObjectName(QStringLiteral("figure-") + name);
    show->setStatusTip(QString::fromStdString(choice.help));
    connect(show, &QAction::triggered, this, [this, name] {
      state_.figures.Choose(name);
      if (QAction* pane = ActionNamed(GoToPaneName(&MakeFigurePane))) pane->trigger();
    });
    figure_actions_.append(show);
  }
}

void MainWindow::ConnectQuantise() {
  QuantiseStudy* const study = &state_.quantise;
  connect(study, &QuantiseStudy::Began, this,
          [this, study] { progress_->Begin(kQuantiseWork, [study] { study->Cancel(); }); });
  connect(study, &QuantiseStudy::Progressed, this,
          [this](const ProgressReport& report) { progress_->Update(kQuantiseWork, report); });
  connect(study, &QuantiseStudy::Ended, this, [this] { progress_->End(kQuantiseWork); });
  connect(study, &QuantiseStudy::CommandWanted, commands_[Command::kCopyQuantiseCommand], &QAction::trigger);
  commands_.Bind(Command::kCopyQuantiseCommand, [this](bool) {
    if (state_.heads.selected())
      CopyText(QuantiseCommand(TracePath(), *state_.heads.selected(), state_.quantise.settings()));
  });
}

void MainWindow::ExportFigure() {
  if (!state_.figures.WhyNot().isEmpty()) return;
  const QString name = ExportName(QString::fromStdString(state_.figures.choice()->name) + QStringLiteral(".svg"));
  const QString path =
      QFileDialog::getSaveFileName(this, tr("Export figure"), name, tr("Figures (*.svg *.pdf *.png *.json *.csv)"));
  if (!path.isEmpty()) state_.figures.Save(path);
}

void MainWindow::OpenClasses() {
  if (classes_ == nullptr) {
    classes_ = new ClassDialog(&state_, this);
    connect(classes_, &ClassDialog::CopyWanted, commands_[Command::kCopyHeadsCommand], &QAction::trigger);
  }
  classes_->show();
  classes_->raise();
  classes_->activateWindow();
}

void MainWindow::CopyCaptureCommand(CaptureSettings settings) {
  for (std::string* path : {&settings.model_dir, &settings.prompt_file, &settings.output_path})
    *path = AbsolutePath(*path).toStdString();
  CopyText(CaptureCommand(settings));
}

void MainWindow::CopyTuneCommand(const TuneSettings& settings) {
  std::vector<analysis::HeadId> heads;
  const auto& all = state_.heads.trace().heads;
  std::copy_if(all.begin(), all.end(), std::back_inserter(heads),
               [this](analysis::HeadId head) { return state_.heads.Passes(head); });
  if (heads.size() == all.size()) heads.clear();
  CopyText(TuneCommand(TracePath(), state_.trial.methods(), state_.sweep.OnTrace(settings), heads));
}

bool MainWindow::ExportTuning() {
  HeadSweep& sweep = state_.sweep;
  const auto& methods = sweep.tuning().methods;
  const QString which = methods.size() == 1 ? QString::fromStdString(methods.front().name) : QStringLiteral("methods");
  const QString name = ExportName(which + QStringLiteral("-tuned.json"));
  const std::vector<TuningFile> files = workbench_->tuning_files();
  QStringList kinds;
  for (const TuningFile& file : files)
    kinds.append(
        QStringLiteral("%1 (*%2)").arg(QString::fromStdString(file.title), QString::fromStdString(file.extension)));
  qsizetype kind = 0;
  const QString path = AskWhereToWrite(this, tr("Export configuration"), name, kinds, QStringLiteral("json"), &kind);
  if (path.isEmpty()) return false;
  // A name with another extension than the kind's says what it is.
  const TuningFile& chosen = files[static_cast<size_t>(kind)];
  const bool is_chosen = path.endsWith(QString::fromStdString(chosen.extension), Qt::CaseInsensitive);
  const std::string error = workbench_->ExportTuning(sweep.tuning(), sweep.Tuned(), sweep.num_chosen(),
                                                     path.toStdString(), is_chosen ? chosen.name : "");
  if (error.empty()) {
    sweep.MarkSaved();
    notice_->ShowMessage(tr("Configuration saved to %1").arg(path));
  } else {
    notice_->ShowError(QString::fromStdString(error));
  }
  return error.empty();
}

void MainWindow::FillPictureMenu() {
  qDeleteAll(std::exchange(picture_actions_, {}));
  for (const PaneOffers::Picture& picture : state_.offers.pictures()) {
    QAction* const action = picture_menu_->addAction(tr("Picture of %1…").arg(picture.title), this,
                                                     [this, picture] { ExportPicture(picture); });
    action->setObjectName(QStringLiteral("export-picture-") + picture.name);
    action->setStatusTip(tr("Save the %1 pane as .svg, .pdf or .png").arg(picture.title));
    picture_actions_.append(action);
  }
  UpdateReach();
}

void MainWindow::ExportPicture(const PaneOffers::Picture& picture) {
  const QString path = QFileDialog::getSaveFileName(this, tr("Export picture of %1").arg(picture.title),
                                                    ExportName(picture.name + QStringLiteral(".svg")),
                                                    tr("Pictures (*.svg *.pdf *.png)"));
  if (path.isEmpty()) return;
  const int png_width = canvas_->picture_width();
  if (picture.table) {
    TableDrawing table = picture.table();
    table.png_width = png_width;
    workbench_->ExportTableDrawing(
        table, path.toStdString(),
        WhileAlive(this,
                   [this](const std::string& written) {
                     notice_->ShowMessage(tr("Picture saved to %1").arg(QString::fromStdString(written)));
                   }),
        WhileAlive(this,
                   [this](const std::string& sentence) { notice_->ShowError(QString::fromStdString(sentence)); }));
    return;
  }
  const QString error = picture.write(path, png_width);
  if (error.isEmpty()) {
    notice_->ShowMessage(tr("Picture saved to %1").arg(path));
  } else {
    notice_->ShowError(error);
  }
}

QList<PaletteEntry> MainWindow::PaletteEntries() {
  QList<PaletteEntry> entries;
  for (const kernels::MethodSpec& method : state_.trial.methods()) {
    const QString text = method.phase == kernels::Phase::kDecode ? tr("Method: %1 (decode)") : tr("Method: %1");
    entries.append({text.arg(QString::fromStdString(method.title)),
                    QString::fromStdString(method.summary + "\n" + method.paper), tr("method"),
                    [this, name = method.name] { state_.trial.SelectMethod(name); }});
  }
  for (const QString& path : session_.recent) {
    entries.append({tr("Open %1").arg(Shown(QFileInfo(path).fileName())), ShownToolTip(path), tr("recent file"),
                    [this, path] { OpenPath(path); }});
  }
  for (const TraceNote& note : state_.notes.Places()) {
    const QString text = tr("Bookmark: %1").arg(Shown(note.text.isEmpty() ? tr("(no note)") : note.text.left(80)));
    entries.append({text, tr("Layer %1, head %2").arg(note.head.layer).arg(note.head.head), tr("bookmark"),
                    [this, note] { state_.GoToNote(note); }});
  }
  for (const analysis::HeadId& head : state_.heads.trace().heads) {
    PaletteEntry entry{tr("%1:%2").arg(head.layer).arg(head.head),
                       tr("Open layer %1, head %2").arg(head.layer).arg(head.head), tr("head"),
                       [this, head] { state_.heads.Select(head); }};
    entry.only_when_typed = true;
    entries.append(entry);
  }
  return entries;
}

}  // namespace headscope::ui
