// SPDX-License-Identifier: Apache-2.0
// A trace that a capture is still writing, of this window or of another program: what is there is shown, every head as
// far as it is recorded, and it is read again as it grows.
#include <QFileInfo>
#include <QLocale>

#include "main_window.h"

namespace headscope::ui {

void MainWindow::ConnectGrowth() {
  connect(&watch_, &TraceWatch::Grown, this, &MainWindow::TraceGrew);
  connect(&watch_, &TraceWatch::WrittenChanged, this, &MainWindow::ShowRecording);
  connect(&state_.heads, &HeadStore::TraceChanged, this, &MainWindow::ShowRecording);
}

void MainWindow::ShowRecording() {
  const TraceSummary& trace = state_.heads.trace();
  const bool shown = state_.heads.HasTrace() && !trace.complete;
  recording_label_->setVisible(shown);
  if (!shown) return;
  const auto count = [](int64_t tokens) { return QLocale::c().toString(static_cast<qlonglong>(tokens)); };
  const QString stage = watch_.is_written() ? tr("Recording") : tr("Incomplete");
  recording_label_->setText(
      trace.expected_tokens > trace.num_tokens
          ? tr("%1: %2 of %3 tokens").arg(stage, count(trace.num_tokens), count(trace.expected_tokens))
          : tr("%1: %2 tokens").arg(stage, count(trace.num_tokens)));
  recording_label_->setToolTip(
      watch_.is_written() ? tr("A capture is writing this trace: every head is there as far as it has come, and "
                               "what follows appears as it is recorded.")
                          : tr("The capture of this trace was stopped: every head ends at this token."));
}

bool MainWindow::MayReadAgain() const {
  return !state_.IsMeasuring() && !state_.queue.searching() && state_.runs.runs().empty() &&
         state_.notes.notes().empty();
}

void MainWindow::TraceGrew() {
  if (MayReadAgain()) return ReadAgain();
  // Runs and notes are of the prompt as it was opened.
  notice_->ShowOffer(tr("More of %1 has been recorded.").arg(QFileInfo(session_.last_trace).fileName()), tr("Show it"),
                     [this] {
                       if (MayDropRuns(tr("Reading the trace again discards them."))) ReadAgain();
                     });
}

void MainWindow::ReadAgain() {
  reading_again_ = true;
  OpenTrace(session_.last_trace);
}

void MainWindow::CaptureReadable(const QString& path) {
  if (path.isEmpty() || path == recording_path_ || !capture_->CanBeShown()) return;
  recording_path_ = path;
  if (!state_.heads.HasTrace()) return OpenPath(path);
  notice_->ShowOffer(tr("The first tokens of %1 are recorded.").arg(QFileInfo(path).fileName()), tr("Show them"),
                     [this, path] { OpenPath(path); });
  readable_offer_ = notice_->newest_offer();
}

}  // namespace headscope::ui
