// SPDX-License-Identifier: Apache-2.0
// Where scores lie on the screen: the map from (row, column) of a head to logical pixels of the canvas, and back. Plain
// arithmetic in double, which is exact for every token position, so that a score stays under the cursor while the view
// zooms by any factor. No Qt, no ImGui, no OpenGL.
//
// Coordinates: a score (row, column) is the unit square [column, column + 1) x [row, row + 1); rows grow downwards. One
// scale serves both axes, as a texel of a tile stands for a square of scores.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/types/tile.h"

namespace headscope::ui {

// Logical pixels; x and y of the upper left corner.
struct PixelRect {
  double x = 0, y = 0, width = 0, height = 0;
  double right() const { return x + width; }
  double bottom() const { return y + height; }
  bool Contains(double px, double py) const { return px >= x && px < right() && py >= y && py < bottom(); }
  friend bool operator==(const PixelRect&, const PixelRect&) = default;
};

// Half open, in scores.
struct ScoreRect {
  double row_begin = 0, row_end = 0, column_begin = 0, column_end = 0;
  friend bool operator==(const ScoreRect&, const ScoreRect&) = default;
};

// Tile coordinates, half open.
struct TileRange {
  int32_t level = 0;
  int32_t x_begin = 0, x_end = 0, y_begin = 0, y_end = 0;
  friend bool operator==(const TileRange&, const TileRange&) = default;
};

class ViewTransform {
 public:
  // Logical pixels that one score takes at the closest zoom: enough for its value in digits.
  static constexpr double kMaxPixelsPerScore = 96;

  // A map of [num_rows, num_columns] scores, seen whole. Negative sizes count as 0.
  void SetMap(int64_t num_rows, int64_t num_columns);
  // Fits and moves as a map of [num_rows, num_columns] scores would, so that a map of another size shows what that one
  // does; 0, 0: as its own size has it. SetMap ends it.
  void SetExtent(int64_t num_rows, int64_t num_columns);
  // The part of the canvas that the map is drawn in. Keeps the score at the centre and the scale; a view that showed
  // everything goes on doing so.
  void SetViewport(const PixelRect& viewport);

  int64_t num_rows() const { return num_rows_; }
  int64_t num_columns() const { return num_columns_; }
  const PixelRect& viewport() const { return viewport_; }
  // Columns by rows of what is fitted; 1 without any.
  double Aspect() const;
  bool empty() const { return num_rows_ == 0 || num_columns_ == 0 || viewport_.width <= 0 || viewport_.height <= 0; }

  double scores_per_pixel() const { return scores_per_pixel_; }
  double pixels_per_score() const { return 1 / scores_per_pixel_; }
  double center_row() const { return center_row_; }
  double center_column() const { return center_column_; }

  double ColumnToX(double column) const;
  double RowToY(double row) const;
  double XToColumn(double x) const;
  double YToRow(double y) const;
  // The score under a pixel; false outside the viewport or the map.
  bool ScoreAt(double x, double y, int64_t* row, int64_t* column) const;

  // What of the map is in the viewport, clipped to the map.
  ScoreRect Visible() const;
  bool ShowsEverything() const;

  void Fit();
  // factor > 1 zooms in. The score under (x, y) stays under it unless the map's edge forbids it.
  void ZoomAbout(double x, double y, double factor);
  // Moves the content by this many pixels: positive dx moves it to the right.
  void Pan(double dx, double dy);
  // Centres a score and sets the scale; both are clamped.
  void CenterOn(double row, double column, double scores_per_pixel);
  // As large as the rectangle fits the viewport; an empty one changes nothing.
  void ZoomTo(const ScoreRect& rect);

  // The level whose texels are the finest that still are at least one device pixel wide.
  int32_t Level(double device_pixel_ratio) const;
  // The tiles of a level that Visible() touches.
  TileRange TilesOf(int32_t level) const;

  friend bool operator==(const ViewTransform&, const ViewTransform&) = default;

 private:
  double FitScale() const;
  void Clamp();

  int64_t num_rows_ = 0, num_columns_ = 0;
  int64_t extent_rows_ = 0, extent_columns_ = 0;
  PixelRect viewport_;
  double scores_per_pixel_ = 1;
  double center_row_ = 0, center_column_ = 0;
};

// Token numbers to write along an axis: 1, 2 or 5 times a power of ten apart, at least `min_pixels` from each other.
// Whole tokens only, so never closer than one. Empty when the range is.
std::vector<int64_t> AxisTicks(double begin, double end, double pixels_per_score, double min_pixels);

}  // namespace headscope::ui
