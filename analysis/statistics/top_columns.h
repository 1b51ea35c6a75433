// SPDX-License-Identifier: Apache-2.0
// The k best columns of a row without sorting the row.
#pragma once

#include <cstdint>
#include <vector>

namespace headscope::analysis {

// Method: the k-th largest of the maxima of at least k disjoint blocks is a lower bound of the k-th largest value, so
// only blocks whose maximum reaches it are looked at; they hold little more than k candidates. Cost: one vectorised
// pass for the maxima, then about k blocks.
class TopColumns {
 public:
  // Indices of the min(k, num_values) largest values, in no order. Equal values: the lower index. The reference is
  // valid until the next call.
  const std::vector<int32_t>& Select(const float* values, int64_t num_values, int32_t k);
  // The same for a smaller k, among what the last call selected.
  const std::vector<int32_t>& Narrow(int32_t k);

 private:
  struct Candidate {
    uint32_t key;  // orders as the value does
    int32_t index;
  };
  const std::vector<int32_t>& KeepBest(int32_t k);

  std::vector<float> block_maxima_, ordered_maxima_;
  std::vector<Candidate> candidates_;
  std::vector<int32_t> indices_;
};

}  // namespace headscope::analysis
