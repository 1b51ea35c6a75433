// SPDX-License-Identifier: Apache-2.0
// Controls that say why they are disabled.
#pragma once

#include <QAction>
#include <QString>
#include <QWidget>

namespace headscope::ui {

// Where it is not allowed, its tooltip says why, and an action's line in the status bar as well.
void Allow(QAction* action, bool allowed, const QString& why_not);
QString WhyNotAllowed(const QAction& action);  // empty: it is allowed, or nobody said why not
void Allow(QWidget* control, bool allowed, const QString& why_not);

}  // namespace headscope::ui
