// SPDX-License-Identifier: Apache-2.0
#include "rounded_groups.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "dot.h"
#include "internal/row_math.h"

namespace headscope::kernels::internal {
namespace {

constexpr float kRounding = 6e-8f;  // of a number in fp32, relative to it

}  // namespace

// Keys less about their mean, which takes as much from every score of a column: shorter rows lose less to rounding. Of
// bfloat16's numbers whole, and by powers of two, since rounding keeps most of those as they are.
RoundedKeys::RoundedKeys(const RowGroups& keys, int32_t block_groups)
    : keys_(keys), block_groups_(block_groups), mean_(static_cast<size_t>(keys.head_dim)) {
  const bool are_bfloat16 = HoldBFloat16(keys, 0, keys.num_rows);
  const int32_t num_groups = keys.num_groups();
  if (!are_bfloat16) {
    std::vector<float> row(mean_.size());
    std::vector<double> sum(mean_.size());
    for (int32_t key = 0; key < keys.num_rows; key += keys.stride) {
      keys.LoadRow(key, row.data());
      for (size_t d = 0; d < row.size(); ++d) sum[d] += static_cast<double>(row[d]);
    }
    for (size_t d = 0; d < row.size(); ++d) mean_[d] = static_cast<float>(sum[d] / num_groups);
  }
  numbers_.width = keys.width();
  numbers_.by_powers = are_bfloat16;
  numbers_.Reserve(num_groups);
  std::vector<float> group(static_cast<size_t>(keys.width()));
  for (int32_t i = 0; i < num_groups; ++i) {
    LoadGroup(i, group.data());
    numbers_.Append(group.data());
  }
  largest_.resize(static_cast<size_t>((num_groups + block_groups - 1) / block_groups));
  for (int32_t i = 0; i < num_groups; ++i) {
    Largest& of_block = largest_[static_cast<size_t>(i / block_groups)];
    const RoundedRow& row = numbers_.rows[static_cast<size_t>(i)];
    of_block.length = std::max(of_block.length, row.length);
    of_block.error = std::max(of_block.error, row.error);
  }
}

void RoundedKeys::LoadGroup(int32_t group, float* to) const {
  keys_.LoadGroup(group * keys_.stride, /*reversed=*/false, to);
  for (int32_t s = 0; s < keys_.stride; ++s) {
    for (size_t d = 0; d < mean_.size(); ++d) *to++ -= mean_[d];
  }
}

RoundedPanel::RoundedPanel(std::shared_ptr<const RoundedKeys> keys, float scale, float to_base_2)
    : keys_(std::move(keys)), scale_(scale), scale_of_base_2_(scale * to_base_2) {}

void RoundedPanel::Round(const RowGroups& queries, const std::vector<int32_t>& rows) {
  queries_ = queries;
  rows_ = rows;
  query_.resize(static_cast<size_t>(queries.width()));
  columns_.Start(queries.width(), keys_->numbers().by_powers);
  for (const int32_t row : rows) {
    queries.LoadGroup(row, /*reversed=*/true, query_.data());
    columns_.Append(query_.data());
  }
  columns_.Finish();
}

void RoundedPanel::Score(int32_t begin, int32_t end, int32_t from, float* scores) const {
  ScoreIntegers(keys_->numbers(), begin, end, columns_, from, scale_of_base_2_, scores);
}

void RoundedPanel::BoundErrors(int32_t num_blocks) {
  const float scale = std::abs(scale_);
  // Of sums of pieces in fp32, and of keys less their mean.
  const int32_t roundings = queries_.width() / kPieceComponents + 8;
  const float float_error = kRounding * static_cast<float>(roundings);
  errors_.resize(static_cast<size_t>(num_blocks * kColumns));
  for (int32_t block = 0; block < num_blocks; ++block) {
    const RoundedKeys::Largest& largest = keys_->OfBlock(block);
    const float by_length = scale * (largest.error + float_error * largest.length), by_error = scale * largest.length;
    float* const of_block = errors_.data() + block * kColumns;
    for (size_t column = 0; column < rows_.size(); ++column) {
      const RoundedRow& query = columns_.columns()[column];
      of_block[column] = query.length * by_length + query.error * by_error;
    }
  }
}

void RoundedPanel::ScoreExactly(int32_t block, int32_t begin, int32_t end, float* shares) {
  const int32_t key_begin = keys_->BlockBegin(block), key_end = keys_->BlockEnd(block), width = queries_.width();
  constexpr int32_t kStep = 16;
  scores_.resize(static_cast<size_t>((key_end - key_begin) * kColumns));
  Score(key_begin, key_end, begin / kStep * kStep, scores_.data());
  exact_keys_.resize(static_cast<size_t>(key_end - key_begin) * static_cast<size_t>(width));
  for (int32_t key = key_begin; key < key_end; ++key)
    keys_->LoadGroup(key, exact_keys_.data() + int64_t{key - key_begin} * width);
  // Sixteen sums of a sixteenth of the products each, the rest, and their sum.
  const int32_t dot_roundings = width / 16 + width % 16 + 20;
  const float dot_error = kRounding * static_cast<float>(dot_roundings);
  std::vector<double> exact_scores(static_cast<size_t>(key_end - key_begin));
  for (int32_t column = begin; column < end; ++column) {
    const int32_t row = rows_[static_cast<size_t>(column)];
    queries_.LoadGroup(row, /*reversed=*/true, query_.data());
    const int32_t seen_end = std::min(key_end, queries_.LastSeen(row) + 1);
    double largest = -std::numeric_limits<double>::infinity(), exact = 0, rounded = 0;
    for (int32_t key = key_begin; key < seen_end; ++key) {
      const auto at = static_cast<size_t>(key - key_begin);
      exact_scores[at] = static_cast<double>(
          scale_of_base_2_ *
          Dot(query_.data(), exact_keys_.data() + static_cast<int64_t>(at) * width, static_cast<size_t>(width)));
      largest = std::max(largest, exact_scores[at]);
    }
    for (int32_t key = key_begin; key < seen_end; ++key) {
      const auto at = static_cast<size_t>(key - key_begin);
      exact += std::exp2(exact_scores[at] - largest);
      rounded += std::exp2(static_cast<double>(scores_[at * kColumns + static_cast<size_t>(column)]) - largest);
    }
    if (seen_end > key_begin) shares[column] *= static_cast<float>(exact / rounded);
    errors_[static_cast<size_t>(block * kColumns + column)] = dot_error * std::abs(scale_of_base_2_) *
                                                              columns_.columns()[static_cast<size_t>(column)].length *
                                                              keys_->OfBlock(block).length;
  }
}

}  // namespace headscope::kernels::internal
