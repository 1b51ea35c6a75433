// File > Capture: which model, which prompt, what to record, where to; then progress and cancel. Non-modal: the window
// stays usable, and a capture goes on when the dialog is closed.
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

#include "ui/workbench.h"

namespace headscope::ui {

class CaptureDialog : public QDialog {
  Q_OBJECT

 public:
  explicit CaptureDialog(Workbench* workbench, QWidget* parent = nullptr);

  void SetModelDir(const QString& model_dir);
  CaptureSettings Settings() const;
  bool IsCapturing() const { return capturing_; }

 Q_SIGNALS:
  void TraceCaptured(const QString& path);

 private:
  enum Prompt { kText, kFile, kTask };
  void BuildForm();
  QWidget* BuildPromptRow();
  void DescribeModel();
  void Refresh();  // estimate, and what may be pressed
  int64_t PromptTokens(bool* exact) const;
  QString Problem() const;  // what is missing, one sentence; empty when the capture can start
  void Start();
  void Stop();
  void Finish(const QString& sentence, bool error);

  Workbench* const workbench_;
  std::optional<ModelDescription> model_;
  QString asked_dir_;  // the folder that was asked for last
  QTimer typing_;      // since the last letter of the model folder
  bool capturing_ = false, stopping_ = false;

  QLineEdit *model_dir_, *prompt_file_, *layers_, *heads_, *rows_, *output_;
  QComboBox *prompt_kind_, *task_, *dtype_, *device_;
  QPlainTextEdit* text_;
  QSpinBox *length_, *decode_;
  QWidget* form_;
  QLabel *model_label_, *estimate_, *status_, *problem_;
  QProgressBar* progress_;
  QPushButton *start_, *stop_, *close_;
};

}  // namespace headscope::ui
