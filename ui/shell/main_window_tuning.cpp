// SPDX-License-Identifier: Apache-2.0
// What a tuning over many heads has found, beyond its window: it is kept with its trace as it is found, offered when
// the trace is opened again, and gone when it is exported or somebody wants it gone.
#include <QMessageBox>
#include <QPushButton>

#include "main_window.h"
#include "tune_dialog.h"

namespace headscope::ui {

void MainWindow::ConnectTunings() {
  HeadSweep* const sweep = &state_.sweep;
  connect(&tunings_, &TuningKeeper::Failed, notice_, &NoticeBar::ShowError);
  connect(&keeper_, &TraceKeeper::TuningFailed, this, [this](const QString& sentence) {
    notice_->ShowError(tr("What the tuning finds cannot be kept with its trace; export it before the window closes. %1")
                           .arg(sentence));
  });
  connect(sweep, &HeadSweep::Restored, this, [this, sweep] {
    ShowSweepsResults();
    if (sweep->CanResume()) {
      OfferToResume();
    } else {
      OfferToExport();
    }
  });
}

void MainWindow::ShowSweepsResults() {
  if (!state_.heads.IsResultMetric()) state_.heads.SetMetric(ResultMetrics().front().name);
  UpdateCommands();
}

void MainWindow::OfferToResume() {
  const HeadSweep& sweep = state_.sweep;
  notice_->ShowOffer(tr("Stopped after %1 of %2 heads.").arg(sweep.num_done()).arg(sweep.num_chosen()), tr("Resume"),
                     [this] { state_.sweep.Resume(); });
  // Of a sweep that is cleared while it runs nothing can go on.
  connect(
      &state_.sweep, &HeadSweep::Clearing, notice_,
      [this, offer = notice_->newest_offer()] { notice_->WithdrawOffer(offer); }, Qt::SingleShotConnection);
}

void MainWindow::OfferToExport() {
  notice_->ShowOffer(state_.sweep.Summary(), tr("Export…"), [this] { ExportTuning(); });
}

void MainWindow::OfferTuning(const TraceKeeper::Notes& kept) {
  const TuningKeeper::Offer offer = tunings_.FindOffer(kept);
  if (!offer.id.isEmpty()) {
    notice_->ShowOffer(offer.sentence, tr("Take it up"), [this, id = offer.id] {
      if (!MayDropTuning(tr("Taking the other one up discards it."))) return;
      if (const QString error = tunings_.TakeUp(id); !error.isEmpty()) notice_->ShowError(error);
    });
  }
  if (offer.wrong.isEmpty()) return;
  // The bar holds one offer: what can be taken up comes first.
  if (offer.wrong_id.isEmpty()) return notice_->ShowError(offer.wrong);
  if (!offer.id.isEmpty())
    return notice_->ShowError(offer.wrong + tr(" Once the other one is exported or discarded, it can be discarded."));
  notice_->ShowOffer(offer.wrong, tr("Discard it"), [this, id = offer.wrong_id] {
    if (const QString error = tunings_.Discard(id); !error.isEmpty()) notice_->ShowError(error);
  });
}

void MainWindow::OpenTuneDialog() {
  if (tune_ == nullptr) {
    tune_ = new TuneDialog(&state_, workbench_, this);
    connect(tune_, &TuneDialog::CopyWanted, this, &MainWindow::CopyTuneCommand);
    connect(tune_, &TuneDialog::TuneWanted, this, [this](const TuneSettings& settings) {
      if (MayDropTuning(tr("Another tuning discards it."))) state_.sweep.Tune(settings);
    });
  }
  tune_->show();
  tune_->raise();
  tune_->activateWindow();
}

bool MainWindow::MayDropTuning(const QString& consequence) {
  const HeadSweep& sweep = state_.sweep;
  tunings_.SetGoes(false);  // whatever was said to an earlier question
  if (sweep.NumUnsaved() == 0) return true;
  constexpr int kMostWaitMs = 1000;
  tunings_.Write();
  writer_.Finish(kMostWaitMs);  // where a file has it by then, it can stay
  const QString text = sweep.running()
                           ? tr("A tuning is running; what it has found for %1 of %2 heads has not been exported. ")
                           : tr("What the tuning has found for %1 of %2 heads has not been exported. ");
  const QString kept = tunings_.IsKept() ? tr(" Kept, it is offered when this trace is opened again.") : QString();
  QMessageBox box(QMessageBox::Warning, tr("Unsaved tuning"),
                  text.arg(sweep.NumUnsaved()).arg(sweep.num_chosen()) + consequence + kept, QMessageBox::NoButton,
                  this);
  box.setObjectName(QStringLiteral("unsavedTuning"));
  QPushButton* const save = box.addButton(tr("Export…"), QMessageBox::AcceptRole);
  QPushButton* const keep = tunings_.IsKept() ? box.addButton(tr("Keep"), QMessageBox::AcceptRole) : nullptr;
  QPushButton* const discard = box.addButton(tr("Discard"), QMessageBox::DestructiveRole);
  QPushButton* const cancel = box.addButton(QMessageBox::Cancel);
  save->setToolTip(tr("Save the configuration, as Export configuration does"));
  if (keep != nullptr) keep->setToolTip(tr("Leave it with the trace; it can be taken up and goes on where it stopped"));
  box.setDefaultButton(cancel);
  box.exec();
  if (box.clickedButton() == save) return ExportTuning();
  tunings_.SetGoes(box.clickedButton() == discard);
  return box.clickedButton() == discard || (keep != nullptr && box.clickedButton() == keep);
}

}  // namespace headscope::ui
