// SPDX-License-Identifier: Apache-2.0
#include "save_dialog.h"

#include <QFileDialog>
#include <QFileInfo>
#include <QRegularExpression>
#include <algorithm>

namespace headscope::ui {

QString AskWhereToWrite(QWidget* parent, const QString& title, const QString& name, const QStringList& kinds,
                        const QString& suffix, qsizetype* kind) {
  QFileDialog dialog(parent, title);
  dialog.setNameFilters(kinds);
  dialog.selectNameFilter(kinds.at(*kind));
  dialog.setAcceptMode(QFileDialog::AcceptSave);
  dialog.setDefaultSuffix(suffix);
  // The name follows the kind, so that what is chosen is what is written.
  static const QRegularExpression pattern(QStringLiteral("\\(\\*\\.(\\w+)\\)$"));
  QObject::connect(&dialog, &QFileDialog::filterSelected, &dialog, [&dialog](const QString& chosen) {
    const QRegularExpressionMatch match = pattern.match(chosen);
    if (!match.hasMatch()) return;
    dialog.setDefaultSuffix(match.captured(1));
    const QStringList files = dialog.selectedFiles();
    if (files.isEmpty()) return;
    const QFileInfo file(files.constFirst());
    if (!file.isDir()) dialog.selectFile(file.completeBaseName() + u'.' + match.captured(1));
  });
  dialog.selectFile(name);
  if (dialog.exec() != QDialog::Accepted) return {};
  *kind = std::max<qsizetype>(0, kinds.indexOf(dialog.selectedNameFilter()));
  return dialog.selectedFiles().constFirst();
}

}  // namespace headscope::ui
