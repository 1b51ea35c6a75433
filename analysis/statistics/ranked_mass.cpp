// SPDX-License-Identifier: Apache-2.0
#include "statistics/ranked_mass.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

namespace headscope::analysis {
namespace {

constexpr int kDroppedBits = 19;

// The sign is masked out so that no value, whatever a damaged trace makes of it, indexes outside the histogram.
int32_t BucketOf(float value) {
  return static_cast<int32_t>((std::bit_cast<uint32_t>(value) & 0x7FFFFFFFu) >> kDroppedBits);
}

}  // namespace

RankedMass::RankedMass(std::vector<int32_t> counts, std::vector<double> targets)
    : counts_(std::move(counts)), targets_(std::move(targets)) {
  collected_.resize(counts_.size() + targets_.size());
}

void RankedMass::Rank(const float* values, int64_t num_values) {
  const int64_t num_large = KeepLarge(values, num_values);
  if (num_large > 0) {
    RankAll(large_.data(), num_large, num_values);
  } else {
    RankAll(values, num_values, num_values);
  }
}

// Most values of a long row are too small to matter: those that do go to large_, in their order. Returns how many, or 0
// where some answer may lie among the others.
int64_t RankedMass::KeepLarge(const float* values, int64_t num_values) {
  constexpr int64_t kLongRow = 2048;
  constexpr double kRounding = 1e-4;  // of the sum in fp32
  constexpr float kLower = 1e-5f;
  constexpr int kTries = 3;
  if (num_values < kLongRow || targets_.empty() || counts_.empty() || targets_.back() >= 1 - 4 * kRounding) return 0;
  // What is dropped of a row of mass 1 is then less than what the largest target leaves.
  auto least = static_cast<float>((1 - targets_.back()) / (2 * static_cast<double>(num_values)));
  large_.resize(static_cast<size_t>(num_values));
  for (int i = 0; i < kTries; ++i, least *= kLower) {
    int64_t count = 0;
    for (int64_t at = 0; at < num_values; ++at) {
      large_[static_cast<size_t>(count)] = values[at];  // written always, counted where it is large: no branch
      count += values[at] >= least ? 1 : 0;
    }
    if (count < counts_.back()) continue;
    double mass = 0;
    for (int64_t at = 0; at < count; ++at) mass += static_cast<double>(large_[static_cast<size_t>(at)]);
    return mass >= targets_.back() + kRounding ? count : 0;
  }
  return 0;
}

// `values` are all that answers may lie among, of a row of `row_size`.
void RankedMass::RankAll(const float* values, int64_t num_values, int64_t row_size) {
  for (int64_t i = 0; i < num_values; ++i) {
    Bucket& bucket = buckets_[static_cast<size_t>(BucketOf(values[i]))];
    ++bucket.count;
    bucket.mass += static_cast<double>(values[i]);
  }
  WalkBuckets(row_size);
  if (!asked_.empty()) {
    const int32_t lowest = asked_.back().bucket;
    for (int64_t i = 0; i < num_values; ++i) {
      const int32_t bucket = BucketOf(values[i]);
      if (bucket < lowest) continue;
      const uint16_t slot = slot_[static_cast<size_t>(bucket)];
      if (slot != 0) collected_[slot - 1].push_back(values[i]);
    }
    for (size_t slot = 0; slot < asked_buckets_.size(); ++slot)
      std::sort(collected_[slot].begin(), collected_[slot].end(), std::greater<>());
    for (const Inside& inside : asked_) Answer(inside, collected_[slot_[static_cast<size_t>(inside.bucket)] - 1u]);
  }
  for (size_t slot = 0; slot < asked_buckets_.size(); ++slot) {
    slot_[static_cast<size_t>(asked_buckets_[slot])] = 0;
    collected_[slot].clear();
  }
}

// Walks from the largest values down; answers what falls on a bucket's edge and notes what falls inside one. Clears the
// histogram.
void RankedMass::WalkBuckets(int64_t row_size) {
  asked_.clear();
  asked_buckets_.clear();
  top_mass_.assign(counts_.size(), 0.0);
  needed_.assign(targets_.size(), row_size);
  size_t next_count = 0, next_target = 0;
  int64_t count = 0;
  double mass = 0;
  for (int32_t index = kBuckets - 1; index >= 0; --index) {
    Bucket& bucket = buckets_[static_cast<size_t>(index)];
    if (bucket.count == 0) continue;
    const size_t asked_before = asked_.size();
    while (next_count < counts_.size() && counts_[next_count] < count + bucket.count) {
      asked_.push_back({index, true, next_count++, count, mass});
    }
    while (next_target < targets_.size() && mass + bucket.mass >= targets_[next_target]) {
      asked_.push_back({index, false, next_target++, count, mass});
    }
    if (asked_.size() > asked_before) {
      asked_buckets_.push_back(index);
      slot_[static_cast<size_t>(index)] = static_cast<uint16_t>(asked_buckets_.size());
    }
    count += bucket.count;
    mass += bucket.mass;
    while (next_count < counts_.size() && counts_[next_count] == count) top_mass_[next_count++] = mass;
    bucket = {};
  }
  for (; next_count < counts_.size(); ++next_count) top_mass_[next_count] = mass;  // more than there are values
}

void RankedMass::Answer(const Inside& inside, const std::vector<float>& sorted) {
  double mass = inside.mass_before;
  if (inside.by_count) {
    const int64_t wanted = counts_[inside.answer] - inside.count_before;
    for (int64_t i = 0; i < wanted; ++i) mass += static_cast<double>(sorted[static_cast<size_t>(i)]);
    top_mass_[inside.answer] = mass;
    return;
  }
  int64_t taken = 0;
  while (taken < static_cast<int64_t>(sorted.size()) && mass < targets_[inside.answer]) {
    mass += static_cast<double>(sorted[static_cast<size_t>(taken++)]);
  }
  needed_[inside.answer] = inside.count_before + taken;
}

}  // namespace headscope::analysis
