// SPDX-License-Identifier: Apache-2.0
// File > Capture: which model, which prompt, what to record, where to; then progress and cancel. Non-modal: the window
// stays usable, and a capture goes on when the dialog is closed; its signals let the window show it then.
#pragma once

#include <QCheckBox>
#include <QComboBox>
#include <QDialog>
#include <QLabel>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QProgressBar>
#include <QPushButton>
#include <QSpinBox>
#include <QTimer>
#include <optional>

#include "base/device.h"
#include "ui/workbench.h"

namespace headscope::ui {

class CaptureDialog : public QDialog {
  Q_OBJECT

 public:
  explicit CaptureDialog(Workbench* workbench, QWidget* parent = nullptr);

  void SetModelDir(const QString& model_dir);
  CaptureSettings Settings() const;
  bool IsCapturing() const { return capturing_; }
  // Whether the window can open what was captured last (ModelDescription::why_not_shown).
  bool CanBeShown() const { return can_be_shown_; }
  // What was recorded so far is kept.
  void Stop();
  // The file that the window shows, so that replacing it is asked about by that name; empty: none.
  void SetTraceOnShow(const QString& path) { trace_on_show_ = path; }

 Q_SIGNALS:
  void Began();
  void Progressed(const headscope::ui::ProgressReport& report);
  void Captured(const headscope::ui::CapturedTrace& trace);
  void Failed(const QString& sentence);
  void CopyWanted(const headscope::ui::CaptureSettings& settings);  // the command line that captures likewise
  void OpenRequested(const QString& path);                          // a captured trace, by the dialog's own button

 private:
  enum Prompt { kText, kFile, kTask, kIds };
  enum HeadsKind { kQueryHeads, kKvHeads };
  void BuildForm();
  QWidget* BuildPromptRow();
  void DescribeModel();
  void Refresh();       // a setting has changed
  void ShowEstimate();  // and what may be pressed
  int64_t PromptTokens(bool* exact) const;
  void AskForEstimate();
  QString EstimateText() const;
  QString Problem() const;  // what is missing, one sentence; empty when the capture can start
  bool AskToReplace();      // the file that is where the trace shall go
  void Start();
  void Finish(const QString& sentence, bool error);

  Workbench* const workbench_;
  const std::vector<Device> devices_;  // as they are listed
  const std::vector<Recordable> recordable_;
  std::optional<ModelDescription> model_;
  std::optional<CaptureEstimate> measured_;  // of the present settings; empty: not there yet
  QString refused_;                          // why there is none
  QTimer estimate_delay_;                    // since the last change
  int64_t estimate_number_ = 0;              // of the newest request
  QString asked_dir_;                        // the folder that was asked for last
  QTimer typing_;                            // since the last letter of the model folder
  QString trace_on_show_;
  QString captured_path_;  // of the last capture; empty: none yet, or it failed
  bool capturing_ = false, stopping_ = false;
  bool can_be_shown_ = true;

  QLineEdit *model_dir_, *prompt_file_, *ids_, *layers_, *heads_, *rows_, *output_;
  QComboBox *prompt_kind_, *task_, *dtype_, *device_, *heads_kind_;
  QPlainTextEdit* text_;
  QList<QCheckBox*> record_;  // in the order of recordable_
  QSpinBox *length_, *decode_, *files_;
  QWidget* form_;
  QLabel *model_label_, *estimate_, *status_, *problem_;
  QProgressBar* progress_;
  QPushButton *start_, *stop_, *open_, *close_, *copy_;
};

// "12,288 tokens, 37.4 MiB": what a captured trace holds and how large its file is.
QString DescribeSize(const CapturedTrace& trace);

}  // namespace headscope::ui
