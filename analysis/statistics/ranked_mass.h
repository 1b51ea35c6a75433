// SPDX-License-Identifier: Apache-2.0
// How a row's mass is spread over its entries, largest first, without sorting the row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace headscope::analysis {

// Method: the row is parted at a value, again and again, and only parts in which an answer lies are parted further;
// what is left of them in the end is a few values, which are sorted. Exact. Cost: a few passes over the row.
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
  // Values that are next to each other in values_ and in the row's order; those before them there are larger, those
  // behind them are not.
  struct Part {
    int64_t begin = 0, end = 0;
    double mass_before = 0, mass = 0;  // mass: infinite where it is not known
  };
  void PartLargeFirst();
  int64_t PartAt(const Part& part, float bound);  // how many are above it
  void Halve(const Part& part);
  bool HoldsAnswer(const Part& part) const;
  void AnswerSorted(const Part& part);

  const std::vector<int32_t> counts_;
  const std::vector<double> targets_;
  std::vector<float> values_;   // the row, as far as it is ordered
  std::vector<float> scratch_;  // as long
  std::vector<Part> open_;      // not looked at yet: all that is not answered lies in them, the largest values last
  size_t next_count_ = 0, next_target_ = 0;  // the first that are not answered
  std::vector<double> top_mass_;
  std::vector<int64_t> needed_;
};

}  // namespace headscope::analysis
