// SPDX-License-Identifier: Apache-2.0
// A trace that a capture is still writing, of this window or of another program: what is there is shown, every head as
// far as it is recorded, and it is read again as it grows.
#include <QApplication>
#include <QFileInfo>
#include <QMessageBox>
#include <QPushButton>

#include "main_window.h"
#include "shown_text.h"

namespace headscope::ui {
namespace {

// "3 s", "12 min", "5 h", "40 days".
QString DurationText(qint64 seconds) {
  if (seconds < 120) return MainWindow::tr("%1 s").arg(seconds);
  if (seconds < 2 * 3600) return MainWindow::tr("%1 min").arg(seconds / 60);
  if (seconds < 2 * 86400) return MainWindow::tr("%1 h").arg(seconds / 3600);
  return MainWindow::tr("%1 days").arg(CountText(seconds / 86400));
}

}  // namespace

void MainWindow::ConnectGrowth() {
  connect(&watch_, &TraceWatch::Grown, this,
          [this] { ReadAgainOrOffer(session_.last_trace, tr("More of %1 has been recorded.")); });
  connect(&watch_, &TraceWatch::Renamed, this, [this](const QString& path) {
    ReadAgainOrOffer(path, tr("The open trace is complete; its file is now %1."));
  });
  connect(&watch_, &TraceWatch::Looked, this, &MainWindow::ShowRecording);
  connect(&state_.heads, &HeadStore::TraceChanged, this, &MainWindow::ShowRecording);
}

void MainWindow::ShowRecording() {
  const TraceSummary& trace = state_.heads.trace();
  const bool shown = state_.heads.HasTrace() && !trace.complete;
  recording_label_->setVisible(shown);
  if (!shown) return;
  const QString stage = watch_.is_written() ? tr("Recording") : tr("Incomplete");
  recording_label_->setText(
      trace.expected_tokens > trace.num_tokens
          ? tr("%1: %2 of %3 tokens").arg(stage, CountText(trace.num_tokens), CountText(trace.expected_tokens))
          : tr("%1: %2 tokens").arg(stage, CountText(trace.num_tokens)));
  if (watch_.is_written()) {
    recording_label_->setToolTip(
        tr("A capture is still writing this trace: every head is shown up to its last token, and more appears as it is "
           "recorded."));
  } else if (watch_.is_gone()) {
    recording_label_->setToolTip(
        tr("This trace's file was moved or deleted. The window keeps what it has read and no longer updates."));
  } else {
    recording_label_->setToolTip(
        tr("Every head ends at this token. Nothing has been written to the trace for %1: either "
           "its capture has ended, or it is in a long pass and more will appear.")
            .arg(DurationText(watch_.QuietSeconds())));
  }
}

bool MainWindow::MayReadAgain() const {
  return state_.OfThisLength().isEmpty() && !state_.IsWorking() && !watch_.is_opening_another() &&
         QApplication::activeModalWidget() == nullptr && QApplication::activePopupWidget() == nullptr;
}

void MainWindow::ReadAgainOrOffer(const QString& path, const QString& sentence) {
  if (MayReadAgain()) return ReadAgain(path);
  notice_->ShowOffer(sentence.arg(QFileInfo(path).fileName()), tr("Show it"), [this, path] { AskToReadAgain(path); });
}

void MainWindow::ReadAgain(const QString& path) {
  OpenTrace(path, /*again=*/true);
}

void MainWindow::AskToReadAgain(const QString& path) {
  const QStringList goes = state_.OfThisLength();
  if (goes.isEmpty()) return ReadAgain(path);
  const bool has_runs = !state_.runs.runs().empty();
  QMessageBox box(
      QMessageBox::Warning, tr("More has been recorded"),
      tr("Reading the trace again discards what belongs only to its first %1 tokens: %2. Bookmarks and tags stay.")
          .arg(CountText(state_.heads.trace().num_tokens), goes.join(QStringLiteral(", "))),
      QMessageBox::NoButton, this);
  box.setObjectName(QStringLiteral("readAgain"));
  QPushButton* const save = has_runs ? box.addButton(tr("Save runs…"), QMessageBox::AcceptRole) : nullptr;
  QPushButton* const discard = box.addButton(tr("Discard"), QMessageBox::DestructiveRole);
  QPushButton* const cancel = box.addButton(QMessageBox::Cancel);
  if (save != nullptr) save->setToolTip(tr("Save them as .csv, .json or .h5"));
  box.setDefaultButton(cancel);
  box.exec();
  if (box.clickedButton() == discard || (save != nullptr && box.clickedButton() == save && ExportRuns())) {
    tunings_.SetGoes(true);  // it has been named
    ReadAgain(path);
  }
}

bool MainWindow::ShowsOwnCapture() const {
  return !recording_path_.isEmpty() && session_.last_trace == QFileInfo(recording_path_).absoluteFilePath();
}

void MainWindow::UpdateWriter() {
  watch_.SetWriterKnown(capture_ != nullptr && capture_->IsCapturing() && ShowsOwnCapture());
}

void MainWindow::CaptureReadable(const QString& path) {
  if (path.isEmpty() || path == recording_path_ || !capture_->CanBeShown()) return;
  recording_path_ = path;
  UpdateWriter();
  if (!state_.heads.HasTrace() && !watch_.is_opening()) return OpenPath(path);
  notice_->ShowOffer(tr("The first tokens of %1 have been recorded.").arg(QFileInfo(path).fileName()), tr("Show them"),
                     [this, path] { OpenPath(path); });
  readable_offer_ = notice_->newest_offer();
}

}  // namespace headscope::ui
