// SPDX-License-Identifier: Apache-2.0
#include "analysis/types/matrix_layout.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace headscope::analysis {
namespace {

int IndexOf(const std::vector<int32_t>& sorted, int32_t value) {
  const auto at = std::lower_bound(sorted.begin(), sorted.end(), value);
  return at != sorted.end() && *at == value ? static_cast<int>(at - sorted.begin()) : -1;
}

}  // namespace

MatrixLayout::MatrixLayout(const std::vector<HeadId>& heads, const std::vector<int32_t>& kv_head_of_head) {
  std::map<int32_t, int32_t> kv_head_of;
  for (size_t i = 0; i < heads.size(); ++i) {
    layers_.push_back(heads[i].layer);
    kv_head_of[heads[i].head] = kv_head_of_head[i];
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
  for (const HeadId& head : heads) {
    const auto cell = static_cast<size_t>(IndexOf(layers_, head.layer)) * heads_.size() +
                      static_cast<size_t>(IndexOf(heads_, head.head));
    recorded_[cell] = 1;
  }
}

void MatrixLayout::Fit(const Box& area) {
  // Whole pixels, so that cells are equally wide and their edges sharp.
  if (num_rows() == 0) return Place(area.x, area.y, kLeast, kLeast);
  Place(area.x, area.y, std::clamp(std::floor((area.width - Gaps()) / num_columns()), kLeast, kMostWide),
        std::clamp(std::floor(area.height / num_rows() - kGap), kLeast, kMostHigh));
}

void MatrixLayout::Place(double x, double y, double cell_width, double cell_height) {
  x_ = x;
  y_ = y;
  cell_width_ = cell_width;
  cell_height_ = cell_height;
}

double MatrixLayout::ColumnX(int column) const {
  return x_ + column * (cell_width_ + kGap) + group_of_column_[static_cast<size_t>(column)] * kGroupGap;
}

Box MatrixLayout::CellBox(Cell cell) const {
  return {ColumnX(cell.column), y_ + cell.row * (cell_height_ + kGap), cell_width_, cell_height_};
}

std::optional<MatrixLayout::Cell> MatrixLayout::CellAt(double x, double y) const {
  if (layers_.empty() || !Bounds().Contains(x, y)) return std::nullopt;
  const int row = std::min(num_rows() - 1, static_cast<int>((y - y_) / (cell_height_ + kGap)));
  for (int column = 0; column < num_columns(); ++column) {
    if (CellBox({row, column}).Contains(x, y)) return Cell{row, column};
  }
  return std::nullopt;
}

Box MatrixLayout::Bounds() const {
  if (layers_.empty()) return {};
  const Box first = CellBox({0, 0}), last = CellBox({num_rows() - 1, num_columns() - 1});
  return {first.x, first.y, last.right() - first.x, last.bottom() - first.y};
}

std::optional<HeadId> MatrixLayout::HeadOf(Cell cell) const {
  if (cell.row < 0 || cell.row >= num_rows() || cell.column < 0 || cell.column >= num_columns()) return std::nullopt;
  const auto row = static_cast<size_t>(cell.row), column = static_cast<size_t>(cell.column);
  if (!recorded_[row * heads_.size() + column]) return std::nullopt;
  return HeadId{layers_[row], heads_[column]};
}

std::optional<MatrixLayout::Cell> MatrixLayout::CellOf(HeadId head) const {
  const Cell cell{IndexOf(layers_, head.layer), IndexOf(heads_, head.head)};
  if (cell.row < 0 || cell.column < 0 || !HeadOf(cell)) return std::nullopt;
  return cell;
}

}  // namespace headscope::analysis
