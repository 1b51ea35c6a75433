// SPDX-License-Identifier: Apache-2.0
// Two or four maps side by side: heads, methods on one head, or another trace. What is zoomed, coloured or pointed at
// in one is so in the others.
#include <QDir>
#include <QFileDialog>
#include <QFileInfo>
#include <QJsonArray>
#include <QJsonObject>
#include <QUndoCommand>
#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "main_window.h"
#include "shown_file_name.h"
#include "shown_text.h"
#include "stopped_statistics.h"
#include "while_alive.h"

namespace headscope::ui {
namespace {

const QString kMapHead = QStringLiteral("head"), kMapMethod = QStringLiteral("method"),
              kMapParameters = QStringLiteral("parameters");
constexpr size_t kMostOthers = kMapViews.size() - 1;
constexpr const char* kOtherNames[kMostOthers] = {"secondCanvas", "thirdCanvas", "fourthCanvas"};

// A swap, which is its own way back. Where the maps cannot be swapped any more, the step is dropped: a later one would
// find them the wrong way round.
class SwapStep : public QUndoCommand {
 public:
  SwapStep(const QString& text, std::function<bool()> swap) : QUndoCommand(text), swap_(std::move(swap)) {}
  void undo() override { setObsolete(!swap_()); }
  void redo() override { setObsolete(!swap_()); }

 private:
  const std::function<bool()> swap_;
};

}  // namespace

void MainWindow::BindSplit() {
  commands_.Bind(Command::kSplit, [this](bool on) { Split(on ? 1 : 0); });
  commands_.Bind(Command::kSplitFour, [this](bool on) { Split(on ? kMostOthers : 0); });
  commands_.Bind(Command::kSplitFollows, [this](bool) {
    FollowHead();
    StateChanged();
  });
  commands_.Bind(Command::kExchangeMaps, [this](bool) { ExchangeMaps(); });
  commands_.Bind(Command::kMapDifference, [this](bool) {
    UpdateComparison();
    UpdateCommands();
    StateChanged();
  });
  commands_.Bind(Command::kCompareTrace, [this](bool on) {
    if (!on) {
      const QString name = QFileInfo(OtherTracePath()).fileName();
      return ChangeView(tr("end of the comparison with %1").arg(name), [this] { CloseOtherTrace(); });
    }
    const QString path = QFileDialog::getOpenFileName(this, tr("Compare with trace"), QFileInfo(TracePath()).path(),
                                                      tr("Traces (*.h5 *.hdf5);;All files (*)"));
    commands_[Command::kCompareTrace]->setChecked(other_workbench_ != nullptr);
    if (!path.isEmpty()) OpenOtherTrace(path);
  });
  commands_.Bind(Command::kHeadDifferences, [this](bool on) {
    state_.heads.ShowDifferences(on);
    StateChanged();
  });
}

void MainWindow::FollowHead() {
  if (!commands_[Command::kSplitFollows]->isChecked() || !state_.heads.selected()) return;
  for (HeadCanvas* map : others_) ShowReference(map, *state_.heads.selected());
}

void MainWindow::Split(size_t num_others) {
  while (others_.size() > num_others) {
    HeadCanvas* const last = others_.back();
    others_.pop_back();
    if (others_.empty()) UpdateComparison();
    last->SetWorkbench(nullptr);
    delete last;
    workbench_->CloseView(kMapViews[others_.size() + 1]);
    if (others_.empty()) {  // nobody shows it any more
      StopOpeningOther();
      CloseOtherTrace();
    }
  }
  while (others_.size() < num_others) AddMap();
  lower_maps_->setVisible(others_.size() > 1);
  for (QSplitter* row : {upper_maps_, lower_maps_}) row->setSizes({1, 1});
  maps_->setSizes(others_.size() > 1 ? QList<int>{1, 1} : QList<int>{1, 0});
  for (HeadCanvas* map : Maps()) map->SetOtherCursor(-1, -1);
  NameMaps();
  commands_[Command::kSplit]->setChecked(others_.size() == 1);
  commands_[Command::kSplitFour]->setChecked(others_.size() == kMostOthers);
  UpdateComparison();
  UpdateCommands();
  ShowNotesOnMaps();
  ShareNotice();
  StateChanged();
}

void MainWindow::ShareNotice() {
  // The notice stands above the maps, and rows of them share what it takes.
  canvas_->SetNoticeHeight(maps_->y() / (lower_maps_->isHidden() ? 1 : 2));
}

void MainWindow::ShowTheSamePart() {
  const bool was_linking = std::exchange(linking_, true);
  for (HeadCanvas* map : others_) map->ShowViewOf(*canvas_);
  linking_ = was_linking;
}

void MainWindow::NameMaps() {
  // All maps are of one trace but for the second, while traces are compared; of two files with one name the folder is
  // named, too.
  const auto file_of = [](const HeadCanvas* map) { return QFileInfo(QString::fromStdString(map->trace().path)); };
  const auto trace_of = [this, &file_of](const HeadCanvas* map) {
    if (other_workbench_ == nullptr) return QString();
    const QFileInfo file = file_of(map), first = file_of(canvas_), second = file_of(others_.front());
    const bool alike = first.fileName() == second.fileName() && first.absolutePath() != second.absolutePath();
    return Shown(alike ? file.absoluteDir().dirName() + QLatin1Char('/') + file.fileName() : file.fileName());
  };
  for (HeadCanvas* map : others_) map->SetNamed(true, trace_of(map));
  canvas_->SetNamed(!others_.empty(), trace_of(canvas_));
}

void MainWindow::AddMap() {
  const size_t index = others_.size();
  auto* map = new HeadCanvas(index == 0 ? upper_maps_ : lower_maps_, &state_.references.at(index));
  map->setObjectName(QLatin1String(kOtherNames[index]));
  map->setMinimumSize(240, 180);
  map->SetPanelVisible(false);
  if (index == 0) {
    map->AlignWith(canvas_);
    // Rolled up or not, which is not a matter of the window's size alone.
    connect(canvas_, &HeadCanvas::PanelPlaced, map, [this, map] { map->AlignWith(canvas_); });
  }
  map->SetWorkbench(workbench_);
  if (state_.heads.HasTrace()) map->SetTrace(state_.heads.shared_trace());
  map->ShowColorsOf(*canvas_);
  map->SetOverlay(canvas_->overlay());
  // It begins as what is on show: what changes from here on is compared with it.
  if (const kernels::MethodSpec* spec = state_.trial.method())
    state_.references.at(index).SelectMethod(spec->name, state_.trial.values());
  others_.push_back(map);
  LinkMap(map);
  if (state_.heads.selected()) ShowReference(map, *state_.heads.selected());
}

void MainWindow::LinkMap(HeadCanvas* map) {
  const auto follow = [this, map](HeadCanvas* leader, HeadCanvas* follower) {
    connect(leader, &HeadCanvas::ViewChanged, map, [this, leader, follower] {
      if (linking_) return;
      linking_ = true;
      follower->ShowViewOf(*leader);
      linking_ = false;
    });
    connect(leader, &HeadCanvas::CursorMoved, map,
            [leader, follower](qint64 row, qint64 column) { follower->SetCursorOf(*leader, row, column); });
    connect(leader, &HeadCanvas::CursorLeft, map, [follower] { follower->SetOtherCursor(-1, -1); });
  };
  for (HeadCanvas* other : Maps()) {
    if (other == map) continue;
    follow(other, map);
    // Ends with this map, which may be the first of the two to go.
    follow(map, other);
  }
  // What was fitted into the old size is not the same part of the map.
  connect(canvas_, &HeadCanvas::LaidOut, map, [this] { ShowTheSamePart(); });
  connect(map, &HeadCanvas::LaidOut, this, &MainWindow::ShowTheSamePart);
  connect(canvas_, &HeadCanvas::DisplayChanged, map, [this, map] { map->ShowColorsOf(*canvas_); });
  connect(map, &HeadCanvas::CursorMoved, this, [this, map](qint64 row, qint64 column, const Exact& exact) {
    ShowCursor(map->trace(), row, column, exact);
    // The panes are about the trace of the first map.
    if (IsOfOpenTrace(map)) state_.focus.Point(row, column);
  });
  connect(map, &HeadCanvas::ScoreMarked, this, [this, map](qint64 row, qint64 column) {
    if (IsOfOpenTrace(map)) state_.focus.ChooseByClick(row, column);
  });
  connect(map, &HeadCanvas::ScoreMarkTakenBack, this, [this, map] {
    if (IsOfOpenTrace(map)) state_.focus.TakeBackClick();
  });
  connect(map, &HeadCanvas::MenuWanted, this,
          [this, map](QPoint global, qint64 row, qint64 column) { ShowMapMenu(map, global, row, column); });
  connect(map, &HeadCanvas::CursorLeft, cursor_label_, &QLabel::clear);
  connect(map, &HeadCanvas::HeadStepRequested, this, [this, map](int step) { StepHead(map, step); });
  connect(map, &HeadCanvas::GraphicsFailed, notice_, &NoticeBar::ShowError);
  connect(map, &HeadCanvas::MethodChanged, this, &MainWindow::UpdateCommands);
  connect(map, &HeadCanvas::NotePressed, this, &MainWindow::GoToNote);
}

void MainWindow::StepHead(HeadCanvas* map, int step) {
  if (map == canvas_) return state_.StepHead(step);
  const std::vector<analysis::HeadId>& heads = map->trace().heads;
  const auto at = std::lower_bound(heads.begin(), heads.end(), map->head());
  if (at == heads.end()) return;
  const std::ptrdiff_t last = static_cast<std::ptrdiff_t>(heads.size()) - 1;
  const std::ptrdiff_t index = std::clamp<std::ptrdiff_t>(at - heads.begin() + step, 0, last);
  ShowReference(map, heads[static_cast<size_t>(index)]);
}

QList<HeadCanvas*> MainWindow::Maps() const {
  QList<HeadCanvas*> maps{canvas_};
  maps.append(QList<HeadCanvas*>(others_.begin(), others_.end()));
  return maps;
}

HeadCanvas* MainWindow::MapWithFocus() const {
  // Also while another window is in front.
  for (HeadCanvas* map : Maps()) {
    if (map == focusWidget()) return map;
  }
  return canvas_;
}

void MainWindow::ShowReference(HeadCanvas* map, analysis::HeadId head) {
  map->ShowHead(head);
  map->ShowViewOf(*canvas_);
  UpdateComparison();
  UpdateCommands();
}

void MainWindow::UpdateComparison() {
  const bool compare = commands_[Command::kMapDifference]->isChecked() && !others_.empty();
  if (others_.empty()) commands_[Command::kMapDifference]->setChecked(false);
  canvas_->CompareWith(compare ? others_.front() : nullptr);
  ShowTheSamePart();
}

void MainWindow::ExchangeMaps() {
  if (others_.empty()) return;
  // With the map that the keyboard is on, if it is another one.
  HeadCanvas* map = MapWithFocus();
  if (map == canvas_) map = others_.front();
  if (!map->HasHead() || !canvas_->HasHead()) return;
  StateChanged();  // what was set before is a step of its own
  const auto number = static_cast<size_t>(std::find(others_.begin(), others_.end(), map) - others_.begin());
  state_.parameters.stack()->push(
      new SwapStep(tr("swap of the maps"), [this, number] { return ExchangeWith(number); }));
}

bool MainWindow::ExchangeWith(size_t number) {
  if (other_workbench_ != nullptr || coming_) {
    notice_->ShowMessage(tr("The maps are not swapped back: the second one shows another trace."));
    return false;
  }
  if (number >= others_.size() || !others_[number]->HasHead() || !canvas_->HasHead()) return false;
  HeadCanvas* const map = others_[number];
  MethodTrial& reference = state_.references.at(number);
  const analysis::HeadId first = canvas_->head(), second = map->head();
  const kernels::MethodSpec *const spec = state_.trial.method(), *const other = reference.method();
  if (spec != nullptr && other != nullptr) {
    const std::string name = spec->name, other_name = other->name;
    const kernels::ParameterValues values = state_.trial.values(), other_values = reference.values();
    state_.trial.SelectMethod(other_name, other_values);
    reference.SelectMethod(name, values);
  }
  state_.heads.Select(second);
  ShowReference(map, first);
  state_.parameters.Begin(state_.PresentMethod());  // the swap is the step
  return true;
}

QString MainWindow::OtherTracePath() const {
  if (other_workbench_ == nullptr || !state_.heads.HasOther()) return {};
  return QFileInfo(QString::fromStdString(state_.heads.other()->path)).absoluteFilePath();
}

void MainWindow::OpenOtherTrace(const QString& path) {
  auto opened = std::shared_ptr<Workbench>(workbench_->Another());
  Workbench* const bench = opened.get();
  progress_->Begin(kOpenWork, [] {});
  ProgressReport report;
  report.stage = tr("Opening %1").arg(QFileInfo(path).fileName()).toStdString();
  progress_->Update(kOpenWork, report);
  bench->SetBackgroundErrorHandler(
      [this](const std::string& sentence) { notice_->ShowError(QString::fromStdString(sentence)); });
  LetWaitForScreen(bench);  // its map's live runs, too, are timed on a window at rest
  opening_other_ = opened;  // another choice drops it with its replies
  const bool is_again = coming_ && coming_->path == path;
  bench->OpenTrace(path.toStdString(),
                   WhileAlive(this,
                              [this, is_again](const TraceSummary& trace) {
                                progress_->End(kOpenWork);
                                if (is_again) return ComparisonOpened(trace);
                                const QString name = QFileInfo(QString::fromStdString(trace.path)).fileName();
                                ChangeView(tr("comparison with %1").arg(name),
                                           [this, &trace] { OtherTraceOpened(trace); });
                              }),
                   WhileAlive(this, [this](const std::string& sentence) {
                     progress_->End(kOpenWork);
                     notice_->ShowError(QString::fromStdString(sentence));
                     // Also where a person has chosen another one meanwhile: undo goes on without it.
                     if (std::exchange(coming_, std::nullopt)) settings_history_.Begin(ViewSettings());
                     UpdateCommands();
                     // Not from within its own reply.
                     QTimer::singleShot(0, this, [this, failed = std::exchange(opening_other_, nullptr)] {});
                   }));
  UpdateCommands();
}

void MainWindow::ComparisonOpened(const TraceSummary& trace) {
  StateChanged();  // what was set while it was read
  const ComingComparison comparison = *coming_;
  const bool follows = commands_[Command::kSplitFollows]->isChecked();
  changing_view_ = true;
  OtherTraceOpened(trace);
  commands_[Command::kSplitFollows]->setChecked(follows);
  commands_[Command::kHeadDifferences]->setChecked(comparison.differences);
  state_.heads.ShowDifferences(comparison.differences);
  RestoreSecondMap(comparison.second_map);
  changing_view_ = false;
  settings_history_.Begin(ViewSettings());
}

void MainWindow::StopOpeningOther() {
  coming_.reset();
  if (opening_other_ == nullptr) return;
  opening_other_.reset();
  progress_->End(kOpenWork);
}

QJsonObject MainWindow::SecondMap() const {
  QJsonObject shown;
  if (others_.empty()) return shown;
  if (const HeadCanvas* map = others_.front(); map->HasHead())
    shown[kMapHead] = QJsonArray{map->head().layer, map->head().head};
  if (const kernels::MethodSpec* spec = state_.references.front().method()) {
    shown[kMapMethod] = QString::fromStdString(spec->name);
    shown[kMapParameters] = QString::fromStdString(state_.references.front().values().ToString(*spec));
  }
  return shown;
}

void MainWindow::RestoreSecondMap(const QJsonObject& shown) {
  if (others_.empty()) return;
  if (const kernels::MethodSpec* spec = state_.FindMethod(shown[kMapMethod].toString())) {
    kernels::ParameterValues values(*spec);
    if (values.Parse(*spec, shown[kMapParameters].toString().toStdString()).empty())
      state_.references.front().SelectMethod(spec->name, values);
  }
  const QJsonArray head = shown[kMapHead].toArray();
  // One that follows the first map's head has had another since.
  if (head.size() == 2 && !commands_[Command::kSplitFollows]->isChecked())
    ShowReference(others_.front(), {head[0].toInt(), head[1].toInt()});
}

void MainWindow::OtherTraceOpened(const TraceSummary& trace) {
  CloseOtherTrace();
  coming_.reset();
  if (others_.empty()) Split(1);
  other_workbench_ = std::exchange(opening_other_, nullptr);
  HeadCanvas* const map = others_.front();
  const kernels::ParameterValues values = state_.trial.values();
  map->SetWorkbench(other_workbench_.get());
  map->SetTrace(trace);
  map->ShowColorsOf(*canvas_);  // another length has another range by itself
  if (const kernels::MethodSpec* spec = state_.trial.method())
    state_.references.front().SelectMethod(spec->name, values);
  state_.heads.SetOther(trace);
  NameMaps();
  ShowNotesOnMaps();
  commands_[Command::kCompareTrace]->setChecked(true);
  commands_[Command::kHeadDifferences]->setChecked(true);
  state_.heads.ShowDifferences(true);
  // A head alone says little of a class; a number differs.
  commands_[Command::kSplitFollows]->setChecked(true);
  RequestOtherStatistics();
  if (state_.heads.selected()) ShowReference(map, *state_.heads.selected());
  notice_->ShowMessage(tr("The second map and the head colours now compare with %1 (%2, %3 tokens).")
                           .arg(Shown(QFileInfo(QString::fromStdString(trace.path)).fileName()),
                                QString::fromStdString(trace.model_name), CountText(trace.num_tokens)));
  UpdateCommands();
  StateChanged();
}

void MainWindow::RequestOtherStatistics() {
  const QString name = ShownFileName(state_.heads.other()->path);
  progress_->Begin(kOtherStatisticsWork, [this, name] {
    other_workbench_->CancelStatistics(WhileAlive(this, [this] { state_.RunLiveAgain(); }));
    progress_->End(kOtherStatisticsWork);
    notice_->ShowOffer(OtherStatisticsStoppedText(state_.heads, name), tr("Resume"),
                       [this, stopped = std::weak_ptr<Workbench>(other_workbench_)] {
                         if (!stopped.expired() && stopped.lock() == other_workbench_) RequestOtherStatistics();
                       });
  });
  // Until the first head reports, as the open trace's do.
  ProgressReport at_first;
  at_first.stage = tr("Statistics of %1").arg(name).toStdString();
  progress_->Update(kOtherStatisticsWork, at_first);
  other_workbench_->RequestStatistics(
      WhileAlive(this, [this](const analysis::HeadStatistics& statistics) { state_.heads.AddOther(statistics); }),
      WhileAlive(this,
                 [this] {
                   progress_->End(kOtherStatisticsWork);
                   state_.RunLiveAgain();
                 }),
      WhileAlive(this, [this, name](ProgressReport report) {
        report.stage = tr("%1 of %2").arg(QString::fromStdString(report.stage), name).toStdString();
        progress_->Update(kOtherStatisticsWork, report);
      }));
}

void MainWindow::CloseOtherTrace() {
  commands_[Command::kCompareTrace]->setChecked(false);
  commands_[Command::kHeadDifferences]->setChecked(false);
  if (other_workbench_ == nullptr) return;
  state_.heads.SetOther(std::nullopt);
  other_workbench_->CancelStatistics([] {});
  progress_->End(kOtherStatisticsWork);
  if (!others_.empty()) {
    HeadCanvas* const map = others_.front();
    const kernels::MethodSpec* const spec = state_.references.front().method();
    const std::string name = spec == nullptr ? std::string() : spec->name;
    const kernels::ParameterValues values = state_.references.front().values();
    map->SetWorkbench(workbench_);
    if (state_.heads.HasTrace()) map->SetTrace(state_.heads.shared_trace());
    map->ShowColorsOf(*canvas_);
    if (!name.empty()) state_.references.front().SelectMethod(name, values);
    if (state_.heads.selected()) ShowReference(map, *state_.heads.selected());
  } else {
    state_.references.front().SetWorkbench(workbench_);
  }
  other_workbench_.reset();  // which waits for the head under way
  state_.RunLiveAgain();     // what ran beside its statistics
  NameMaps();
  ShowNotesOnMaps();
  UpdateCommands();
}

}  // namespace headscope::ui
