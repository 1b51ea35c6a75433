// SPDX-License-Identifier: Apache-2.0
#include "statistics/logits_by_distance.h"

#include <algorithm>

namespace headscope::analysis {

LogitsByDistance::LogitsByDistance(int64_t num_tokens)
    : sums_(static_cast<size_t>(num_tokens)), pairs_(static_cast<size_t>(num_tokens)) {}

void LogitsByDistance::AddRow(const float* scores, int64_t position, int64_t begin, int64_t end) {
  for (int64_t column = begin; column < end; ++column) {
    const auto distance = static_cast<size_t>(position - column);
    sums_[distance] += static_cast<double>(scores[column - begin]);
    ++pairs_[distance];
  }
}

void LogitsByDistance::Merge(const LogitsByDistance& other) {
  for (size_t i = 0; i < sums_.size(); ++i) {
    sums_[i] += other.sums_[i];
    pairs_[i] += other.pairs_[i];
  }
}

void LogitsByDistance::Fill(int32_t bins, int32_t local_tokens, HeadStatistics* statistics) const {
  const auto length = static_cast<int64_t>(sums_.size());
  const int64_t count = std::min<int64_t>(bins, length);
  struct Mean {
    double sum = 0;
    int64_t pairs = 0;
    void Add(double more, int64_t of) {
      sum += more;
      pairs += of;
    }
    double Get() const { return pairs == 0 ? 0 : sum / static_cast<double>(pairs); }
  };
  Mean all, local;
  std::vector<Mean> profile(static_cast<size_t>(count));
  for (int64_t distance = 0; distance < length; ++distance) {
    const auto at = static_cast<size_t>(distance);
    all.Add(sums_[at], pairs_[at]);
    if (distance < local_tokens) local.Add(sums_[at], pairs_[at]);
    profile[static_cast<size_t>(distance * count / length)].Add(sums_[at], pairs_[at]);
  }
  statistics->mean_logit = all.Get();
  statistics->local_logit = local.Get();
  // A row sees what lies at 0, 1, 2 .. up to some distance: empty bins are the last ones.
  for (const Mean& bin : profile) {
    if (bin.pairs > 0) statistics->logit_profile.push_back(static_cast<float>(bin.Get()));
  }
}

}  // namespace headscope::analysis
