// SPDX-License-Identifier: Apache-2.0
#include "statistics/ranked_mass.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>

#include "kernels/cpu_scores.h"

namespace headscope::analysis {
namespace {

constexpr int64_t kSortedAtOnce = 32;  // so few values take less to sort than to part again
constexpr int64_t kLongRow = 2048;
constexpr double kUnknown = std::numeric_limits<double>::infinity();

// Orders as MoveAboveToFront does: totally, whatever a damaged trace makes of a value.
int32_t RankKey(float value) {
  return std::bit_cast<int32_t>(value);
}

template <size_t kCount>
float MedianOfSpaced(const float* values, int64_t num_values) {
  std::array<int32_t, kCount> sample = {};
  for (size_t i = 0; i < kCount; ++i)
    sample[i] = RankKey(values[static_cast<int64_t>(2 * i + 1) * num_values / static_cast<int64_t>(2 * kCount)]);
  const auto middle = sample.begin() + kCount / 2;
  std::nth_element(sample.begin(), middle, sample.end());
  return std::bit_cast<float>(*middle);
}

float MedianOfSample(const float* values, int64_t num_values) {
  constexpr int64_t kManyValues = 512;
  return num_values < kManyValues ? MedianOfSpaced<5>(values, num_values) : MedianOfSpaced<15>(values, num_values);
}

}  // namespace

RankedMass::RankedMass(std::vector<int32_t> counts, std::vector<double> targets)
    : counts_(std::move(counts)), targets_(std::move(targets)) {}

void RankedMass::Rank(const float* values, int64_t num_values) {
  top_mass_.assign(counts_.size(), 0.0);
  needed_.assign(targets_.size(), num_values);
  next_count_ = next_target_ = 0;
  values_.assign(values, values + num_values);
  scratch_.resize(static_cast<size_t>(num_values));
  open_.clear();
  PartLargeFirst();
  while (!open_.empty()) {
    const Part part = open_.back();
    open_.pop_back();
    if (!HoldsAnswer(part)) continue;
    if (part.end - part.begin <= kSortedAtOnce) {
      const auto by_key = [](float a, float b) { return RankKey(a) > RankKey(b); };
      std::sort(values_.begin() + part.begin, values_.begin() + part.end, by_key);
      AnswerSorted(part);
    } else {
      Halve(part);
    }
  }
  if (next_count_ == counts_.size()) return;  // else more are asked for than there are values
  const double all = std::accumulate(values_.begin(), values_.end(), 0.0);
  std::fill(top_mass_.begin() + static_cast<std::ptrdiff_t>(next_count_), top_mass_.end(), all);
}

// Most values of a long row are too small to matter: of a row of mass 1, what lies behind the first part is less than
// what the largest target leaves.
void RankedMass::PartLargeFirst() {
  const auto size = static_cast<int64_t>(values_.size());
  const Part row = {0, size, 0, kUnknown};
  if (size < kLongRow || targets_.empty()) return open_.push_back(row);
  PartAt(row, static_cast<float>((1 - targets_.back()) / (2 * static_cast<double>(size))));
}

int64_t RankedMass::PartAt(const Part& part, float bound) {
  const kernels::RowShare above =
      kernels::MoveAboveToFront(values_.data() + part.begin, part.end - part.begin, bound, scratch_.data());
  const int64_t cut = part.begin + above.count;
  if (cut < part.end) open_.push_back({cut, part.end, part.mass_before + above.sum, part.mass - above.sum});
  if (cut > part.begin) open_.push_back({part.begin, cut, part.mass_before, above.sum});
  return above.count;
}

void RankedMass::Halve(const Part& part) {
  const float bound = MedianOfSample(values_.data() + part.begin, part.end - part.begin);
  if (PartAt(part, bound) > 0) return;
  // The bound is the largest value of the part: what equals it needs no order.
  open_.pop_back();
  const int32_t key = RankKey(bound);
  if (key == std::numeric_limits<int32_t>::min()) return AnswerSorted(part);
  PartAt(part, std::bit_cast<float>(key - 1));
  const Part equal = open_.back();
  open_.pop_back();
  AnswerSorted(equal);
}

// Answers before the part are given already.
bool RankedMass::HoldsAnswer(const Part& part) const {
  return (next_count_ < counts_.size() && counts_[next_count_] <= part.end) ||
         (next_target_ < targets_.size() && part.mass_before + part.mass >= targets_[next_target_]);
}

void RankedMass::AnswerSorted(const Part& part) {
  double mass = part.mass_before;
  const auto answer_targets = [&](int64_t count) {
    for (; next_target_ < targets_.size() && mass >= targets_[next_target_]; ++next_target_)
      needed_[next_target_] = count;
  };
  answer_targets(part.begin);
  for (int64_t count = part.begin + 1; count <= part.end && HoldsAnswer(part); ++count) {
    mass += static_cast<double>(values_[static_cast<size_t>(count - 1)]);
    for (; next_count_ < counts_.size() && counts_[next_count_] == count; ++next_count_) top_mass_[next_count_] = mass;
    answer_targets(count);
  }
}

}  // namespace headscope::analysis
