// SPDX-License-Identifier: Apache-2.0
// Scaled scores (logits) by distance of key and query, over the rows that statistics sample: what a profile of
// probabilities cannot tell, because a softmax shows the largest of a row alone.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/types/head_statistics.h"

namespace headscope::analysis {

// One worker's sums.
class LogitsByDistance {
 public:
  explicit LogitsByDistance(int64_t num_tokens);

  // scores: of columns [begin, end) of a row at `position`, which attends to all of them.
  void AddRow(const float* scores, int64_t position, int64_t begin, int64_t end);
  void Merge(const LogitsByDistance& other);

  // logit_profile in `bins` even bins of the tokens, mean_logit, and local_logit over distances below `local_tokens`;
  // 0, and no profile, where no pair was added.
  void Fill(int32_t bins, int32_t local_tokens, HeadStatistics* statistics) const;

 private:
  std::vector<double> sums_;  // [num_tokens], by distance
  std::vector<int64_t> pairs_;
};

}  // namespace headscope::analysis
