// SPDX-License-Identifier: Apache-2.0
// Which scores of a head's map exist: recorded row r sees the keys up to its own token position. Shared by everything
// that draws or sums.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "analysis/types/tile.h"

namespace headscope::ui {

class CausalRows {
 public:
  CausalRows() = default;
  // row_positions: token position of each recorded row, ascending. num_columns: tokens.
  CausalRows(std::vector<int32_t> row_positions, int64_t num_columns)
      : row_positions_(std::move(row_positions)), num_columns_(num_columns) {}

  friend bool operator==(const CausalRows&, const CausalRows&) = default;

  int64_t num_rows() const { return static_cast<int64_t>(row_positions_.size()); }
  int64_t num_columns() const { return num_columns_; }
  // Token position of a row; row must be in [0, num_rows).
  int64_t Position(int64_t row) const { return row_positions_[static_cast<size_t>(row)]; }
  // The first row at or after a token position; the last row when there is none.
  int64_t FirstRowAt(int64_t position) const {
    const auto found = std::lower_bound(row_positions_.begin(), row_positions_.end(), position);
    return std::max<int64_t>(std::min<int64_t>(found - row_positions_.begin(), num_rows() - 1), 0);
  }
  bool HasRowAtOrAfter(int64_t position) const { return num_rows() > 0 && position <= Position(num_rows() - 1); }
  // The first rows whose queries another map has at the same places, with the same keys: all of the shorter one's, or
  // none. A row sees no key behind its own token, so the longer one's further tokens do not matter to them.
  int64_t CommonRows(const CausalRows& other) const {
    const int64_t rows = std::min(num_rows(), other.num_rows());
    if (rows == 0 || !std::equal(row_positions_.begin(), row_positions_.begin() + rows, other.row_positions_.begin()))
      return 0;
    return *this == other || Position(rows - 1) < std::min(num_columns_, other.num_columns_) ? rows : 0;
  }
  // Keys that the row sees: columns [0, result).
  int64_t NumColumns(int64_t row) const { return std::min<int64_t>(Position(row) + 1, num_columns_); }
  bool IsCausal(int64_t row, int64_t column) const { return column < NumColumns(row); }

  // Scores of texel (texel_x, texel_y) of a level that exist.
  int64_t ScoresInTexel(int32_t level, int64_t texel_x, int64_t texel_y) const {
    const int64_t size = int64_t{1} << level;
    const int64_t column_begin = texel_x * size;
    const int64_t row_end = std::min((texel_y + 1) * size, num_rows());
    const int64_t row_begin = texel_y * size;
    if (row_end <= row_begin || NumColumns(row_end - 1) <= column_begin) return 0;
    if (NumColumns(row_begin) >= column_begin + size) return (row_end - row_begin) * size;  // wholly below the diagonal
    int64_t scores = 0;
    for (int64_t row = row_begin; row < row_end; ++row) {
      scores += std::clamp<int64_t>(NumColumns(row) - column_begin, 0, size);
    }
    return scores;
  }

  // False when a tile lies wholly above the diagonal or outside the map: nothing is requested for it.
  bool HasScores(const analysis::TileKey& key) const {
    const int64_t tile_scores = int64_t{analysis::kTileSize} << key.level;
    const int64_t row_begin = key.y * tile_scores;
    const int64_t last_row = std::min(row_begin + tile_scores, num_rows()) - 1;
    if (key.x < 0 || key.y < 0 || last_row < row_begin) return false;
    return IsCausal(last_row, key.x * tile_scores);
  }

 private:
  std::vector<int32_t> row_positions_;
  int64_t num_columns_ = 0;
};

}  // namespace headscope::ui
