// SPDX-License-Identifier: Apache-2.0
// What the window keeps: its session, and the runs of each trace. Written as it changes, so that a window that is
// killed loses nothing that a person would miss.
#include <QFileDialog>
#include <QFileInfo>
#include <QJsonArray>
#include <QJsonDocument>
#include <QScreen>
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "action_step.h"
#include "main_window.h"

namespace headscope::ui {
namespace {

constexpr int kSaveAfterMs = 300;    // a drag is one write, not hundreds
constexpr int kLastWriteMs = 15000;  // at the end; a disk or another window that takes longer is not waited for

const QString kHeadMember = QStringLiteral("head"), kCanvasMember = QStringLiteral("canvas");

QJsonValue ToJson(const std::optional<analysis::HeadId>& head) {
  return head ? QJsonValue(QJsonArray{head->layer, head->head}) : QJsonValue();
}

std::optional<analysis::HeadId> HeadOf(const QJsonValue& json) {
  const QJsonArray head = json.toArray();
  if (head.size() != 2) return std::nullopt;
  return analysis::HeadId{head[0].toInt(-1), head[1].toInt(-1)};
}

}  // namespace

void MainWindow::RestoreSession() {
  // The window manager adds a title, of about the height that the style gives one.
  const QSize title(0, style()->pixelMetric(QStyle::PM_TitleBarHeight));
  resize(QSize(1440, 900).boundedTo(screen()->availableSize() - title));
  if (session_.memory_mib > 0) workbench_->memory().SetCapacity(int64_t{session_.memory_mib} << 20);
  if (!session_.window_geometry.isEmpty()) restoreGeometry(session_.window_geometry);
  has_layout_ = !session_.window_layout.isEmpty() && restoreState(session_.window_layout, kLayoutVersion);
  // Where that trace was looked at, and the colours' range there, are of no use to another one.
  canvas_->RestoreViewState(HeadCanvas::WithoutTrace(session_.canvas));
  state_.offers.RestoreViews(session_.panes);
  state_.classes.FromJson(session_.classes);
  state_.heads.SetMetric(session_.metric.isEmpty() ? analysis::QuotedSparsity() : session_.metric.toStdString());
  SyncMetric();
  SetTheme(session_.theme);
  FillRecentMenu();
}

void MainWindow::KeepState() {
  session_at_start_ = session_;
  BeginUndo();
  BindUndo();
  save_timer_.setSingleShot(true);
  save_timer_.setInterval(kSaveAfterMs);
  connect(&save_timer_, &QTimer::timeout, this, [this] { SaveSession(); });
  connect(canvas_, &HeadCanvas::ViewChanged, this, &MainWindow::StateChanged);
  connect(canvas_, &HeadCanvas::DisplayChanged, this, &MainWindow::StateChanged);
  connect(canvas_, &HeadCanvas::MethodChanged, this, &MainWindow::StateChanged);
  connect(&state_.heads, &HeadStore::SelectionChanged, this, &MainWindow::StateChanged);
  // Who has chosen a head, be it the first, moved its map or begun to measure is not taken elsewhere.
  const auto somebody_was_quicker = [this] { chooses_head_ = chooses_method_ = false; };
  connect(&state_.sweep, &HeadSweep::Began, this, somebody_was_quicker);
  connect(&state_.queue, &RunQueue::Began, this, somebody_was_quicker);
  connect(&state_.heads, &HeadStore::SelectionAsked, this, somebody_was_quicker);
  connect(canvas_, &HeadCanvas::ViewChanged, this, somebody_was_quicker);
  connect(&state_.trial, &MethodTrial::MethodChanged, this, [this] { chooses_method_ = false; });
  connect(&state_.heads, &HeadStore::MetricChanged, this, &MainWindow::StateChanged);
  connect(&state_.classes, &ClassSettings::Changed, this, &MainWindow::StateChanged);
  connect(&state_.offers, &PaneOffers::ViewChanged, this, &MainWindow::StateChanged);
  for (const Command theme : {Command::kThemeSystem, Command::kThemeLight, Command::kThemeDark})
    connect(commands_[theme], &QAction::triggered, this, &MainWindow::StateChanged);
  for (QDockWidget* dock : docks_) {
    dock->installEventFilter(this);  // splitters between docks say nothing themselves
    connect(dock, &QDockWidget::dockLocationChanged, this, &MainWindow::StateChanged);
    connect(dock, &QDockWidget::topLevelChanged, this, &MainWindow::StateChanged);
    connect(dock, &QDockWidget::visibilityChanged, this, &MainWindow::StateChanged);
  }
  connect(&keeper_, &TraceKeeper::RunsKept, &state_.runs, &RunsModel::MarkSaved);
  connect(&keeper_, &TraceKeeper::RunsKeptElsewhere, this, [this](const QString& path, const QString& why) {
    notice_->ShowMessage(tr("Nothing can be written beside %1: its runs, notes and tunings are saved to %2. %3")
                             .arg(QFileInfo(session_.last_trace).fileName(), path, why));
  });
  connect(&keeper_, &TraceKeeper::Hidden, this, [this](const QString& sentence) {
    notice_->ShowError(tr("A note or tuning that was saved beside %1 is not shown as it is now when that is opened "
                          "again. %2")
                           .arg(QFileInfo(session_.last_trace).fileName(), sentence));
  });
  connect(&keeper_, &TraceKeeper::Failed, this, [this](const QString& sentence) {
    notice_->ShowError(tr("Runs and notes could not be saved; export the runs. %1").arg(sentence));
  });
}

void MainWindow::StateChanged() {
  if (!changing_view_) {
    canvas_->TellRanges();  // in the order in which they were set
    settings_history_.Record(ViewSettings());
  }
  if (!save_timer_.isActive()) save_timer_.start();
}

void MainWindow::SaveSession(bool at_the_end) {
  save_timer_.stop();
  session_.window_geometry = saveGeometry();
  session_.window_layout = saveState(kLayoutVersion);
  session_.canvas = canvas_->ViewState();
  session_.panes = state_.offers.ViewStates();
  session_.classes = state_.classes.ToJson();
  session_.metric = QString::fromStdString(state_.heads.metric());
  session_.theme = theme_.name();
  session_.head = state_.heads.selected();
  keeper_.KeepView({{kHeadMember, ToJson(session_.head)}, {kCanvasMember, HeadCanvas::OfTrace(session_.canvas)}});
  Session before = written_;
  if (at_the_end && state_.heads.HasTrace()) {
    // Of several windows the one that is closed last says what the next start shows.
    session_.AddRecent(session_.last_trace);
    before.last_trace.clear();
  }
  if (session_.opened.isEmpty() && session_.ToJson() == before.ToJson()) return;
  writer_.Write(
      QStringLiteral("session"),
      [session = session_, before, path = session_path_] { return session.Save(path, before); },
      [this, session = session_](const QString& error) {
        if (error.isEmpty()) {
          written_ = session;
          for (const QString& path : session.opened) session_.opened.removeAll(path);
        } else if (std::exchange(said_of_session_, error) != error) {
          qWarning("%s", qPrintable(error));
        }
      });
}

void MainWindow::FinishWriting() {
  writer_.Finish(kLastWriteMs);
}

void MainWindow::RestoreTrace(const TraceKeeper::Kept& kept, const QString& path, bool is_first) {
  for (const QJsonObject& json : kept.runs) {
    const auto run = workbench_->RunFromJson(QJsonDocument(json).toJson(QJsonDocument::Compact).toStdString());
    if (run && state_.heads.Holds(run->head)) state_.runs.Add(*run);
  }
  state_.runs.MarkSaved();
  // One head is looked at on several prompts: only the first trace of a session begins where it was left.
  if (!is_first) return;
  if (!kept.view.isEmpty()) {
    canvas_->RestoreViewState(HeadCanvas::OfTrace(kept.view[kCanvasMember].toObject()));
  } else if (session_at_start_.last_trace == path) {
    canvas_->RestoreViewState(session_at_start_.canvas);
  }
}

std::optional<analysis::HeadId> MainWindow::HeadToShow(const TraceKeeper::Kept& kept, const QString& path) const {
  if (state_.heads.HasTrace()) return state_.heads.selected();
  if (!kept.view.isEmpty()) return HeadOf(kept.view[kHeadMember]);
  return session_at_start_.last_trace == path ? session_at_start_.head : std::nullopt;
}

void MainWindow::AddRun(const analysis::MethodResult& run) {
  state_.runs.Add(run);
  keeper_.KeepRun(QJsonDocument::fromJson(QByteArray::fromStdString(workbench_->RunAsJson(run))).object());
}

void MainWindow::ClearRuns() {
  struct Cleared {
    std::vector<analysis::MethodResult> runs;
    std::string contents;  // of the trace that they are of
    int offer = 0;         // the notice's
  };
  StateChanged();  // what was set before is a step of its own
  const auto cleared = std::make_shared<Cleared>();
  const auto clear = [this, cleared] {
    // Also those that were measured before it is done again, and of what the trace has grown to by then.
    cleared->runs = state_.runs.runs();
    cleared->contents = state_.heads.trace().contents;
    keeper_.DropRuns();
    state_.runs.Clear();
  };
  const auto restore = [this, cleared] {
    notice_->WithdrawOffer(cleared->offer);
    if (state_.heads.trace().contents != cleared->contents)
      return notice_->ShowMessage(
          tr("The cleared runs do not come back: the trace has grown since they were measured."));
    RestoreRuns(cleared->runs);
  };
  QUndoStack* const steps = state_.parameters.stack();
  auto* const step = new ActionStep(tr("clear runs"), restore, clear);
  const int64_t serial = step->serial();
  steps->push(step);
  const auto measured = std::count_if(cleared->runs.begin(), cleared->runs.end(), std::not_fn(IsDenseRun));
  notice_->ShowOffer(measured == 1 ? tr("1 run cleared") : tr("%1 runs cleared").arg(measured), tr("Undo"),
                     [this, steps, restore, serial] {
                       StateChanged();  // what was set since
                       const auto* last = dynamic_cast<const ActionStep*>(steps->command(steps->index() - 1));
                       if (last != nullptr && last->serial() == serial) return steps->undo();
                       restore();
                     });
  cleared->offer = notice_->newest_offer();
}

void MainWindow::RestoreRuns(const std::vector<analysis::MethodResult>& runs) {
  // What was measured since stays: it is the newer of two that measure the same.
  std::vector<analysis::MethodResult> to_add;
  for (const bool dense : {false, true}) {
    for (const analysis::MethodResult& run : runs) {
      if (IsDenseRun(run) == dense && !state_.runs.HasSuch(run)) to_add.push_back(run);
    }
  }
  // A run brings its baseline, and the one that was on show is the last that was measured.
  if (!to_add.empty()) std::ranges::copy_if(state_.runs.runs(), std::back_inserter(to_add), IsDenseRun);
  for (const analysis::MethodResult& run : to_add) AddRun(run);
}

void MainWindow::LoadRuns() {
  const QString folder = QFileInfo(session_.last_trace).path();
  const QString path = QFileDialog::getOpenFileName(this, tr("Load runs"), folder, tr("Runs (*.json *.csv)"));
  if (path.isEmpty()) return;
  std::vector<analysis::MethodResult> runs;
  const std::string error = workbench_->ReadRuns(path.toStdString(), &runs);
  if (!error.empty()) {
    notice_->ShowError(QString::fromStdString(error));
    return;
  }
  qsizetype loaded = 0;
  for (const analysis::MethodResult& run : runs) {
    if (!state_.heads.Holds(run.head)) continue;
    AddRun(run);
    loaded += IsDenseRun(run) ? 0 : 1;
  }
  const auto all = std::count_if(runs.begin(), runs.end(), std::not_fn(IsDenseRun));
  notice_->ShowMessage(
      loaded == all ? tr("%1 runs loaded from %2").arg(loaded).arg(path)
                    : tr("%1 of %2 runs loaded from %3; the others are for heads that this trace does not contain.")
                          .arg(loaded)
                          .arg(all)
                          .arg(path));
}

}  // namespace headscope::ui
