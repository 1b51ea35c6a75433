// SPDX-License-Identifier: Apache-2.0
// Every head's map at a glance, as a grid of layers and heads. Maps are made as they come into sight; those that the
// filter leaves out are dimmed. A click, or the arrow keys, opens a head.
#pragma once

#include <QAbstractScrollArea>
#include <QImage>
#include <QJsonObject>
#include <QTimer>
#include <map>
#include <optional>
#include <set>

#include "analysis/types/color_map.h"
#include "analysis/types/matrix_layout.h"
#include "analysis/types/value_scale.h"
#include "window_state.h"

namespace headscope::ui {

// A thumbnail as a picture, its log2 p in the palette's colours. Pure.
QImage ThumbnailImage(const Thumbnail& thumbnail, const analysis::Palette& palette, const analysis::ValueRange& range);

class MapsView : public QAbstractScrollArea {
  Q_OBJECT

 public:
  // `state` outlives the view.
  explicit MapsView(WindowState* state, QWidget* parent = nullptr);

  size_t num_made() const { return images_.size(); }
  QJsonObject ViewState() const;  // how large the maps are
  void RestoreViewState(const QJsonObject& state);
  QString WhyNoPicture() const;  // empty: every map that it would draw is there
  // Where a head's map lies, in the viewport's coordinates.
  QRect RectOf(analysis::HeadId head) const;
  std::optional<analysis::HeadId> HeadAt(QPoint at) const;

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void scrollContentsBy(int dx, int dy) override;
  void mousePressEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void wheelEvent(QWheelEvent* event) override;
  void contextMenuEvent(QContextMenuEvent* event) override;
  void showEvent(QShowEvent* event) override;
  void hideEvent(QHideEvent* event) override;
  bool viewportEvent(QEvent* event) override;

 private:
  void Rebuild();
  void LayOut();
  void Resize(double factor);                 // the maps; 0: they fit the pane's width again
  void DrawNumbers(QPainter* painter) const;  // of heads and layers, which stay in sight
  void PlaceMaps();                           // where they are scrolled to
  void AskForNext();                          // one at a time: what is asked for is what is in sight

  WindowState* const state_;
  analysis::MatrixLayout layout_;
  double side_ = 0;         // of a map
  double fitted_side_ = 0;  // what fits the pane's width
  double chosen_side_ = 0;  // 0: that one
  std::map<analysis::HeadId, QImage> images_;
  std::optional<analysis::HeadId> asked_;
  std::set<analysis::HeadId> refused_;
  QTimer ask_timer_;
};

}  // namespace headscope::ui
