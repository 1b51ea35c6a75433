// SPDX-License-Identifier: Apache-2.0
// A pane as an extension adds it: the method on trial in words, with what its mask keeps of the head on show.
#include <QLabel>

#include "panes.h"

namespace headscope::ui {

QWidget* MakeTrialPane(WindowState* state) {
  auto* label = new QLabel;
  label->setObjectName(QStringLiteral("trialLabel"));
  label->setTextFormat(Qt::PlainText);
  const auto show = [label, trial = &state->trial] {
    if (trial->method() == nullptr) return;
    QString text = QStringLiteral("%1: %2").arg(QString::fromStdString(trial->method()->title),
                                                QString::fromStdString(trial->values().ToString(*trial->method())));
    if (trial->mask())
      text += QStringLiteral("\nkeeps %1 % of the pairs").arg(100 * trial->mask()->summary.kept_fraction, 0, 'f', 2);
    label->setText(text);
  };
  QObject::connect(&state->trial, &MethodTrial::Changed, label, show);
  show();
  return label;
}

}  // namespace headscope::ui
