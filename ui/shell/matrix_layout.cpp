// SPDX-License-Identifier: Apache-2.0
#include "matrix_layout.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace headscope::ui {
namespace {

int IndexOf(const std::vector<int32_t>& sorted, int32_t value) {
  const auto at = std::lower_bound(sorted.begin(), sorted.end(), value);
  return at != sorted.end() && *at == value ? static_cast<int>(at - sorted.begin()) : -1;
}

}  // namespace

MatrixLayout::MatrixLayout(const TraceSummary& trace) {
  std::map<int32_t, int32_t> kv_head_of;
  for (size_t i = 0; i < trace.heads.size(); ++i) {
    layers_.push_back(trace.heads[i].layer);
    kv_head_of[trace.heads[i].head] = trace.kv_head_of_head[i];
  }
  std::sort(layers_.begin(), layers_.end());
  layers_.erase(std::unique(layers_.begin(), layers_.end()), layers_.end());
  for (const auto& [head, kv_head] : kv_head_of) {
    const int column = num_columns();
    if (groups_.empty() || groups_.back().kv_head != kv_head) groups_.push_back({kv_head, column, column});
    groups_.back().last = column;
    group_of_column_.push_back(static_cast<int>(groups_.size()) - 1);
    heads_.push_back(head);
  }
  recorded_.assign(layers_.size() * heads_.size(), 0);
  for (const analysis::HeadId& head : trace.heads) {
    const auto cell = static_cast<size_t>(IndexOf(layers_, head.layer)) * heads_.size() +
                      static_cast<size_t>(IndexOf(heads_, head.head));
    recorded_[cell] = 1;
  }
}

QSizeF MatrixLayout::MinimumArea() const {
  if (layers_.empty()) return {};
  const double gaps = num_columns() * kGap + static_cast<double>(groups_.size() - 1) * kGroupGap;
  return {num_columns() * kLeast + gaps, num_rows() * (kLeast + kGap)};
}

void MatrixLayout::Fit(const QRectF& area) {
  origin_ = area.topLeft();
  if (layers_.empty()) return;
  const double gaps = num_columns() * kGap + static_cast<double>(groups_.size() - 1) * kGroupGap;
  // Whole pixels, so that cells are equally wide and their edges sharp.
  cell_width_ = std::clamp(std::floor((area.width() - gaps) / num_columns()), kLeast, kMostWide);
  cell_height_ = std::clamp(std::floor(area.height() / num_rows() - kGap), kLeast, kMostHigh);
}

double MatrixLayout::ColumnX(int column) const {
  return origin_.x() + column * (cell_width_ + kGap) + group_of_column_[static_cast<size_t>(column)] * kGroupGap;
}

QRectF MatrixLayout::CellRect(Cell cell) const {
  return {ColumnX(cell.column), origin_.y() + cell.row * (cell_height_ + kGap), cell_width_, cell_height_};
}

std::optional<MatrixLayout::Cell> MatrixLayout::CellAt(QPointF point) const {
  if (layers_.empty() || !Bounds().contains(point)) return std::nullopt;
  const int row = std::min(num_rows() - 1, static_cast<int>((point.y() - origin_.y()) / (cell_height_ + kGap)));
  for (int column = 0; column < num_columns(); ++column) {
    if (CellRect({row, column}).contains(point)) return Cell{row, column};
  }
  return std::nullopt;
}

QRectF MatrixLayout::Bounds() const {
  if (layers_.empty()) return {};
  return CellRect({0, 0}).united(CellRect({num_rows() - 1, num_columns() - 1}));
}

std::optional<analysis::HeadId> MatrixLayout::HeadOf(Cell cell) const {
  if (cell.row < 0 || cell.row >= num_rows() || cell.column < 0 || cell.column >= num_columns()) return std::nullopt;
  const auto row = static_cast<size_t>(cell.row), column = static_cast<size_t>(cell.column);
  if (!recorded_[row * heads_.size() + column]) return std::nullopt;
  return analysis::HeadId{layers_[row], heads_[column]};
}

std::optional<MatrixLayout::Cell> MatrixLayout::CellOf(analysis::HeadId head) const {
  const Cell cell{IndexOf(layers_, head.layer), IndexOf(heads_, head.head)};
  if (cell.row < 0 || cell.column < 0 || !HeadOf(cell)) return std::nullopt;
  return cell;
}

}  // namespace headscope::ui
