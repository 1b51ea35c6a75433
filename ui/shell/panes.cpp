// SPDX-License-Identifier: Apache-2.0
#include "panes.h"

#include <algorithm>

namespace headscope::ui {

namespace {

// The first metric's column is whole where the map keeps most of the window with it.
constexpr int kMostLeft = 450, kLeftPercent = 36, kBottomHeight = 200;

constexpr PaneSpec kPanes[] = {
#define HEADSCOPE_PANE(make, name, title, place, pixels) {&make, name, title, PaneSpec::place, pixels},
#include "pane_list.h"
#undef HEADSCOPE_PANE
};

// The docks of the column on the left, or of the row at the bottom, without those behind another.
struct Line {
  QList<QDockWidget*> docks;
  QList<int> pixels;
};
Line LineOf(const QList<QDockWidget*>& docks, PaneSpec::Place begins, PaneSpec::Place goes_on) {
  Line line;
  for (qsizetype i = 0; i < docks.size(); ++i) {
    const PaneSpec& pane = kPanes[i];
    if (pane.place != begins && pane.place != goes_on) continue;
    line.docks.append(docks[i]);
    line.pixels.append(pane.pixels);
  }
  return line;
}

// The first pane of the place that a tab lies behind.
qsizetype InFrontOf(PaneSpec::Place behind) {
  const int place = behind - PaneSpec::kBehindLeft + PaneSpec::kLeft;
  const auto* const found =
      std::find_if(std::begin(kPanes), std::end(kPanes), [&](const PaneSpec& pane) { return pane.place == place; });
  return found - std::begin(kPanes);
}

QString GoTo(const QString& dock) {
  return QStringLiteral("go-") + dock;
}

}  // namespace

QString GoToPaneName(PaneMaker make) {
  const auto* const pane = std::ranges::find(kPanes, make, &PaneSpec::make);
  return pane == std::end(kPanes) ? QString() : GoTo(QLatin1String(pane->name));
}

QString GoToDockName(const QDockWidget& dock) {
  return GoTo(dock.objectName());
}

QList<QDockWidget*> MakePanes(QMainWindow* window, WindowState* state) {
  QList<QDockWidget*> docks;
  for (const PaneSpec& pane : kPanes) {
    auto* dock = new QDockWidget(QObject::tr(pane.title), window);
    dock->setObjectName(QLatin1String(pane.name));
    dock->setWidget(pane.make(state));
    docks.append(dock);
  }
  return docks;
}

void PlacePanes(QMainWindow* window, const QList<QDockWidget*>& docks) {
  for (QDockWidget* dock : docks) {
    dock->setFloating(false);
    window->removeDockWidget(dock);
  }
  window->setCorner(Qt::BottomLeftCorner, Qt::LeftDockWidgetArea);
  for (qsizetype i = 0; i < docks.size(); ++i) {
    QDockWidget *dock = docks[i], *before = docks[std::max<qsizetype>(i - 1, 0)];
    switch (kPanes[i].place) {
      case PaneSpec::kLeft:
        window->addDockWidget(Qt::LeftDockWidgetArea, dock);
        break;
      case PaneSpec::kBelow:
        window->splitDockWidget(before, dock, Qt::Vertical);
        break;
      case PaneSpec::kBottom:
        window->addDockWidget(Qt::BottomDockWidgetArea, dock);
        break;
      case PaneSpec::kBeside:
        window->splitDockWidget(before, dock, Qt::Horizontal);
        break;
      default:
        window->tabifyDockWidget(docks[InFrontOf(kPanes[i].place)], dock);
        break;
    }
  }
  for (QDockWidget* dock : docks) dock->show();
  for (qsizetype i = 0; i < docks.size(); ++i) {
    if (kPanes[i].place < PaneSpec::kBehindLeft) docks[i]->raise();
  }
  SizePanes(window, docks);
}

void SizePanes(QMainWindow* window, const QList<QDockWidget*>& docks) {
  const Line left = LineOf(docks, PaneSpec::kLeft, PaneSpec::kBelow);
  const Line bottom = LineOf(docks, PaneSpec::kBottom, PaneSpec::kBeside);
  window->resizeDocks(left.docks, left.pixels, Qt::Vertical);
  window->resizeDocks({left.docks.first()}, {std::min(kMostLeft, window->width() * kLeftPercent / 100)},
                      Qt::Horizontal);
  window->resizeDocks({bottom.docks.first()}, {kBottomHeight}, Qt::Vertical);
  window->resizeDocks(bottom.docks, bottom.pixels, Qt::Horizontal);
}

}  // namespace headscope::ui
