// The values that a search tries for one budget.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/method_spec.h"

namespace headscope::analysis {

// Ascending places 0 .. size() - 1: the minimum, the multiples of the step above it, and the largest value that makes a
// difference for a sequence of num_tokens.
class BudgetGrid {
 public:
  BudgetGrid(const kernels::ParameterSpec& spec, int64_t num_tokens);

  int64_t size() const { return size_; }
  double Value(int64_t place) const;
  // A dozen or two places from the first to the last: by doubling for logarithmic parameters, else evenly spaced, and
  // for shares of mass the last of these parts evenly once more.
  const std::vector<int64_t>& coarse() const { return coarse_; }

 private:
  void AddCoarse(int64_t begin, int64_t end);  // even places from `begin`, without `end`

  double minimum_ = 0, maximum_ = 0, step_ = 1;
  int64_t first_multiple_ = 0;  // of the step, above the minimum
  int64_t size_ = 0;
  std::vector<int64_t> coarse_;
};

}  // namespace headscope::analysis
