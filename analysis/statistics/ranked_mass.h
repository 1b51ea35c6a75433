// SPDX-License-Identifier: Apache-2.0
// How a row's mass is spread over its entries, largest first, without sorting the row.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace headscope::analysis {

// Method: a histogram over the leading bits of the floats (exponent and four bits of mantissa), which order as the
// values do, with count and mass per bucket. Only the few buckets in which an answer lies are collected and sorted.
// Of a long row only the values that can matter are
// looked at. Exact. Cost: one pass over the row, two over what is large.
class RankedMass {
 public:
  // `counts` (increasing) and `targets` (increasing, in (0, 1]).
  RankedMass(std::vector<int32_t> counts, std::vector<double> targets);

  // values >= 0, e.g. probabilities.
  void Rank(const float* values, int64_t num_values);

  // Of the last row: sum of its counts[i] largest values, and the fewest largest values whose sum reaches targets[i]
  // (all of them when it is never reached).
  const std::vector<double>& top_mass() const { return top_mass_; }
  const std::vector<int64_t>& needed() const { return needed_; }

 private:
  static constexpr int32_t kBuckets = 4096;  // the leading 12 bits below the sign
  struct Bucket {
    int64_t count = 0;
    double mass = 0;
  };
  // What is asked inside one bucket: how many of its values are to be summed, or which sum is to be reached.
  struct Inside {
    int32_t bucket = 0;
    bool by_count = false;
    size_t answer = 0;
    int64_t count_before = 0;
    double mass_before = 0;
  };
  int64_t KeepLarge(const float* values, int64_t num_values);
  void RankAll(const float* values, int64_t num_values, int64_t row_size);
  void WalkBuckets(int64_t row_size);
  void Answer(const Inside& inside, const std::vector<float>& sorted);

  const std::vector<int32_t> counts_;
  const std::vector<double> targets_;
  std::array<Bucket, kBuckets> buckets_{};
  // 1 + index into collected_, 0: not asked. Every bucket may be asked, by as many targets.
  std::array<uint16_t, kBuckets> slot_{};
  std::vector<Inside> asked_;
  std::vector<int32_t> asked_buckets_;
  std::vector<std::vector<float>> collected_;
  std::vector<float> large_;
  std::vector<double> top_mass_;
  std::vector<int64_t> needed_;
};

}  // namespace headscope::analysis
