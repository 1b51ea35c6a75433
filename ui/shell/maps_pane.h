// SPDX-License-Identifier: Apache-2.0
// Every head's map at a glance, as a grid of layers and heads. Maps are made as they come into sight; those that the
// filter leaves out are dimmed. A click, or the arrow keys, opens a head.
#pragma once

#include <QAbstractScrollArea>
#include <QImage>
#include <QTimer>
#include <map>
#include <set>

#include "window_state.h"

namespace headscope::ui {

// A thumbnail as a picture in a palette, between the least and the greatest log2 p that stand for its ends. Pure.
QImage ThumbnailImage(const Thumbnail& thumbnail, const analysis::ColorMap& colors, float least_log2);

class MapsView : public QAbstractScrollArea {
  Q_OBJECT

 public:
  // `state` outlives the view.
  explicit MapsView(WindowState* state, QWidget* parent = nullptr);

  size_t num_made() const { return images_.size(); }
  // Where a head's map lies, in the viewport's coordinates.
  QRect RectOf(analysis::HeadId head) const;
  std::optional<analysis::HeadId> HeadAt(QPoint at) const;

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void scrollContentsBy(int dx, int dy) override;
  void mousePressEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void showEvent(QShowEvent* event) override;
  void hideEvent(QHideEvent* event) override;
  bool viewportEvent(QEvent* event) override;

 private:
  void Rebuild();
  void LayOut();
  void AskForNext();  // one at a time: what is asked for is what is in sight
  int side() const;
  QPoint OriginOf(size_t index) const;

  WindowState* const state_;
  std::vector<int32_t> layers_;
  int columns_ = 0;
  std::map<analysis::HeadId, QImage> images_;
  std::optional<analysis::HeadId> asked_;
  std::set<analysis::HeadId> refused_;
  QTimer ask_timer_, patience_;
};

}  // namespace headscope::ui
