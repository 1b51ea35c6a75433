// SPDX-License-Identifier: Apache-2.0
#include "statistics/top_columns.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "kernels/cpu_scores.h"

namespace headscope::analysis {
namespace {

constexpr int64_t kBoundedValues = 64;
constexpr int64_t kLeastLanes = 64;
constexpr int64_t kLeastInLane = 2;  // below, the bound costs more than it saves
// Of MoveBestToFront: what std::nth_element does as fast, and after how many bounds it goes on, which bad ones do not
// slow down.
constexpr size_t kFew = 48;
constexpr int kMostRounds = 32;

// An unsigned number that orders as the float does; a total order even for a NaN.
uint32_t OrderKey(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

// Orders as the values do, and the lower index before the higher where they are equal.
uint64_t CandidateOf(float value, int32_t index) {
  return uint64_t{OrderKey(value)} << 32 | ~static_cast<uint32_t>(index);
}

int32_t IndexOf(uint64_t candidate) {
  return static_cast<int32_t>(~static_cast<uint32_t>(candidate));
}

// The k-th largest; reorders.
float KthLargest(std::vector<float>* values, int32_t k) {
  const auto kth = values->begin() + (k - 1);
  std::nth_element(values->begin(), kth, values->end(), std::greater<>());
  return *kth;
}

// Moves the candidates of [begin, end) above `bound` to its front; returns where they end.
size_t MoveAbove(uint64_t bound, size_t begin, size_t end, uint64_t* candidates) {
  size_t front = begin;
  for (size_t i = begin; i < end; ++i) {
    // Exchanged always and counted where it is above the bound: no branch to mispredict.
    const uint64_t candidate = std::exchange(candidates[i], candidates[front]);
    candidates[front] = candidate;
    front += candidate > bound ? 1 : 0;
  }
  return front;
}

// Leaves the k largest of more than k candidates, which all differ, in front, as std::nth_element does, whose branches
// take more than twice as long.
void MoveBestToFront(size_t k, std::vector<uint64_t>* candidates) {
  uint64_t* const all = candidates->data();
  size_t begin = 0, end = candidates->size();
  for (int rounds = 0; end - begin > kFew && rounds < kMostRounds; ++rounds) {
    // The middle one of three leaves something on both of its sides.
    const uint64_t one = all[begin], other = all[begin + (end - begin) / 2], third = all[end - 1];
    const uint64_t bound = std::max(std::min(one, other), std::min(std::max(one, other), third));
    const size_t front = MoveAbove(bound, begin, end, all);
    if (front == k) return;
    (front > k ? end : begin) = front;
  }
  const auto at = [&](size_t i) { return candidates->begin() + static_cast<std::ptrdiff_t>(i); };
  std::nth_element(at(begin), at(k), at(end), std::greater<>());
}

}  // namespace

const std::vector<int32_t>& TopColumns::Select(const float* values, int64_t num_values, int32_t k) {
  // Twice as many parts as columns wanted: the bound is then near the median of their maxima, and some 1.4 k candidates
  // reach it.
  const int64_t lanes = std::max(kLeastLanes, 2 * int64_t{k});
  indices_.resize(static_cast<size_t>(num_values));
  if (num_values < kLeastInLane * lanes) {
    std::iota(indices_.begin(), indices_.end(), 0);
  } else if (num_values < kBoundedValues * 2 * k) {
    KeepAbove(values, 0, num_values, BoundOfLanes(values, num_values, lanes, k), 0);
  } else {
    KeepInBlocks(values, num_values, k);
  }
  candidates_.clear();
  for (const int32_t index : indices_) candidates_.push_back(CandidateOf(values[index], index));
  return KeepBest(k);
}

const std::vector<int32_t>& TopColumns::Narrow(int32_t k) {
  return KeepBest(k);
}

float TopColumns::BoundOfLanes(const float* values, int64_t num_values, int64_t lanes, int32_t k) {
  maxima_.assign(static_cast<size_t>(lanes), -std::numeric_limits<float>::infinity());
  float* const maxima = maxima_.data();
  for (int64_t begin = 0; begin < num_values; begin += lanes) {
    const int64_t width = std::min(lanes, num_values - begin);
    for (int64_t lane = 0; lane < width; ++lane)
      maxima[lane] = values[begin + lane] > maxima[lane] ? values[begin + lane] : maxima[lane];
  }
  return KthLargest(&maxima_, k);
}

void TopColumns::KeepInBlocks(const float* values, int64_t num_values, int32_t k) {
  maxima_.clear();
  for (int64_t begin = 0; begin < num_values; begin += kBoundedValues)
    maxima_.push_back(kernels::MaxOf(values + begin, std::min(kBoundedValues, num_values - begin)));
  ordered_maxima_ = maxima_;
  const float bound = KthLargest(&ordered_maxima_, k);
  size_t count = 0;
  for (size_t block = 0; block < maxima_.size(); ++block) {
    if (maxima_[block] < bound) continue;
    const int64_t begin = static_cast<int64_t>(block) * kBoundedValues;
    count = KeepAbove(values, begin, std::min(begin + kBoundedValues, num_values), bound, count);
  }
}

size_t TopColumns::KeepAbove(const float* values, int64_t begin, int64_t end, float bound, size_t count) {
  indices_.resize(std::max(indices_.size(), count + static_cast<size_t>(end - begin)));
  int32_t* const indices = indices_.data();
  for (int64_t i = begin; i < end; ++i) {
    // Written always and counted where it reaches the bound: no branch to mispredict.
    indices[count] = static_cast<int32_t>(i);
    count += values[i] < bound ? 0 : 1;
  }
  indices_.resize(count);
  return count;
}

const std::vector<int32_t>& TopColumns::KeepBest(int32_t k) {
  if (static_cast<int64_t>(candidates_.size()) > k) {
    MoveBestToFront(static_cast<size_t>(k), &candidates_);
    candidates_.resize(static_cast<size_t>(k));
  }
  indices_.clear();
  for (const uint64_t candidate : candidates_) indices_.push_back(IndexOf(candidate));
  return indices_;
}

}  // namespace headscope::analysis
