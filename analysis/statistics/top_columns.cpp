// SPDX-License-Identifier: Apache-2.0
#include "statistics/top_columns.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "kernels/cpu_scores.h"

namespace headscope::analysis {
namespace {

constexpr int64_t kLargestBlock = 64;
constexpr int64_t kSmallestBlock = 4;  // below, the blocks cost more than they save

// An unsigned number that orders as the float does; a total order even for a NaN.
uint32_t OrderKey(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

}  // namespace

const std::vector<int32_t>& TopColumns::Select(const float* values, int64_t num_values, int32_t k) {
  candidates_.resize(static_cast<size_t>(num_values));
  size_t count = 0;
  // Twice as many blocks as columns wanted: the bound is then near the median of the maxima, and some 1.4 k candidates
  // reach it.
  const int64_t block = std::min(kLargestBlock, num_values / (2 * int64_t{k}));
  if (block < kSmallestBlock) {
    for (int64_t i = 0; i < num_values; ++i) candidates_[count++] = {OrderKey(values[i]), static_cast<int32_t>(i)};
  } else {
    block_maxima_.clear();
    for (int64_t begin = 0; begin < num_values; begin += block) {
      block_maxima_.push_back(kernels::MaxOf(values + begin, std::min(block, num_values - begin)));
    }
    ordered_maxima_ = block_maxima_;
    const auto kth = ordered_maxima_.begin() + (k - 1);
    std::nth_element(ordered_maxima_.begin(), kth, ordered_maxima_.end(), std::greater<>());
    const float bound = *kth;
    for (size_t b = 0; b < block_maxima_.size(); ++b) {
      if (block_maxima_[b] < bound) continue;
      const int64_t begin = static_cast<int64_t>(b) * block;
      const int64_t end = std::min(begin + block, num_values);
      for (int64_t i = begin; i < end; ++i) {
        // Written always and counted where it reaches the bound: no branch to mispredict.
        candidates_[count] = {OrderKey(values[i]), static_cast<int32_t>(i)};
        count += values[i] < bound ? 0 : 1;
      }
    }
  }
  candidates_.resize(count);
  return KeepBest(k);
}

const std::vector<int32_t>& TopColumns::Narrow(int32_t k) {
  return KeepBest(k);
}

const std::vector<int32_t>& TopColumns::KeepBest(int32_t k) {
  const auto before = [](const Candidate& a, const Candidate& b) {
    return a.key != b.key ? a.key > b.key : a.index < b.index;
  };
  if (static_cast<int64_t>(candidates_.size()) > k) {
    std::nth_element(candidates_.begin(), candidates_.begin() + k, candidates_.end(), before);
    candidates_.resize(static_cast<size_t>(k));
  }
  indices_.clear();
  for (const Candidate& candidate : candidates_) indices_.push_back(candidate.index);
  return indices_;
}

}  // namespace headscope::analysis
