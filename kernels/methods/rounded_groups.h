// SPDX-License-Identifier: Apache-2.0
// Scores of groups of rows by whole numbers of 16 bits, and how far they may be from exact ones: what a method needs to
// choose blocks of keys by them where that is sure (sure_share.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "internal/integer_scores.h"
#include "row_groups.h"

namespace headscope::kernels::internal {

// A KV head's groups of keys, rounded, in blocks of so many groups.
class RoundedKeys {
 public:
  RoundedKeys(const RowGroups& keys, int32_t block_groups);

  const IntegerRows& numbers() const { return numbers_; }
  int32_t num_groups() const { return numbers_.num_rows(); }
  int32_t BlockBegin(int32_t block) const { return block * block_groups_; }
  int32_t BlockEnd(int32_t block) const { return std::min((block + 1) * block_groups_, num_groups()); }
  // The largest of a block's groups.
  struct Largest {
    float length = 0, error = 0;
  };
  const Largest& OfBlock(int32_t block) const { return largest_[static_cast<size_t>(block)]; }
  // A group as it was before it was rounded: less the mean.
  void LoadGroup(int32_t group, float* to) const;

 private:
  const RowGroups keys_;
  const int32_t block_groups_;
  std::vector<float> mean_;  // of rows
  IntegerRows numbers_;
  std::vector<Largest> largest_;
};

// Groups of queries as the columns of a panel, [kColumns] of them at most, beside such keys.
class RoundedPanel {
 public:
  // scale: of scores, which are in base 2 with to_base_2 in the place of 1.
  RoundedPanel(std::shared_ptr<const RoundedKeys> keys, float scale, float to_base_2);

  // Columns are the groups that begin with these rows, each from its last row to its first.
  void Round(const RowGroups& queries, const std::vector<int32_t>& rows);
  // Scores of groups of keys [begin, end) and columns from `from` on, a multiple of 16: [end - begin, kColumns].
  void Score(int32_t begin, int32_t end, int32_t from, float* scores) const;
  // How far the scores of blocks [0, num_blocks) are at most from exact ones, in base e: errors().
  void BoundErrors(int32_t num_blocks);
  // [num_blocks, kColumns].
  const float* errors() const { return errors_.data(); }
  // Columns [begin, end) of one block by scores in fp32: its shares, [kColumns], beside a column's sum of which the
  // rest goes by rounded ones, and its errors.
  void ScoreExactly(int32_t block, int32_t begin, int32_t end, float* shares);

 private:
  const std::shared_ptr<const RoundedKeys> keys_;
  const float scale_, scale_of_base_2_;
  RowGroups queries_;
  std::vector<int32_t> rows_;  // of queries, the first of each column
  IntegerColumns columns_;
  std::vector<float> errors_, scores_, query_, exact_keys_;
};

}  // namespace headscope::kernels::internal
