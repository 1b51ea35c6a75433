// SPDX-License-Identifier: Apache-2.0
// Where the cells of the layer x head matrix lie: rows are recorded layers, columns recorded query heads, a gap after
// each group of heads that shares a KV head. Logical pixels, y downwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/types/head_statistics.h"

namespace headscope::analysis {

struct Box {
  double x = 0, y = 0, width = 0, height = 0;

  double right() const { return x + width; }
  double bottom() const { return y + height; }
  double centre_x() const { return x + width / 2; }
  double centre_y() const { return y + height / 2; }
  bool Contains(double at_x, double at_y) const {
    return at_x >= x && at_x <= right() && at_y >= y && at_y <= bottom();
  }
};

class MatrixLayout {
 public:
  struct Cell {
    int row = 0, column = 0;
    friend bool operator==(const Cell&, const Cell&) = default;
  };

  MatrixLayout() = default;
  // kv_head_of_head has an entry for each of `heads`.
  MatrixLayout(const std::vector<HeadId>& heads, const std::vector<int32_t>& kv_head_of_head);

  // Fits the cells into `area` (labels are outside it); they are at least kLeast and at most kMostWide and kMostHigh
  // pixels wide and high.
  void Fit(const Box& area);
  // Cells of that size, the first at (x, y).
  void Place(double x, double y, double cell_width, double cell_height);
  // Least width and height of the area that Fit can fill.
  double LeastWidth() const { return num_rows() == 0 ? 0 : num_columns() * kLeast + Gaps(); }
  double LeastHeight() const { return num_rows() * (kLeast + kGap); }

  const std::vector<int32_t>& layers() const { return layers_; }
  const std::vector<int32_t>& heads() const { return heads_; }
  int num_rows() const { return static_cast<int>(layers_.size()); }
  int num_columns() const { return static_cast<int>(heads_.size()); }
  // Empty when the trace does not hold the cell's head.
  std::optional<HeadId> HeadOf(Cell cell) const;
  std::optional<Cell> CellOf(HeadId head) const;

  Box CellBox(Cell cell) const;
  std::optional<Cell> CellAt(double x, double y) const;  // gaps belong to no cell
  Box Bounds() const;                                    // of all cells

  // Columns [first, last] of one KV head.
  struct Group {
    int32_t kv_head = 0;
    int first = 0, last = 0;
  };
  const std::vector<Group>& groups() const { return groups_; }

  static constexpr double kLeast = 9, kMostWide = 56, kMostHigh = 34, kGap = 1, kGroupGap = 5;

 private:
  double Gaps() const { return num_columns() * kGap + (static_cast<double>(groups_.size()) - 1) * kGroupGap; }
  double ColumnX(int column) const;

  std::vector<int32_t> layers_, heads_;
  std::vector<Group> groups_;
  std::vector<int> group_of_column_;
  std::vector<char> recorded_;  // [row, column]
  double x_ = 0, y_ = 0;
  double cell_width_ = kLeast, cell_height_ = kLeast;
};

}  // namespace headscope::analysis
