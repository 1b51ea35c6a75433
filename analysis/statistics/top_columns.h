// SPDX-License-Identifier: Apache-2.0
// The k best columns of a row without sorting the row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace headscope::analysis {

// Method: the k-th largest of the maxima of at least k disjoint parts of the row is a lower bound of the k-th largest
// value, so only values that reach it are candidates, little more than k. Short rows are cut into interleaved lanes,
// whose maxima are one vectorised pass; long ones into blocks, since blocks whose maximum stays below the bound are not
// looked at again.
class TopColumns {
 public:
  // Indices of the min(k, num_values) largest values, in no order. Equal values: the lower index. The reference is
  // valid until the next call.
  const std::vector<int32_t>& Select(const float* values, int64_t num_values, int32_t k);
  // The same for a smaller k, among what the last call selected.
  const std::vector<int32_t>& Narrow(int32_t k);

 private:
  // A lower bound of the k-th largest value, from the maxima of `lanes` >= k lanes.
  float BoundOfLanes(const float* values, int64_t num_values, int64_t lanes, int32_t k);
  // Leaves the candidates' columns in indices_.
  void KeepInBlocks(const float* values, int64_t num_values, int32_t k);
  // Writes the columns of [begin, end) that reach the bound behind the `count` that indices_ has; returns how many
  // there are then.
  size_t KeepAbove(const float* values, int64_t begin, int64_t end, float bound, size_t count);
  const std::vector<int32_t>& KeepBest(int32_t k);

  std::vector<float> maxima_, ordered_maxima_;
  std::vector<uint64_t> candidates_;  // value and column, ordered as they are
  std::vector<int32_t> indices_;
};

}  // namespace headscope::analysis
