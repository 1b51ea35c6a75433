// SPDX-License-Identifier: Apache-2.0
// The values that a search tries for one budget.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/method_spec.h"

namespace headscope::analysis {

// Places of a grid with two budgets, of either: what is held of every pair of them stays small.
inline constexpr int64_t kMostStepsOfTwo = 800;

// Ascending places 0 .. size() - 1: the minimum, the multiples of the step above it, and the largest value that makes a
// difference for a sequence of num_tokens. The step is the spec's. An integer budget's is, for sequences too short for
// kFewestSteps of it, its largest divisor that gives so many (1, if none does); and doubled while there are more than
// most_steps, 0 being no limit.
class BudgetGrid {
 public:
  static constexpr int64_t kFewestSteps = 64;
  BudgetGrid(const kernels::ParameterSpec& spec, int64_t num_tokens, int64_t most_steps = 0);

  int64_t size() const { return size_; }
  double minimum() const { return minimum_; }
  double maximum() const { return maximum_; }
  double step() const { return step_; }
  double Value(int64_t place) const;
  std::vector<double> Values() const;

 private:
  double minimum_ = 0, maximum_ = 0, step_ = 1;
  int64_t first_multiple_ = 0;  // of the step, above the minimum
  int64_t size_ = 0;
};

// `values` as a search starts from them: what stands in the place of a budget that it moves (ParameterSpec::instead_of)
// is off.
kernels::ParameterValues WithBudgetsAlone(const kernels::MethodSpec& spec, kernels::ParameterValues values);

}  // namespace headscope::analysis
