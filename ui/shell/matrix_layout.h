// SPDX-License-Identifier: Apache-2.0
// Where the cells of the layer x head matrix lie: rows are recorded layers, columns recorded query heads, a gap after
// each group of heads that shares a KV head. Logical pixels. Pure.
#pragma once

#include <QPointF>
#include <QRectF>
#include <QSizeF>
#include <cstdint>
#include <optional>
#include <vector>

#include "ui/workbench.h"

namespace headscope::ui {

class MatrixLayout {
 public:
  struct Cell {
    int row = 0, column = 0;
    friend bool operator==(const Cell&, const Cell&) = default;
  };

  MatrixLayout() = default;
  explicit MatrixLayout(const TraceSummary& trace);

  // Fits the cells into `area` (labels are outside it); cells are at least kLeast and at most kMost pixels wide and
  // high.
  void Fit(const QRectF& area);
  // Least size of the area that Fit can fill.
  QSizeF MinimumArea() const;

  const std::vector<int32_t>& layers() const { return layers_; }
  const std::vector<int32_t>& heads() const { return heads_; }
  int num_rows() const { return static_cast<int>(layers_.size()); }
  int num_columns() const { return static_cast<int>(heads_.size()); }
  // Empty when the trace does not hold the cell's head.
  std::optional<analysis::HeadId> HeadOf(Cell cell) const;
  std::optional<Cell> CellOf(analysis::HeadId head) const;

  QRectF CellRect(Cell cell) const;
  std::optional<Cell> CellAt(QPointF point) const;  // gaps belong to no cell
  QRectF Bounds() const;                            // of all cells

  // Columns [first, last] of one KV head.
  struct Group {
    int32_t kv_head = 0;
    int first = 0, last = 0;
  };
  const std::vector<Group>& groups() const { return groups_; }

  static constexpr double kLeast = 9, kMostWide = 56, kMostHigh = 34, kGap = 1, kGroupGap = 5;

 private:
  double ColumnX(int column) const;

  std::vector<int32_t> layers_, heads_;
  std::vector<Group> groups_;
  std::vector<int> group_of_column_;
  std::vector<char> recorded_;  // [row, column]
  QPointF origin_;
  double cell_width_ = kLeast, cell_height_ = kLeast;
};

}  // namespace headscope::ui
