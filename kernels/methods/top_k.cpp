// SPDX-License-Identifier: Apache-2.0
#include "top_k.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "internal/sparq_scores.h"

namespace headscope::kernels::internal {
namespace {

// Score and index in one integer whose ascending order is the ranking: a total order whatever the scores hold, which a
// comparison of floats is not.
uint64_t RankKey(float score, size_t index) {
  uint32_t bits = std::bit_cast<uint32_t>(score + 0.0f);  // -0 becomes +0: they are equal scores
  bits = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  const uint32_t descending = std::isnan(score) ? UINT32_MAX : ~bits;
  return uint64_t{descending} << 32 | static_cast<uint32_t>(index);
}

std::vector<uint64_t> RankKeys(std::span<const float> scores) {
  std::vector<uint64_t> keys(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) keys[i] = RankKey(scores[i], i);
  return keys;
}

// Of the scores that may be among the k best; of all where finding these does not pay.
std::vector<uint64_t> RankKeysOfBest(std::span<const float> scores, int64_t k) {
  std::vector<int32_t> candidates;
  CandidatesOfBest(scores.data(), static_cast<int64_t>(scores.size()), k, &candidates);
  if (candidates.empty()) return RankKeys(scores);
  std::vector<uint64_t> keys;
  keys.reserve(candidates.size());
  for (const int32_t i : candidates) keys.push_back(RankKey(scores[static_cast<size_t>(i)], static_cast<size_t>(i)));
  return keys;
}

std::vector<int32_t> Indices(std::span<const uint64_t> keys) {
  std::vector<int32_t> indices(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) indices[i] = static_cast<int32_t>(keys[i] & UINT32_MAX);
  return indices;
}

}  // namespace

std::vector<int32_t> TopK(std::span<const float> scores, int64_t k) {
  std::vector<uint64_t> keys = RankKeysOfBest(scores, k);
  if (k < static_cast<int64_t>(keys.size())) {
    const auto kept_end = keys.begin() + std::max<int64_t>(k, 0);
    std::nth_element(keys.begin(), kept_end, keys.end());
    keys.erase(kept_end, keys.end());
  }
  std::vector<int32_t> indices = Indices(keys);
  std::sort(indices.begin(), indices.end());
  return indices;
}

std::vector<int32_t> Ranking(std::span<const float> scores) {
  std::vector<uint64_t> keys = RankKeys(scores);
  std::sort(keys.begin(), keys.end());
  return Indices(keys);
}

}  // namespace headscope::kernels::internal
