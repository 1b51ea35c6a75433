// SPDX-License-Identifier: Apache-2.0
#include <QFileInfo>
#include <QInputDialog>
#include <QMessageBox>
#include <QPushButton>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/file_format.h"
#include "main_window.h"
#include "panes.h"
#include "save_dialog.h"
#include "stopped_statistics.h"
#include "while_alive.h"

namespace headscope::ui {
namespace {

constexpr double kPictureScale = 2;  // twice the window's pixels: sharp on paper and on a slide
constexpr int kLeastPictureWidth = 400;
constexpr std::chrono::seconds kMomentForOpenedHead(5);

}  // namespace

void MainWindow::OpenAtStart(const QString& open_path, const QString& shipped_trace) {
  if (!open_path.isEmpty()) {
    chooses_head_ = true;
    chooses_until_.setRemainingTime(kMomentForOpenedHead);
    OpenPath(open_path);
    return;
  }
  if (QFileInfo(session_.last_trace).isFile()) {
    OpenPath(session_.last_trace);
    return;
  }
  if (!session_.last_trace.isEmpty())
    said_at_start_ = tr("%1 no longer exists; showing the sample trace instead.").arg(session_.last_trace);
  if (!shipped_trace.isEmpty()) {
    chooses_head_ = chooses_method_ = session_.last_trace.isEmpty();
    return OpenPath(shipped_trace);
  }
  ShowWelcome();
}

void MainWindow::OpenPath(const QString& path) {
  if (QFileInfo(path).isDir()) {
    OpenCapture(path);
  } else if (MayDropTuning(tr("Opening another trace discards it.")) &&
             MayDropRuns(tr("Opening another trace discards them."))) {
    OpenTrace(path);
  }
}

bool MainWindow::MayDropRuns(const QString& consequence) {
  if (state_.runs.NumUnsaved() > 0) FinishWriting();  // they are kept in a moment, if they can be
  const int unsaved = std::min(state_.runs.NumUnsaved(), keeper_.num_unkept());
  if (unsaved == 0) return true;
  QMessageBox box(QMessageBox::Warning, tr("Unsaved runs"),
                  (unsaved == 1 ? tr("1 unsaved run. ") : tr("%1 unsaved runs. ").arg(unsaved)) + consequence,
                  QMessageBox::NoButton, this);
  box.setObjectName(QStringLiteral("unsavedRuns"));
  QPushButton* const save = box.addButton(tr("Save…"), QMessageBox::AcceptRole);
  QPushButton* const discard = box.addButton(tr("Discard"), QMessageBox::DestructiveRole);
  QPushButton* const cancel = box.addButton(QMessageBox::Cancel);
  save->setToolTip(tr("Save them as .csv, .json or .h5"));
  box.setDefaultButton(cancel);
  box.exec();
  if (box.clickedButton() == save) return ExportRuns();
  return box.clickedButton() == discard;
}

void MainWindow::ForgetRuns() {
  tunings_.SetGoes(true);
  state_.sweep.Clear();
  state_.runs.Clear();
}

void MainWindow::OpenTrace(const QString& path, bool again) {
  QStringList files;
  for (const std::string& file : workbench_->FilesToOpen(path.toStdString())) files << QString::fromStdString(file);
  watch_.Opening(files);
  progress_->Begin(kOpenWork, [] {});  // reading a trace's layout is over before anybody could cancel it
  ProgressReport report;
  report.stage = tr("Opening %1").arg(QFileInfo(path).fileName()).toStdString();
  progress_->Update(kOpenWork, report);
  workbench_->OpenTrace(path.toStdString(),
                        WhileAlive(this,
                                   [this, again, offer = notice_->newest_offer()](TraceSummary trace) {
                                     // What was offered instead of the trace before is about that one.
                                     notice_->WithdrawOffer(offer);
                                     TraceOpened(std::move(trace), again);
                                   }),
                        WhileAlive(this, [this](const std::string& sentence) {
                          progress_->End(kOpenWork);
                          watch_.NotOpened();
                          notice_->ShowError(QString::fromStdString(sentence));
                          if (!state_.heads.HasTrace()) ShowWelcome();
                        }));
}

void MainWindow::TraceOpened(TraceSummary opened, bool again) {
  const auto shared = std::make_shared<const TraceSummary>(std::move(opened));
  const TraceSummary& trace = *shared;
  const QString path = QFileInfo(QString::fromStdString(trace.path)).absoluteFilePath();
  progress_->End(kOpenWork);
  progress_->End(kStatisticsWork);
  state_.queue.StopAll();
  const bool was_tuned = !state_.sweep.TunedHeads().empty();
  state_.sweep.Clear();
  if (was_tuned) FinishWriting();             // it may be the same trace that is opened, whose file is read
  if (save_timer_.isActive()) SaveSession();  // of the trace before
  // What went wrong before is not about this trace.
  notice_->DismissError();
  if (capture_ != nullptr) capture_->SetTraceOnShow(path);
  known_place_ = known_brush_ = {};  // what the trace brings along is nobody's change
  const bool is_first = !state_.heads.HasTrace();
  if (is_first) welcome_->hide();
  // A trace that has grown stays where it is looked at, unless all of it was.
  const bool is_same = again && HasGrownFrom(state_.heads.trace(), trace);
  TraceKeeper::Notes carried;
  if (is_same) {
    for (const TraceNote& note : state_.notes.notes()) carried.emplace_back(note.id, note.ToJson());
  }
  TraceLength length{.tokens = trace.num_tokens, .contents_of_first = {}};
  // Of one that grew on show the notes on show are the newest: the file may still have one that was deleted.
  if (!is_same) {
    length.contents_of_first = [this](int64_t tokens) {
      return QString::fromStdString(workbench_->ContentsOfFirst(tokens));
    };
  }
  const TraceKeeper::Kept kept = keeper_.Open(path, QString::fromStdString(trace.contents), carried, length);
  const bool is_example =
      opening_example_ && QFileInfo(QString::fromStdString(opening_example_->path)).absoluteFilePath() == path;
  if (!is_example) opening_example_.reset();
  // An example that nobody has looked at shows what it is about, and not the head of the trace before.
  const std::optional<analysis::HeadId> last_head =
      is_example && kept.view.isEmpty() ? std::nullopt : HeadToShow(kept, path);
  session_.last_trace = path;
  session_.AddRecent(path);
  FillRecentMenu();
  state_.history.Clear();
  state_.runs.Clear();
  UpdateWriter();
  watch_.Opened(trace);
  // The answer's query, until another one is pointed at: text and lost keys have something to say.
  const std::optional<int64_t> query = state_.focus.row();
  const bool query_stays = is_same && query && *query + 1 < state_.heads.trace().num_rows;
  const auto show = [&](HeadCanvas* map) {
    const bool stays = is_same && map->HasHead() && !map->VisiblePart().is_whole;
    const QJsonObject place = map->PlaceState();
    map->SetTrace(shared);
    if (stays) map->RestoreViewState(place);
  };
  show(canvas_);
  for (HeadCanvas* map : others_) {
    if (other_workbench_ == nullptr || map != others_.front()) show(map);
  }
  NameMaps();
  configuration_is_no_step_ = true;  // it goes with the trace before
  state_.heads.SetTrace(shared);
  configuration_is_no_step_ = false;
  if (!is_same) state_.parameters.stack()->clear();  // what it would take back was of the trace before
  state_.notes.Open(trace, kept.notes);
  RestoreTrace(kept, path, is_first);
  BeginUndo();
  state_.parameters.Begin(state_.PresentMethod());
  const bool chooses = std::exchange(chooses_head_, false) && (is_first || is_example) && !last_head;
  const bool chooses_method = std::exchange(chooses_method_, false) && chooses && !is_example;
  RequestStatistics();
  const auto& heads = trace.heads;
  const bool last_is_there = last_head && std::binary_search(heads.begin(), heads.end(), *last_head);
  if (!heads.empty()) state_.heads.Select(last_is_there ? *last_head : heads.front());
  chooses_head_ = chooses;  // from here on it is a person who selects or moves
  chooses_method_ = chooses_method;
  if (trace.num_rows > 0) state_.focus.Choose(query_stays ? *query : trace.num_rows - 1);
  if (state_.heads.selected()) {
    for (HeadCanvas* map : others_) ShowReference(map, *state_.heads.selected());
  }
  for (HeadCanvas* map : others_) map->ShowColorsOf(*canvas_);
  UpdateCommands();
  // What is said hides an offer for its own time, and not the other way round.
  OfferTuning(kept.tunings);
  // Who was there when it grew has been asked.
  if (const QString text = kept.WhatIsNotShown(); !again && !text.isEmpty()) notice_->ShowMessage(text);
  if (!kept.error.isEmpty() && !again)
    notice_->ShowError(tr("Not all that was kept of this trace is shown. %1").arg(kept.error));
  if (!said_at_start_.isEmpty()) notice_->ShowError(std::exchange(said_at_start_, {}));
  SaveSession();  // at once: the recent files are what a person misses most
}

void MainWindow::ChooseFirstHead() {
  if (!chooses_head_) return;
  if (chooses_until_.hasExpired() || state_.IsWorking()) chooses_head_ = chooses_method_ = false;
  if (!chooses_head_ || !state_.heads.HasAllStatistics()) return;
  std::optional<analysis::HeadId> chosen;
  if (opening_example_ && !opening_example_->metric.empty()) {
    chosen = HeadWithMost(state_.heads, opening_example_->metric);
  } else if (const std::vector<HeadWorthALook> found = HeadsWorthALook(state_.heads); !found.empty()) {
    chosen = found.front().head;
  }
  if (!chosen) return;
  chooses_head_ = false;
  const bool chooses_method = std::exchange(chooses_method_, false);
  state_.heads.Select(*chosen);
  // Undo begins with what is shown then: nobody has set it.
  if (chooses_method) {
    state_.queue.ShowFirstMethod(WhileAlive(this, [this] { state_.parameters.Begin(state_.PresentMethod()); }));
  }
  if (!opening_example_ || opening_example_->metric.empty()) return;
  // A short prompt that says its words twice: the second time against the first, where the axes have room for the
  // words.
  const int64_t tokens = state_.heads.trace().num_tokens;
  canvas_->ZoomTo(tokens * 2 / 3, tokens, tokens / 6, tokens / 2);
  state_.focus.Choose(tokens * 3 / 4);
  if (QAction* const text = ActionNamed(GoToPaneName(&MakeTextPane))) text->trigger();
}

void MainWindow::RequestStatistics() {
  progress_->Begin(kStatisticsWork, [this] {
    workbench_->CancelStatistics(WhileAlive(this, [this] { state_.RunLiveAgain(); }));
    progress_->End(kStatisticsWork);
    notice_->ShowOffer(StatisticsStoppedText(state_.heads), tr("Resume"), [this] { RequestStatistics(); });
  });
  // Of a long prompt the first head alone takes a while, and a bar without a word could be anything's.
  ProgressReport at_first;
  at_first.stage = tr("Statistics of the heads").toStdString();
  progress_->Update(kStatisticsWork, at_first);
  workbench_->RequestStatistics(
      WhileAlive(this,
                 [this](const analysis::HeadStatistics& statistics) {
                   state_.heads.Add(statistics);
                   ChooseFirstHead();
                 }),
      WhileAlive(this,
                 [this] {
                   progress_->End(kStatisticsWork);
                   state_.RunLiveAgain();
                 }),
      WhileAlive(this, [this](const ProgressReport& report) { progress_->Update(kStatisticsWork, report); }));
}

void MainWindow::OpenCapture(const QString& model_dir) {
  if (capture_ == nullptr) {
    capture_ = new CaptureDialog(workbench_, this);
    capture_->SetTraceOnShow(QString::fromStdString(state_.heads.trace().path));
    ConnectCapture();
  }
  if (!model_dir.isEmpty() && capture_->IsCapturing()) {
    notice_->ShowMessage(tr("%1 was not taken over: a capture is running. Open the folder again when it has ended.")
                             .arg(QFileInfo(model_dir).fileName()));
  } else if (!model_dir.isEmpty()) {
    capture_->SetModelDir(model_dir);
  }
  capture_->show();
  capture_->raise();
  capture_->activateWindow();
}

void MainWindow::ConnectCapture() {
  connect(capture_, &CaptureDialog::Began, this, [this] {
    progress_->Begin(
        kCaptureWork, [this] { capture_->Stop(); }, [this] { OpenCapture({}); });
  });
  connect(capture_, &CaptureDialog::Progressed, this, [this](const ProgressReport& report) {
    progress_->Update(kCaptureWork, report);
    CaptureReadable(QString::fromStdString(report.readable_path));
  });
  connect(capture_, &CaptureDialog::Captured, this, &MainWindow::TraceCaptured);
  connect(capture_, &CaptureDialog::Failed, this, [this](const QString& sentence) {
    progress_->End(kCaptureWork);
    recording_path_.clear();
    UpdateWriter();
    if (!capture_->isVisible()) notice_->ShowError(sentence);  // an open dialog says it itself
  });
  connect(capture_, &CaptureDialog::OpenRequested, this, &MainWindow::OpenPath);
  connect(capture_, &CaptureDialog::CopyWanted, this, &MainWindow::CopyCaptureCommand);
}

void MainWindow::TraceCaptured(const CapturedTrace& trace) {
  progress_->End(kCaptureWork);
  notice_->WithdrawOffer(readable_offer_);
  const QString path = QString::fromStdString(trace.path);
  const QString told = trace.cancelled ? tr("Capture cancelled; the tokens recorded so far are in %1 (%2).")
                                       : tr("Trace saved to %1 (%2)");
  if (!capture_->CanBeShown()) {  // an encoder's, which the dialog has warned of
    notice_->ShowMessage(told.arg(path, DescribeSize(trace)));
    return;
  }
  session_.AddRecent(path);
  FillRecentMenu();
  SaveSession();
  // Its first tokens may be on show, by the name that it had while it was written.
  const bool is_on_show = ShowsOwnCapture();
  recording_path_.clear();
  UpdateWriter();
  if (is_on_show && MayReadAgain()) return ReadAgain(path);
  if (!state_.heads.HasTrace() && !watch_.is_opening()) return OpenPath(path);
  // What is on show stays there: its runs belong to it.
  notice_->ShowOffer(told.arg(path, DescribeSize(trace)), tr("Open"),
                     [this, path, before = is_on_show ? session_.last_trace : QString()] {
                       if (!before.isEmpty() && session_.last_trace == before) return AskToReadAgain(path);
                       OpenPath(path);
                     });
}

double MainWindow::PixelsPerExported() const {
  const QSize size = canvas_->PictureSize();
  const int width = canvas_->picture_width();
  const double wanted = width > 0 ? static_cast<double>(width) / std::max(size.width(), 1) : kPictureScale;
  const double fits = static_cast<double>(HeadCanvas::kMostPictureSide) / std::max(size.width(), size.height());
  return std::min(wanted, width > 0 ? fits : std::floor(fits * 4) / 4);
}

void MainWindow::ChooseExportWidth() {
  bool chosen = false;
  const int width = QInputDialog::getInt(
      this, tr("Width of exported pictures"),
      tr("Width in pixels, %1 to %2; 0: twice the window's").arg(kLeastPictureWidth).arg(HeadCanvas::kMostPictureSide),
      canvas_->picture_width(), 0, HeadCanvas::kMostPictureSide, 100, &chosen);
  if (chosen) canvas_->SetPictureWidth(width == 0 ? 0 : std::max(width, kLeastPictureWidth));
}

void MainWindow::ExportCanvas() {
  // The kind of file is a choice that every platform's dialog shows.
  const QStringList kinds{tr("PNG, dark background (*.png)"), tr("PNG, white background (*.png)"),
                          tr("SVG, text kept as text (*.svg)"), tr("PDF, text kept as text (*.pdf)")};
  qsizetype kind = canvas_->pictures_light() ? 1 : 0;
  const QString path =
      AskWhereToWrite(this, tr("Export map"),
                      ExportName(QStringLiteral("head-%1-%2.png").arg(canvas_->head().layer).arg(canvas_->head().head)),
                      kinds, QStringLiteral("png"), &kind);
  if (path.isEmpty()) return;
  const std::optional<FileFormat> file = FindFileFormat(path.toStdString());
  const bool is_vector = file == FileFormat::kSvg || file == FileFormat::kPdf;
  if (!is_vector && kind < 2) canvas_->SetPicturesLight(kind == 1);
  // The canvas has the tiles of its own head alone.
  const bool is_drawing = is_vector || canvas_->comparison() == Comparison::kValues;
  ProgressReport report;
  report.stage = tr("Exporting %1").arg(QFileInfo(path).fileName()).toStdString();
  if (is_drawing) {
    progress_->Begin(kExportWork, [this] {
      workbench_->CancelMapExport();
      progress_->End(kExportWork);
    });
    progress_->Update(kExportWork, report);
    ExportDrawing(path);
    return;
  }
  progress_->Begin(kExportWork, [this] {
    canvas_->CancelExport();
    progress_->End(kExportWork);
  });
  progress_->Update(kExportWork, report);
  const double scale = PixelsPerExported();
  canvas_->ExportPng(path, canvas_->PictureSize() * scale, scale);
}

void MainWindow::ExportDrawing(const QString& path) {
  MapDrawing drawing = DrawingOfMap();
  if (FindFileFormat(path.toStdString()) != FileFormat::kPng) drawing.dark = false;  // for paper
  workbench_->ExportMap(
      drawing, path.toStdString(),
      WhileAlive(this,
                 [this](const std::string& written) {
                   progress_->End(kExportWork);
                   notice_->ShowMessage(tr("Map saved to %1").arg(QString::fromStdString(written)));
                 }),
      WhileAlive(this,
                 [this](const std::string& sentence) {
                   progress_->End(kExportWork);
                   notice_->ShowError(QString::fromStdString(sentence));
                 }),
      WhileAlive(this, [this](const ProgressReport& report) { progress_->Update(kExportWork, report); }));
}

QString MainWindow::ExportName(const QString& what) const {
  const QString trace = QFileInfo(QString::fromStdString(state_.heads.trace().path)).completeBaseName();
  return trace.isEmpty() ? what : trace + u'-' + what;
}

bool MainWindow::ExportRuns() {
  const auto write = [this](const std::string& path) { return workbench_->ExportRuns(state_.runs.runs(), path); };
  if (!ExportTable(tr("Export runs table"), ExportName(QStringLiteral("runs.csv")), write)) return false;
  state_.runs.MarkSaved();
  return true;
}

bool MainWindow::ExportTable(const QString& title, const QString& name,
                             const std::function<std::string(const std::string&)>& write) {
  qsizetype only = 0;
  const QString path =
      AskWhereToWrite(this, title, name, {tr("Tables (*.csv *.json *.h5)")}, QStringLiteral("csv"), &only);
  if (path.isEmpty()) return false;
  const std::string error = write(path.toStdString());
  if (error.empty()) {
    notice_->ShowMessage(tr("Table saved to %1").arg(path));
  } else {
    notice_->ShowError(QString::fromStdString(error));
  }
  return error.empty();
}

}  // namespace headscope::ui
