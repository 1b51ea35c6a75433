#include "search/budget_grid.h"

#include <algorithm>
#include <cmath>

namespace headscope::analysis {
namespace {

constexpr int64_t kEvenParts = 10;  // of a linear parameter's coarse grid, and of a share's last part

}  // namespace

BudgetGrid::BudgetGrid(const kernels::ParameterSpec& spec, int64_t num_tokens)
    : minimum_(spec.minimum), maximum_(spec.maximum), step_(spec.step) {
  if (spec.type == kernels::ParameterType::kInteger)
    maximum_ = std::max(minimum_, std::min(maximum_, static_cast<double>(num_tokens)));
  // A multiple that is the minimum or the maximum but for rounding is that end itself.
  constexpr double kRounding = 1e-9;
  first_multiple_ = static_cast<int64_t>(std::floor(minimum_ / step_ + kRounding)) + 1;
  const auto last_multiple = static_cast<int64_t>(std::ceil(maximum_ / step_ - kRounding)) - 1;
  const int64_t multiples = std::max<int64_t>(0, last_multiple - first_multiple_ + 1);
  size_ = 1 + multiples + (maximum_ > minimum_ ? 1 : 0);
  if (spec.logarithmic) {
    coarse_.push_back(0);
    for (int64_t place = 1; place < size_ - 1; place *= 2) coarse_.push_back(place);
  } else {
    AddCoarse(0, size_ - 1);
    // The last few hundredths of the mass lie on most of the keys: between the last two even places, a share goes from
    // too little for most targets to everything.
    if (spec.role == kernels::ParameterRole::kMassShare) AddCoarse(coarse_.back(), size_ - 1);
  }
  if (coarse_.empty() || coarse_.back() < size_ - 1) coarse_.push_back(size_ - 1);
}

void BudgetGrid::AddCoarse(int64_t begin, int64_t end) {
  for (int64_t part = 0; part < kEvenParts; ++part) {
    const int64_t place = begin + (end - begin) * part / kEvenParts;
    if (coarse_.empty() || coarse_.back() < place) coarse_.push_back(place);
  }
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

}  // namespace headscope::analysis
