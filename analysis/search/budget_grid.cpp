// SPDX-License-Identifier: Apache-2.0
#include "search/budget_grid.h"

#include <algorithm>
#include <cmath>

#include "analysis/search.h"

namespace headscope::analysis {
namespace {

double FittingStep(double step, double maximum, int64_t most_steps) {
  const auto whole = static_cast<int64_t>(step);
  int64_t fitting = std::max<int64_t>(whole, 1);
  while (fitting > 1 && (whole % fitting != 0 || maximum < static_cast<double>(BudgetGrid::kFewestSteps * fitting)))
    --fitting;
  while (most_steps > 0 && maximum > static_cast<double>(most_steps * fitting)) fitting *= 2;
  return static_cast<double>(fitting);
}

}  // namespace

BudgetGrid::BudgetGrid(const kernels::ParameterSpec& spec, int64_t num_tokens, int64_t most_steps)
    : minimum_(std::max(spec.minimum, spec.least_budget)), maximum_(spec.maximum), step_(spec.step) {
  if (spec.type == kernels::ParameterType::kInteger) {
    maximum_ = LargestUseful(spec, num_tokens, /*head_dim=*/0);
    step_ = FittingStep(step_, maximum_, most_steps);
  }
  // A multiple that is the minimum or the maximum but for rounding is that end itself.
  constexpr double kRounding = 1e-9;
  first_multiple_ = static_cast<int64_t>(std::floor(minimum_ / step_ + kRounding)) + 1;
  const auto last_multiple = static_cast<int64_t>(std::ceil(maximum_ / step_ - kRounding)) - 1;
  const int64_t multiples = std::max<int64_t>(0, last_multiple - first_multiple_ + 1);
  size_ = 1 + multiples + (maximum_ > minimum_ ? 1 : 0);
}

double BudgetGrid::Value(int64_t place) const {
  if (place <= 0) return minimum_;
  if (place >= size_ - 1) return maximum_;
  const auto multiple = static_cast<double>(first_multiple_ + place - 1);
  // Steps such as 0.01 have an inexact product with their number; by the whole number of steps in 1 they do not, and
  // the value reads as 0.29.
  const double per_one = std::round(1 / step_);
  return step_ < 1 && std::abs(per_one * step_ - 1) < 1e-12 ? multiple / per_one : multiple * step_;
}

std::vector<double> BudgetGrid::Values() const {
  std::vector<double> values;
  for (int64_t place = 0; place < size_; ++place) values.push_back(Value(place));
  return values;
}

kernels::ParameterValues WithBudgetsAlone(const kernels::MethodSpec& spec, kernels::ParameterValues values) {
  for (const kernels::ParameterSpec* budget : Budgets(spec)) {
    for (const kernels::ParameterSpec& parameter : spec.parameters) {
      if (parameter.instead_of == budget->name)
        static_cast<void>(values.Set(spec, parameter.name, parameter.minimum));  // legal
    }
  }
  return values;
}

}  // namespace headscope::analysis
