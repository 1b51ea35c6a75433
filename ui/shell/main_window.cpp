// SPDX-License-Identifier: Apache-2.0
#include "main_window.h"

#include <QAbstractItemView>
#include <QActionGroup>
#include <QApplication>
#include <QCloseEvent>
#include <QDockWidget>
#include <QDragEnterEvent>
#include <QDropEvent>
#include <QFileInfo>
#include <QKeyEvent>
#include <QMenu>
#include <QMessageBox>
#include <QMimeData>
#include <QStatusBar>
#include <QTabBar>
#include <QVBoxLayout>
#include <algorithm>
#include <utility>

#include "analysis/types/color_map_label.h"
#include "arrow_focus.h"
#include "cut_label.h"
#include "panes.h"
#include "shown_text.h"
#include "visible_focus.h"

namespace headscope::ui {
namespace {

// One that keeps what reaches a share of the mass: its defaults leave something out at any length.
QString FirstMethod(const std::vector<kernels::MethodSpec>& methods) {
  const auto by_mass = std::find_if(methods.begin(), methods.end(), [](const kernels::MethodSpec& method) {
    return std::any_of(method.parameters.begin(), method.parameters.end(),
                       [](const auto& parameter) { return parameter.role == kernels::ParameterRole::kMassShare; });
  });
  return by_mass == methods.end() ? QString() : QString::fromStdString(by_mass->name);
}

// The first local file or folder among dropped addresses.
QString DroppedPath(const QMimeData* data) {
  for (const QUrl& url : data->urls()) {
    if (url.isLocalFile()) return url.toLocalFile();
  }
  return {};
}

}  // namespace

MainWindow::MainWindow(Workbench* workbench, const QString& session_path)
    : workbench_(workbench),
      session_path_(session_path),
      keeper_(&writer_, QFileInfo(session_path).path()),
      state_(workbench),
      settings_history_(
          state_.parameters.stack(), [this](const QJsonObject& settings) { ApplyViewSettings(settings); },
          &MainWindow::NameOfChange),
      commands_(this) {
  session_ = written_ = Session::Load(session_path, &said_at_start_);
  setObjectName(QStringLiteral("mainWindow"));
  setWindowTitle(QStringLiteral("headscope"));
  setAcceptDrops(true);
  setDockOptions(AnimatedDocks | AllowNestedDocks | AllowTabbedDocks);
  theme_.Set(session_.theme);
  BuildCentre();
  BuildDocks();
  commands_.FillMenuBar(menuBar());
  BuildToolBars();
  BuildStatusBar();
  BindCommands();
  BuildCanvasActions();
  ConnectCanvas();
  ConnectQueue();
  ConnectSweep();
  ConnectTunings();
  ConnectGrowth();
  palette_ = new CommandPalette(this);
  workbench_->SetBackgroundErrorHandler(
      [this](const std::string& sentence) { notice_->ShowError(QString::fromStdString(sentence)); });
  // A frame that is asked for while nothing is painted stays due.
  calm_ = new ScreenCalm(this, [this](Drawn what) {
    if (isMinimized()) return false;
    const QList<HeadCanvas*> maps = Maps();
    return std::any_of(maps.begin(), maps.end(), [what](const HeadCanvas* map) {
      return map->isVisible() && (what == Drawn::kTiles ? map->IsTileDue() : map->IsFrameDue());
    });
  });
  LetWaitForScreen(workbench_);
  canvas_->SetWorkbench(workbench_);
  PlacePanes(this, docks_);
  state_.SetMethod({FirstMethod(state_.trial.methods()), {}, state_.trial.target()});
  RestoreSession();
  state_.parameters.Begin(state_.PresentMethod());
  SyncViewCommands();
  UpdateCommands();
  KeepState();
}

void MainWindow::LetWaitForScreen(Workbench* workbench) {
  workbench->SetWhenDrawn([this](Drawn what, std::function<void()> then) { calm_->Then(what, std::move(then)); });
}

MainWindow::~MainWindow() {
  hide();
  workbench_->CancelStatistics([] {});
  workbench_->SetBackgroundErrorHandler({});
  workbench_->SetWhenDrawn({});
  canvas_->SetWorkbench(nullptr);
  canvas_->CompareWith(nullptr);
  for (HeadCanvas* map : others_) map->SetWorkbench(nullptr);
  state_.references.front().SetWorkbench(nullptr);  // it may be the other trace's
  disconnect(&state_.offers, nullptr, this, nullptr);
  // While the state is there that they read as they vanish: QWidget's destructor would delete them afterwards.
  qDeleteAll(docks_);
  delete centralWidget();
}

void MainWindow::BuildCentre() {
  auto* centre = new QWidget(this);
  auto* layout = new QVBoxLayout(centre);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(0);
  notice_ = new NoticeBar(centre);
  canvas_ = new HeadCanvas(centre, &state_.trial);
  canvas_->setObjectName(QStringLiteral("canvas"));
  canvas_->setMinimumSize(240, 180);
  layout->addWidget(notice_);
  maps_ = new QSplitter(Qt::Vertical, centre);
  upper_maps_ = new QSplitter(Qt::Horizontal, maps_);
  lower_maps_ = new QSplitter(Qt::Horizontal, maps_);
  for (QSplitter* splitter : {maps_, upper_maps_, lower_maps_}) splitter->setChildrenCollapsible(false);
  upper_maps_->addWidget(canvas_);
  lower_maps_->hide();
  layout->addWidget(maps_, 1);
  maps_->installEventFilter(this);
  // Over the map's lower end and not beside it: a map that shrank would be drawn anew, on another level.
  find_bar_ = new FindBar(&state_.heads, centre);
  find_bar_->FollowBottomOf(maps_);
  setCentralWidget(centre);
  welcome_ = new WelcomePage(this);  // over the map, and where that is small over the panes
}

void MainWindow::BuildDocks() {
  docks_ = MakePanes(this, &state_);
  shares_ = new PaneShares(this, docks_);
  connect(&state_.heads, &HeadStore::SelectionChanged, this, &MainWindow::ShowHead);
  connect(&state_.runs, &QAbstractItemModel::modelReset, this, &MainWindow::UpdateCommands);
}

void MainWindow::showEvent(QShowEvent* event) {
  // Sizes that docks are given before the window has its own are scaled with it.
  if (!std::exchange(has_layout_, true)) SizePanes(this, docks_);
  QMainWindow::showEvent(event);
  QTimer::singleShot(0, this, [this] { shares_->Remember(); });
}

void MainWindow::BuildToolBars() {
  auto* bar = addToolBar(tr("Tools"));
  bar->setObjectName(QStringLiteral("toolBar"));
  bar->setMovable(false);
  bar->setToolButtonStyle(Qt::ToolButtonTextOnly);
  if (auto* more = bar->findChild<QToolButton*>(QLatin1String(kMoreToolsName))) {
    more->setToolTip(tr("The tools that the window has no room for"));
    more->setAccessibleName(tr("More tools"));
  }
  commands_.FillToolBar(bar, CommandMenu::kFile);
  bar->addSeparator();
  commands_.FillToolBar(bar, CommandMenu::kGo);
  bar->addSeparator();

  const auto labelled = [bar](const QString& text, QComboBox* box) {
    auto* label = new QLabel(text, bar);
    label->setContentsMargins(6, 0, 4, 0);
    label->setBuddy(box);
    bar->addWidget(label);
    bar->addWidget(box);
  };
  metric_box_ = new QComboBox(bar);
  metric_box_->setObjectName(QStringLiteral("metricBox"));
  metric_box_->setToolTip(tr("The metric that colours the layers × heads matrix"));
  metric_box_->setMaxVisibleItems(30);
  color_box_ = new QComboBox(bar);
  color_box_->setObjectName(QStringLiteral("colorBox"));
  color_box_->setToolTip(tr("Colours of the map"));
  auto *metrics = new QActionGroup(this), *colors = new QActionGroup(this);  // a mark at the present one
  QMenu* metric_menu = commands_.menu(CommandMenu::kView)->addMenu(tr("Colour heads &by"));
  QMenu* color_menu = commands_.menu(CommandMenu::kView)->addMenu(tr("&Colours of the map"));
  const auto add_metric = [&](const QString& title, const std::string& name) {
    metric_box_->addItem(title, QString::fromStdString(name));
    QAction* action = metric_menu->addAction(tr("Colour heads by %1").arg(title), this,
                                             [this, name] { state_.heads.SetMetric(name); });
    action->setCheckable(true);
    metric_actions_.append(metrics->addAction(action));
  };
  for (const analysis::MetricInfo& metric : analysis::Metrics())
    add_metric(QString::fromStdString(metric.title), metric.name);
  add_metric(tr("Class"), HeadStore::kClassMetric);
  for (const analysis::MetricInfo& metric : ResultMetrics())
    add_metric(QString::fromStdString(metric.title), metric.name);
  // The box has room for the names, and its list for what is said of one of them.
  color_box_->addItems(HeadCanvas::ColorMapNames());
  color_box_->setFixedWidth(color_box_->sizeHint().width());
  color_box_->clear();
  for (const QString& name : HeadCanvas::ColorMapNames()) {
    const QString label = QString::fromStdString(analysis::ColorMapLabel(*analysis::FindColorMap(name.toStdString())));
    color_box_->addItem(label, name);
    QAction* action = color_menu->addAction(tr("Map colours: %1").arg(label), this, [this, name] {
      canvas_->SetColorMap(name);
      SyncViewCommands();
    });
    action->setCheckable(true);
    color_actions_.append(colors->addAction(action));
  }
  color_box_->view()->setMinimumWidth(color_box_->view()->sizeHintForColumn(0));
  labelled(tr("Colour heads by"), metric_box_);
  labelled(tr("Map colours"), color_box_);
  bar->addSeparator();
  commands_.FillToolBar(bar, CommandMenu::kView);
  bar->addSeparator();
  commands_.FillToolBar(bar, CommandMenu::kMethods);
  new ArrowFocus(bar);

  connect(metric_box_, &QComboBox::activated, this,
          [this](int index) { state_.heads.SetMetric(metric_box_->itemData(index).toString().toStdString()); });
  connect(color_box_, &QComboBox::activated, this, [this](int index) {
    canvas_->SetColorMap(color_box_->itemData(index).toString());
    SyncViewCommands();
  });
  connect(&state_.heads, &HeadStore::MetricChanged, this, &MainWindow::SyncMetric);

  QMenu* view = commands_.menu(CommandMenu::kView);
  view->addSeparator();
  for (const QDockWidget* dock : docks_) view->addAction(dock->toggleViewAction());
  AddPaneActions(view->addMenu(tr("Go to pa&ne")));
  recent_menu_ = new QMenu(tr("Ope&n recent"), this);
  commands_.menu(CommandMenu::kFile)->insertMenu(commands_[Command::kCapture], recent_menu_);
}

void MainWindow::AddPaneActions(QMenu* menu) {
  const auto add = [&](const QString& title, const QString& name, auto go) {
    QAction* action = menu->addAction(tr("Go to %1").arg(title), this, go);
    action->setObjectName(name);
    action->setProperty(kLeadsToProperty, title);
    if (menu->actions().size() <= 10) action->setShortcut(QKeySequence(tr("Alt+%1").arg(menu->actions().size() % 10)));
    action->setStatusTip(tr("Show %1 and move the keyboard focus there").arg(title));
    addAction(action);
    pane_actions_.append(action);
  };
  add(tr("the map"), QStringLiteral("go-map"), [this] { canvas_->setFocus(); });
  for (QDockWidget* dock : docks_) {
    add(dock->windowTitle(), GoToDockName(*dock), [dock] {
      dock->show();
      dock->raise();
      FocusPane(dock);
    });
  }
  menu->addSeparator();
  for (const bool forward : {true, false}) {
    QAction* action =
        menu->addAction(forward ? tr("Next pane") : tr("Previous pane"), this, [this, forward] { WalkPanes(forward); });
    action->setObjectName(forward ? QStringLiteral("go-next-pane") : QStringLiteral("go-previous-pane"));
    action->setShortcut(forward ? Qt::Key_F6 : QKeySequence(Qt::SHIFT | Qt::Key_F6));
    action->setStatusTip(forward ? tr("Move the keyboard focus to the next visible pane")
                                 : tr("Move the keyboard focus to the previous visible pane"));
    addAction(action);
    pane_actions_.append(action);
  }
}

bool MainWindow::FocusPane(QDockWidget* dock) {
  QWidget* const pane = dock->widget();
  if (pane == nullptr) return false;
  // Where the keyboard was last, as in a window that one comes back to.
  QList<QWidget*> places = pane->findChildren<QWidget*>();
  places.prepend(pane);
  places.prepend(pane->focusWidget());
  for (QWidget* place : places) {
    if (place == nullptr || !place->isVisible() || !place->isEnabled() || (place->focusPolicy() & Qt::TabFocus) == 0)
      continue;
    place->window()->activateWindow();  // a floating pane is a window of its own
    place->setFocus(Qt::ShortcutFocusReason);
    return true;
  }
  return false;
}

void MainWindow::WalkPanes(bool forward) {
  const QWidget* const focus = QApplication::focusWidget() != nullptr ? QApplication::focusWidget() : focusWidget();
  // In the order of the panes' keys. Behind another pane's tab is out of sight.
  std::vector<QDockWidget*> panes = {nullptr};
  for (QDockWidget* dock : docks_) {
    if (dock->isVisible() && !dock->visibleRegion().isEmpty()) panes.push_back(dock);
  }
  size_t at = 0;
  for (size_t i = 1; i < panes.size(); ++i) {
    if (panes[i]->isAncestorOf(focus)) at = i;
  }
  for (size_t step = 0; step < panes.size(); ++step) {
    at = (at + (forward ? 1 : panes.size() - 1)) % panes.size();
    if (panes[at] == nullptr) {
      activateWindow();
      return canvas_->setFocus(Qt::ShortcutFocusReason);
    }
    if (FocusPane(panes[at])) return;
  }
}

void MainWindow::BuildStatusBar() {
  cursor_label_ = new CutLabel(this);
  cursor_label_->setObjectName(QStringLiteral("cursorLabel"));
  cursor_label_->setContentsMargins(8, 0, 0, 0);
  head_label_ = new CutLabel(this);
  head_label_->setObjectName(QStringLiteral("headLabel"));
  head_label_->setContentsMargins(8, 0, 8, 0);
  progress_ = new ProgressStrip(this);
  statusBar()->addWidget(cursor_label_, 1);
  recording_label_ = new QLabel(this);
  recording_label_->setObjectName(QStringLiteral("recordingLabel"));
  recording_label_->setContentsMargins(8, 0, 0, 0);
  recording_label_->hide();
  statusBar()->addPermanentWidget(recording_label_);
  statusBar()->addPermanentWidget(progress_);
  statusBar()->addPermanentWidget(head_label_);
}

void MainWindow::FillRecentMenu() {
  recent_menu_->clear();
  for (const QString& path : session_.recent)
    recent_menu_->addAction(ShownInMenu(path), this, [this, path] { OpenPath(path); });
  recent_menu_->setEnabled(!session_.recent.isEmpty());
}

void MainWindow::closeEvent(QCloseEvent* event) {
  if (capture_ != nullptr && capture_->IsCapturing()) {
    const auto answer = QMessageBox::question(
        this, tr("Capture running"),
        tr("A capture is still running. Quitting stops it and keeps what has been recorded. Quit?"),
        QMessageBox::Yes | QMessageBox::No, QMessageBox::No);
    if (answer != QMessageBox::Yes) {
      event->ignore();
      return;
    }
  }
  if (!MayDropTuning(tr("Quitting discards it.")) || !MayDropRuns(tr("Quitting discards them."))) {
    event->ignore();
    return;
  }
  tunings_.LetGo();
  SaveSession(/*at_the_end=*/true);
  FinishWriting();
  QMainWindow::closeEvent(event);
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
  const QFileInfo file(DroppedPath(event->mimeData()));
  if (file.isDir() || file.isFile()) event->acceptProposedAction();
}

void MainWindow::dropEvent(QDropEvent* event) {
  const QString path = DroppedPath(event->mimeData());
  if (path.isEmpty()) return;
  event->acceptProposedAction();
  // The program that the file was dragged from waits for this event's end, and opening may ask something.
  QTimer::singleShot(0, this, [this, path] { OpenPath(path); });
}

void MainWindow::keyPressEvent(QKeyEvent* event) {
  if (event->key() != Qt::Key_Escape) {
    QMainWindow::keyPressEvent(event);
  } else if (find_bar_->isVisible()) {
    find_bar_->hide();
  } else if (!canvas_->ClearMark()) {
    notice_->Dismiss();
  }
}

namespace {

// Titles cut to "R…" and "Tra…" say nothing: where a bar has no room for all, arrows lead to the others. Where it has,
// its pane keeps the least width that the tabs give it.
void FitTabs(QTabBar* bar) {
  const Qt::TextElideMode mode = bar->sizeHint().width() > bar->width() ? Qt::ElideNone : Qt::ElideRight;
  if (bar->elideMode() != mode) bar->setElideMode(mode);
}

void FitAllTabs(const QMainWindow* window) {
  for (QTabBar* bar : window->findChildren<QTabBar*>(QString(), Qt::FindDirectChildrenOnly)) FitTabs(bar);
}

}  // namespace

void MainWindow::moveEvent(QMoveEvent* event) {
  QMainWindow::moveEvent(event);
  StateChanged();
}

void MainWindow::resizeEvent(QResizeEvent* event) {
  QMainWindow::resizeEvent(event);
  FitAllTabs(this);
  shares_->WindowResized();
  StateChanged();
}

bool MainWindow::event(QEvent* event) {
  const bool handled = QMainWindow::event(event);
  if (event->type() == QEvent::LayoutRequest) FitAllTabs(this);  // a pane joined a bar, or a title changed
  return handled;
}

bool MainWindow::eventFilter(QObject* watched, QEvent* event) {
  if (auto* const bar = qobject_cast<QTabBar*>(watched); bar != nullptr) {
    if (event->type() == QEvent::Resize || event->type() == QEvent::Show) FitTabs(bar);
    return QMainWindow::eventFilter(watched, event);
  }
  if (watched == maps_) {
    if (event->type() == QEvent::Resize) ShareNotice();
    return QMainWindow::eventFilter(watched, event);
  }
  if (event->type() == QEvent::Resize) StateChanged();
  return QMainWindow::eventFilter(watched, event);
}

void MainWindow::childEvent(QChildEvent* event) {
  QMainWindow::childEvent(event);
  // Qt makes the bars of panes that lie behind each other as they are needed.
  if (auto* const bar = event->polished() ? qobject_cast<QTabBar*>(event->child()) : nullptr; bar != nullptr) {
    bar->setUsesScrollButtons(true);
    bar->installEventFilter(this);
    FitTabs(bar);
  }
}

void MainWindow::changeEvent(QEvent* event) {
  if (event->type() == QEvent::WindowStateChange) StateChanged();
  if (event->type() == QEvent::WindowStateChange) commands_[Command::kFullScreen]->setChecked(isFullScreen());
  QMainWindow::changeEvent(event);
}

}  // namespace headscope::ui
