// SPDX-License-Identifier: Apache-2.0
// The dialog that asks where to write a file that may be of several kinds.
#pragma once

#include <QString>
#include <QStringList>
#include <QWidget>

namespace headscope::ui {

// Where to write; empty when the user thought better of it. A name without a suffix gets one before the dialog asks
// whether an existing file may be replaced. `kinds`: kinds of file, "Title (*.suffix)", of which the one at *kind is
// chosen at first; the user's choice comes back there.
QString AskWhereToWrite(QWidget* parent, const QString& title, const QString& name, const QStringList& kinds,
                        const QString& suffix, qsizetype* kind);

}  // namespace headscope::ui
