// SPDX-License-Identifier: Apache-2.0
// What can be done with a score, and with a map, where they stand: the menu of the maps.
#include <QMenu>

#include "main_window.h"
#include "panes.h"

namespace headscope::ui {

void MainWindow::ShowMapMenu(HeadCanvas* map, QPoint global, int64_t row, int64_t column) {
  auto* menu = new QMenu(this);
  menu->setObjectName(QStringLiteral("mapMenu"));
  menu->setAttribute(Qt::WA_DeleteOnClose);
  const auto add = [menu, map](const char* name, const QString& text, std::function<void()> run) {
    QAction* const action = menu->addAction(text);
    action->setObjectName(QLatin1String(name));
    connect(action, &QAction::triggered, map, std::move(run));  // which may go while the menu is open
    return action;
  };
  const std::vector<int32_t>& positions = map->trace().row_positions;
  if (row >= 0 && row < std::ssize(positions)) {
    const auto query = QString::number(positions[static_cast<size_t>(row)]), key = QString::number(column);
    add("markScore", tr("Mark query %1, key %2").arg(query, key), [map, row, column] { map->MarkScore(row, column); });
    add("zoomToScore", tr("Zoom in to query %1, key %2").arg(query, key),
        [map, row, column] { map->GoTo(row, column); });
    if (IsOfOpenTrace(map)) {
      add("scoreInText", tr("Show query %1 in Text").arg(query), [this, row] {
        ActionNamed(GoToPaneName(&MakeTextPane))->trigger();
        state_.focus.Choose(row);
      });
    }
    const QString text = map->ScoreText(row, column);
    add("copyScore", tr("Copy query, key and probability"), [this, text] {
      CopyText(text);
    })->setEnabled(!text.isEmpty());
    menu->addSeparator();
  }
  menu->addAction(commands_[Command::kFit]);
  if (map == canvas_) {
    for (const Command command : {Command::kBookmark, Command::kOverlay, Command::kLost})
      menu->addAction(commands_[command]);
    menu->addSeparator();
    for (const Command command : {Command::kCopyMap, Command::kCopyViewCommand, Command::kExportCanvas})
      menu->addAction(commands_[command]);
  } else {
    menu->addAction(commands_[Command::kExchangeMaps]);
  }
  menu->popup(global);
}

bool MainWindow::IsOfOpenTrace(const HeadCanvas* map) const {
  return map->trace().path == state_.heads.trace().path;
}

}  // namespace headscope::ui
