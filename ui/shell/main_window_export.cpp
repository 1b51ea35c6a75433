// SPDX-License-Identifier: Apache-2.0
// Out of the window: the map on the clipboard, masks and pages in files. And in: the examples, which are made when they
// are first asked for.
#include <QApplication>
#include <QClipboard>
#include <QDir>
#include <QFile>
#include <QFileDialog>
#include <QFileInfo>
#include <algorithm>
#include <chrono>
#include <stop_token>

#include "allowed.h"
#include "main_window.h"
#include "while_alive.h"
#include "worth_a_look.h"

namespace headscope::ui {
namespace {

constexpr std::chrono::seconds kMomentForExampleHead(20);
constexpr size_t kMostReportHeads = 6;

}  // namespace

void MainWindow::BindExport() {
  commands_.Bind(Command::kCopyMap, [this](bool) { CopyMap(); });
  commands_.Bind(Command::kExportMask, [this](bool) { ExportMask(); });
  commands_.Bind(Command::kExportReport, [this](bool) { ExportReport(); });
  connect(canvas_, &HeadCanvas::PictureMade, this, [this](const QImage& picture, const QString& error) {
    progress_->End(kExportWork);
    if (!error.isEmpty()) return notice_->ShowError(error);
    QApplication::clipboard()->setImage(picture);
    notice_->ShowMessage(tr("Copied the map: %1 x %2 pixels").arg(picture.width()).arg(picture.height()));
  });
}

void MainWindow::UpdateExport() {
  const bool has_head = canvas_->HasHead();
  Allow(commands_[Command::kCopyMap], has_head, tr("no head is open"));
  Allow(
      commands_[Command::kExportMask], has_head && !state_.trial.is_decode(),
      has_head ? tr("%1 selects step by step: choose a prefill method").arg(canvas_->method()) : tr("no head is open"));
  Allow(commands_[Command::kExportReport], state_.heads.HasTrace(), tr("no trace is open"));
}

void MainWindow::CopyMap() {
  if (canvas_->comparison() == Comparison::kValues)
    return notice_->ShowMessage(tr("The difference of two heads is drawn into files only: use Export map."));
  progress_->Begin(kExportWork, [this] {
    canvas_->CancelExport();
    progress_->End(kExportWork);
  });
  ProgressReport report;
  report.stage = tr("Copying the map").toStdString();
  progress_->Update(kExportWork, report);
  const double scale = PixelsPerExported();
  canvas_->MakePicture(canvas_->PictureSize() * scale, scale);
}

void MainWindow::ExportMask() {
  if (!canvas_->HasHead() || state_.trial.method() == nullptr) return;
  const analysis::HeadId head = canvas_->head();
  const QString name =
      ExportName(QStringLiteral("%1-%2-%3-mask.h5").arg(canvas_->method()).arg(head.layer).arg(head.head));
  const QString path = QFileDialog::getSaveFileName(this, tr("Export mask"), name, tr("Masks (*.h5 *.json)"));
  if (path.isEmpty()) return;
  workbench_->ExportMask(
      head, state_.trial.method()->name, state_.trial.values(), path.toStdString(),
      WhileAlive(this,
                 [this](const std::string& written) {
                   notice_->ShowMessage(tr("Mask saved to %1").arg(QString::fromStdString(written)));
                 }),
      WhileAlive(this, [this](const std::string& sentence) { notice_->ShowError(QString::fromStdString(sentence)); }));
}

void MainWindow::ExportReport() {
  const QString path = QFileDialog::getSaveFileName(this, tr("Export report"),
                                                    ExportName(QStringLiteral("report.html")), tr("Pages (*.html)"));
  if (path.isEmpty()) return;
  // The head on show, those that were measured, and those that differ most; whole, in the window's colours on paper.
  std::vector<MapDrawing> heads;
  const auto add = [&heads, this](analysis::HeadId head) {
    const auto is_of = [head](const MapDrawing& drawing) { return drawing.head == head; };
    if (heads.size() >= kMostReportHeads || std::any_of(heads.begin(), heads.end(), is_of)) return;
    MapDrawing& drawing = heads.emplace_back();
    drawing.head = head;
    drawing.logarithmic = canvas_->scale() == ColorScale::kLogarithmic;
    drawing.color_map = canvas_->color_map().toStdString();
  };
  if (canvas_->HasHead()) add(canvas_->head());
  for (const HeadWorthALook& one : HeadsWorthALook(state_.heads)) add(one.head);
  for (const analysis::MethodResult& run : state_.runs.runs()) add(run.head);
  progress_->Begin(kExportWork, [this] {
    workbench_->CancelMapExport();
    progress_->End(kExportWork);
  });
  workbench_->ExportReport(
      state_.heads.AllStatistics(), state_.runs.runs(), heads, path.toStdString(),
      WhileAlive(this,
                 [this](const std::string& written) {
                   progress_->End(kExportWork);
                   notice_->ShowMessage(tr("Report saved to %1").arg(QString::fromStdString(written)));
                 }),
      WhileAlive(this,
                 [this](const std::string& sentence) {
                   progress_->End(kExportWork);
                   notice_->ShowError(QString::fromStdString(sentence));
                 }),
      WhileAlive(this, [this](const ProgressReport& report) { progress_->Update(kExportWork, report); }));
}

void MainWindow::OpenExample(const Example& example) {
  if (QFileInfo::exists(QString::fromStdString(example.path))) return OpenExampleTrace(example);
  if (example.made_by) return MakeExample(example);
  notice_->ShowError(tr("%1 is not there: build headscope's target shipped_trace, or capture a trace (Ctrl+N).")
                         .arg(QString::fromStdString(example.path)));
}

void MainWindow::OpenExampleTrace(const Example& example) {
  opening_example_ = example;
  chooses_head_ = true;
  chooses_until_.setRemainingTime(kMomentForExampleHead);
  OpenPath(QString::fromStdString(example.path));
  notice_->ShowMessage(QString::fromStdString(example.help));
}

void MainWindow::MakeExample(const Example& example) {
  const QString folder = QFileInfo(QString::fromStdString(example.path)).path();
  if (!QDir().mkpath(folder)) {
    return notice_->ShowError(
        tr("The example's folder %1 cannot be created: capture it elsewhere (Ctrl+N).").arg(folder));
  }
  std::stop_source cancelled;
  progress_->Begin(kExampleWork, [this, cancelled]() mutable {
    cancelled.request_stop();
    workbench_->CancelCapture();
  });
  workbench_->Capture(
      *example.made_by,
      WhileAlive(this,
                 [this, example](const CapturedTrace& trace) {
                   progress_->End(kExampleWork);
                   if (!trace.cancelled) return OpenExampleTrace(example);
                   // A shorter one would pass for the example.
                   QFile::remove(QString::fromStdString(trace.path));
                   notice_->ShowMessage(tr("The example was not made."));
                 }),
      WhileAlive(this,
                 [this, cancelled](const std::string& sentence) {
                   progress_->End(kExampleWork);
                   if (cancelled.stop_requested()) {
                     notice_->ShowMessage(tr("The example was not made."));
                   } else {
                     notice_->ShowError(QString::fromStdString(sentence));
                   }
                 }),
      WhileAlive(this, [this](const ProgressReport& report) { progress_->Update(kExampleWork, report); }));
}

}  // namespace headscope::ui
