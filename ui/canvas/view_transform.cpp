// SPDX-License-Identifier: Apache-2.0
#include "view_transform.h"

#include <algorithm>
#include <cmath>

#include "analysis/types/round_ticks.h"

namespace headscope::ui {

namespace {

// The centre along one axis such that the map's edge does not leave the viewport's edge. A map smaller than the
// viewport begins where the viewport does: beside its axes, and off the panel at the far side.
double ClampedCenter(double center, double map_size, double view_size) {
  if (map_size <= view_size) return view_size / 2;
  return std::clamp(center, view_size / 2, map_size - view_size / 2);
}

}  // namespace

void ViewTransform::SetMap(int64_t num_rows, int64_t num_columns) {
  num_rows_ = std::max<int64_t>(num_rows, 0);
  num_columns_ = std::max<int64_t>(num_columns, 0);
  extent_rows_ = num_rows_;
  extent_columns_ = num_columns_;
  Fit();
}

void ViewTransform::SetExtent(int64_t num_rows, int64_t num_columns) {
  extent_rows_ = num_rows > 0 ? num_rows : num_rows_;
  extent_columns_ = num_columns > 0 ? num_columns : num_columns_;
  Clamp();
}

void ViewTransform::SetViewport(const PixelRect& viewport) {
  if (viewport == viewport_) return;
  const bool showed_everything = empty() || ShowsEverything();
  viewport_ = viewport;
  if (showed_everything) {
    Fit();
  } else {
    Clamp();
  }
}

double ViewTransform::ColumnToX(double column) const {
  return viewport_.x + viewport_.width / 2 + (column - center_column_) / scores_per_pixel_;
}
double ViewTransform::RowToY(double row) const {
  return viewport_.y + viewport_.height / 2 + (row - center_row_) / scores_per_pixel_;
}
double ViewTransform::XToColumn(double x) const {
  return center_column_ + (x - viewport_.x - viewport_.width / 2) * scores_per_pixel_;
}
double ViewTransform::YToRow(double y) const {
  return center_row_ + (y - viewport_.y - viewport_.height / 2) * scores_per_pixel_;
}

bool ViewTransform::ScoreAt(double x, double y, int64_t* row, int64_t* column) const {
  if (empty() || !viewport_.Contains(x, y)) return false;
  const double exact_row = std::floor(YToRow(y));
  const double exact_column = std::floor(XToColumn(x));
  if (exact_row < 0 || exact_column < 0) return false;
  if (exact_row >= static_cast<double>(num_rows_) || exact_column >= static_cast<double>(num_columns_)) return false;
  *row = static_cast<int64_t>(exact_row);
  *column = static_cast<int64_t>(exact_column);
  return true;
}

ScoreRect ViewTransform::Visible() const {
  if (empty()) return {};
  const auto rows = static_cast<double>(num_rows_);
  const auto columns = static_cast<double>(num_columns_);
  ScoreRect visible;
  visible.row_begin = std::clamp(YToRow(viewport_.y), 0.0, rows);
  visible.row_end = std::clamp(YToRow(viewport_.bottom()), 0.0, rows);
  visible.column_begin = std::clamp(XToColumn(viewport_.x), 0.0, columns);
  visible.column_end = std::clamp(XToColumn(viewport_.right()), 0.0, columns);
  return visible;
}

double ViewTransform::Aspect() const {
  if (extent_rows_ == 0 || extent_columns_ == 0) return 1;
  return static_cast<double>(extent_columns_) / static_cast<double>(extent_rows_);
}

double ViewTransform::FitScale() const {
  return std::max(static_cast<double>(extent_columns_) / viewport_.width,
                  static_cast<double>(extent_rows_) / viewport_.height);
}

bool ViewTransform::ShowsEverything() const {
  return empty() || scores_per_pixel_ >= std::max(FitScale(), 1 / kMaxPixelsPerScore) * (1 - 1e-9);
}

void ViewTransform::Fit() {
  if (empty()) return;
  CenterOn(static_cast<double>(extent_rows_) / 2, static_cast<double>(extent_columns_) / 2, FitScale());
}

void ViewTransform::ZoomAbout(double x, double y, double factor) {
  if (empty() || !(factor > 0) || !std::isfinite(factor)) return;
  const double row = YToRow(y);
  const double column = XToColumn(x);
  const double closest = 1 / kMaxPixelsPerScore;
  scores_per_pixel_ = std::clamp(scores_per_pixel_ / factor, closest, std::max(FitScale(), closest));
  center_row_ += row - YToRow(y);
  center_column_ += column - XToColumn(x);
  Clamp();
}

void ViewTransform::Pan(double dx, double dy) {
  if (empty()) return;
  center_column_ -= dx * scores_per_pixel_;
  center_row_ -= dy * scores_per_pixel_;
  Clamp();
}

void ViewTransform::CenterOn(double row, double column, double scores_per_pixel) {
  if (!std::isfinite(row) || !std::isfinite(column) || !std::isfinite(scores_per_pixel)) return;
  center_row_ = row;
  center_column_ = column;
  scores_per_pixel_ = scores_per_pixel;
  Clamp();
}

void ViewTransform::ZoomTo(const ScoreRect& rect) {
  const double rows = rect.row_end - rect.row_begin;
  const double columns = rect.column_end - rect.column_begin;
  if (empty() || !(rows > 0) || !(columns > 0)) return;
  CenterOn((rect.row_begin + rect.row_end) / 2, (rect.column_begin + rect.column_end) / 2,
           std::max(columns / viewport_.width, rows / viewport_.height));
}

void ViewTransform::Clamp() {
  if (empty()) return;
  const double closest = 1 / kMaxPixelsPerScore;
  scores_per_pixel_ = std::clamp(scores_per_pixel_, closest, std::max(FitScale(), closest));
  center_row_ = ClampedCenter(center_row_, static_cast<double>(extent_rows_), viewport_.height * scores_per_pixel_);
  center_column_ =
      ClampedCenter(center_column_, static_cast<double>(extent_columns_), viewport_.width * scores_per_pixel_);
}

int32_t ViewTransform::Level(double device_pixel_ratio) const {
  if (empty()) return 0;
  return analysis::LevelForZoom(scores_per_pixel_ / device_pixel_ratio, num_rows_, num_columns_);
}

TileRange ViewTransform::TilesOf(int32_t level) const {
  TileRange tiles;
  tiles.level = level;
  if (empty()) return tiles;
  const double tile_scores = std::ldexp(static_cast<double>(analysis::kTileSize), level);
  const ScoreRect visible = Visible();
  tiles.x_begin = static_cast<int32_t>(std::floor(visible.column_begin / tile_scores));
  tiles.x_end = static_cast<int32_t>(std::ceil(visible.column_end / tile_scores));
  tiles.y_begin = static_cast<int32_t>(std::floor(visible.row_begin / tile_scores));
  tiles.y_end = static_cast<int32_t>(std::ceil(visible.row_end / tile_scores));
  return tiles;
}

std::vector<int64_t> AxisTicks(double begin, double end, double pixels_per_score, double min_pixels) {
  std::vector<int64_t> ticks;
  if (!(end > begin) || !(pixels_per_score > 0) || !(min_pixels > 0)) return ticks;
  const double step = analysis::RoundStep(std::max(1.0, min_pixels / pixels_per_score));
  for (const double token : analysis::Multiples(step, begin, end)) {
    if (token < end) ticks.push_back(std::llround(token));
  }
  return ticks;
}

}  // namespace headscope::ui
