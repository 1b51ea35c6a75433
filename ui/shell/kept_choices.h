// SPDX-License-Identifier: Apache-2.0
// Boxes of a pane in which a person sets how it shows what it shows: the session keeps what is chosen there, and undo
// takes it back.
#pragma once

#include <QList>
#include <QString>
#include <QWidget>

namespace headscope::ui {

class PaneOffers;

// `boxes`: combo boxes and check boxes that live as long as the pane, by their object names. `name`: the pane's in the
// session.
void KeepChoices(PaneOffers* offers, QWidget* pane, const QString& name, const QList<QWidget*>& boxes);

}  // namespace headscope::ui
