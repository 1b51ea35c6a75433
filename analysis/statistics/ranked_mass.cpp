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
  for (int64_t i = 0; i < num_values; ++i) {
    Bucket& bucket = buckets_[static_cast<size_t>(BucketOf(values[i]))];
    ++bucket.count;
    bucket.mass += static_cast<double>(values[i]);
  }
  WalkBuckets(num_values);
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
void RankedMass::WalkBuckets(int64_t num_values) {
  asked_.clear();
  asked_buckets_.clear();
  top_mass_.assign(counts_.size(), 0.0);
  needed_.assign(targets_.size(), num_values);
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
