// SPDX-License-Identifier: Apache-2.0
// A table of the window as text for a picture: what it shows, in its order.
#pragma once

#include <QTableView>

#include "ui/workbench.h"

namespace headscope::ui {

TableDrawing DrawingOf(const QTableView& view, const QString& title);

}  // namespace headscope::ui
