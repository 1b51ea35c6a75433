// SPDX-License-Identifier: Apache-2.0
#include "pane_shares.h"

#include <QEvent>
#include <QTabBar>
#include <cmath>

namespace headscope::ui {
namespace {

constexpr int kSettleMs = 150, kRestMs = 350;

// Neither behind another tab, nor hidden, nor a window of its own.
bool IsInLayout(const QDockWidget* dock) {
  return dock->isVisible() && !dock->isFloating() && !dock->visibleRegion().isEmpty();
}

// Of the bar of tabs below a dock that has others behind it. QMainWindow::resizeDocks counts it to the dock, and
// QWidget::height does not.
int TabBarHeight(const QMainWindow* window, const QDockWidget* dock) {
  for (const QTabBar* bar : window->findChildren<QTabBar*>(QString(), Qt::FindDirectChildrenOnly)) {
    const QRect above = bar->geometry().translated(0, -bar->height());
    if (bar->isVisible() && above.intersects(dock->geometry())) return bar->height();
  }
  return 0;
}

}  // namespace

PaneShares::PaneShares(QMainWindow* window, const QList<QDockWidget*>& docks)
    : QObject(window), window_(window), docks_(docks) {
  settle_.setSingleShot(true);
  settle_.setInterval(kSettleMs);
  connect(&settle_, &QTimer::timeout, this, &PaneShares::Apply);
  rest_.setSingleShot(true);
  rest_.setInterval(kRestMs);
  connect(&rest_, &QTimer::timeout, this, [this] { at_rest_ = window_->size(); });
  for (QDockWidget* dock : docks) dock->installEventFilter(this);
}

void PaneShares::Remember() {
  const QSizeF whole = at_rest_ = window_->size();
  for (QDockWidget* dock : docks_) {
    if (IsInLayout(dock)) shares_[dock] = {dock->width() / whole.width(), dock->height() / whole.height()};
  }
}

void PaneShares::WindowResized() {
  if (shares_.empty()) return;
  Apply();
  settle_.start();
  rest_.start();
}

void PaneShares::Apply() {
  // Side by side in one call they would share out what one of them lacks.
  struct Wanted {
    QList<QDockWidget*> docks;
    QList<int> widths, heights;
  };
  std::map<Qt::DockWidgetArea, Wanted> areas;
  for (const auto& [dock, share] : shares_) {
    if (!IsInLayout(dock)) continue;
    Wanted& wanted = areas[window_->dockWidgetArea(dock)];
    wanted.docks.append(dock);
    wanted.widths.append(static_cast<int>(std::lround(share.width() * window_->width())));
    wanted.heights.append(static_cast<int>(std::lround(share.height() * window_->height())) +
                          TabBarHeight(window_, dock));
  }
  for (const auto& [area, wanted] : areas) {
    window_->resizeDocks(wanted.docks, wanted.widths, Qt::Horizontal);
    window_->resizeDocks(wanted.docks, wanted.heights, Qt::Vertical);
  }
}

bool PaneShares::eventFilter(QObject* watched, QEvent* event) {
  // Outside of a resize of the window, which comes to its panes first, it is a splitter that was moved.
  if (event->type() == QEvent::Resize && !shares_.empty() && !rest_.isActive() && window_->size() == at_rest_) {
    auto* dock = static_cast<QDockWidget*>(watched);
    if (IsInLayout(dock))
      shares_[dock] = {dock->width() / static_cast<double>(window_->width()),
                       dock->height() / static_cast<double>(window_->height())};
  }
  return QObject::eventFilter(watched, event);
}

}  // namespace headscope::ui
