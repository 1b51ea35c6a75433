#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "analysis/search.h"
#include "analysis/types/number_text.h"
#include "compare/model_window.h"
#include "kernels/parallel.h"
#include "search/budget_grid.h"

namespace headscope::analysis {
namespace {

using kernels::ParameterRole;
using kernels::ParameterSpec;
using kernels::Status;
using kernels::StatusCode;

int32_t BitsOf(int64_t count) {
  int32_t bits = 0;
  while (count > 0) {
    ++bits;
    count /= 2;
  }
  return bits;
}

// One place on the grid of each budget; with one budget the second place stays 0.
using Places = std::array<int64_t, 2>;
constexpr int64_t kNone = -1;  // below every place

class Search {
 public:
  Search(std::span<const HeadMass* const> masses, const kernels::PrefillMethod& method,
         const kernels::ParameterValues& values, const BudgetTarget& target, const BudgetSearchOptions& options)
      : masses_(masses), method_(method), values_(values), target_(target), options_(options) {
    int64_t longest = 0;
    double pairs = 0;
    for (const HeadMass* mass : masses) {
      longest = std::max(longest, mass->head().num_tokens);
      pairs += static_cast<double>(AttendedPairs(mass->head()));
    }
    for (const HeadMass* mass : masses)
      share_of_pairs_.push_back(static_cast<double>(AttendedPairs(mass->head())) / pairs);
    for (const ParameterSpec* budget : Budgets(method.spec())) {
      budgets_.push_back(budget);
      grids_.emplace_back(*budget, longest);
    }
    // The largest budgets, then a bisection, or the walk along the coarse border and two bisections between its places.
    most_ = 1;
    for (const BudgetGrid& grid : grids_) {
      most_ += BitsOf(grid.size());
      if (grids_.size() > 1) most_ += static_cast<int32_t>(grid.coarse().size());
    }
  }

  Status Run(BudgetSearchResult* result) {
    Places largest{};
    for (size_t budget = 0; budget < grids_.size(); ++budget) largest[budget] = grids_[budget].size() - 1;
    Places best = largest;
    const bool reached = Reaches(largest);
    if (reached && grids_.size() == 1) {
      best = Lowered(largest, 0, kNone);
    } else if (reached) {
      best = CheapestOfBorder(largest);
      // Lowering the first cannot make room for the second again.
      for (const size_t budget : {size_t{1}, size_t{0}}) best = Lowered(best, budget, CoarseBelow(best, budget));
    }
    if (!status_.ok()) return status_;
    const Mask& mask = made_.at(best);
    result->reached = reached;
    result->values = ValuesAt(best);
    result->kept_fraction = mask.kept_fraction;
    result->mass = mask.mass;
    result->num_masks = static_cast<int32_t>(made_.size());
    return {};
  }

 private:
  struct Mask {
    double kept_fraction = 0;
    MassDistribution mass;
  };

  kernels::ParameterValues ValuesAt(const Places& places) const {
    kernels::ParameterValues values = values_;
    for (size_t budget = 0; budget < grids_.size(); ++budget) {
      // Grid values are legal by construction.
      static_cast<void>(values.Set(method_.spec(), budgets_[budget]->name, grids_[budget].Value(places[budget])));
    }
    return values;
  }

  // What the values keep of every recording.
  Status Try(const kernels::ParameterValues& values, Mask* mask) const {
    std::vector<float> rows;
    double kept_fraction = 0;
    for (size_t i = 0; i < masses_.size(); ++i) {
      if (kernels::IsCancelled(options_.cancelled)) return {StatusCode::kCancelled, "cancelled"};
      MaskPreview preview;
      if (Status status = PreviewMask(*masses_[i], method_, values, options_.num_threads, options_.cancelled, &preview);
          !status.ok())
        return status;
      rows.insert(rows.end(), preview.kept_mass.begin(), preview.kept_mass.end());
      kept_fraction += preview.summary.kept_fraction * share_of_pairs_[i];
    }
    *mask = {kept_fraction, DistributeMass(rows)};
    return {};
  }

  // False as well once a mask could not be made: status_ has the reason, and nothing more is tried.
  bool Reaches(const Places& places) {
    if (!status_.ok()) return false;
    auto made = made_.find(places);
    if (made == made_.end()) {
      Mask mask;
      status_ = Try(ValuesAt(places), &mask);
      if (!status_.ok()) return false;
      made = made_.emplace(places, mask).first;
      const auto count = static_cast<int32_t>(made_.size());
      if (options_.progress) options_.progress(count, std::max(count, most_));
    }
    return made->second.mass.Value(target_.statistic) >= target_.mass;
  }

  // `places`, which reach the target, with one budget at its least place that still does. At `too_little` it does not.
  Places Lowered(Places places, size_t budget, int64_t too_little) {
    Places tried = places;
    while (places[budget] - too_little > 1) {
      tried[budget] = too_little + (places[budget] - too_little) / 2;
      (Reaches(tried) ? places[budget] : too_little) = tried[budget];
    }
    return places;
  }

  int64_t CoarseBelow(const Places& places, size_t budget) const {
    const std::vector<int64_t>& coarse = grids_[budget].coarse();
    const auto here = std::lower_bound(coarse.begin(), coarse.end(), places[budget]);
    return here == coarse.begin() ? kNone : *std::prev(here);
  }

  // Of two budgets, the coarse places on the border between enough and too little with the fewest kept pairs: from the
  // largest first budget down, the second one only rises.
  Places CheapestOfBorder(const Places& largest) {
    const std::vector<int64_t>&first = grids_[0].coarse(), &second = grids_[1].coarse();
    Places best = largest;
    size_t at = 0;
    for (auto place = first.rbegin(); place != first.rend(); ++place) {
      while (at < second.size() && !Reaches({*place, second[at]})) ++at;
      if (at == second.size()) break;
      const Places border{*place, second[at]};
      if (made_.at(border).kept_fraction <= made_.at(best).kept_fraction) best = border;
    }
    return best;
  }

  const std::span<const HeadMass* const> masses_;
  std::vector<double> share_of_pairs_;  // of each, among the attended pairs of all
  const kernels::PrefillMethod& method_;
  const kernels::ParameterValues& values_;
  const BudgetTarget target_;
  const BudgetSearchOptions& options_;
  std::vector<const ParameterSpec*> budgets_;
  std::vector<BudgetGrid> grids_;
  int32_t most_ = 0;
  std::map<Places, Mask> made_;
  Status status_;
};

}  // namespace

std::vector<const ParameterSpec*> Budgets(const kernels::MethodSpec& spec) {
  std::vector<const ParameterSpec*> budgets;
  for (const ParameterSpec& parameter : spec.parameters) {
    if (parameter.role != ParameterRole::kOther) budgets.push_back(&parameter);
  }
  return budgets;
}

Status CheckSearchable(const kernels::MethodSpec& spec) {
  const size_t num_budgets = Budgets(spec).size();
  if (num_budgets == 1 || num_budgets == 2) return {};
  return {StatusCode::kUnsupported, "method " + spec.name + " has " + std::to_string(num_budgets) +
                                        " budgets to search: choose one that has one or two"};
}

Status SearchBudget(const HeadMass& mass, const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                    const BudgetTarget& target, const BudgetSearchOptions& options, BudgetSearchResult* result) {
  const HeadMass* const one[] = {&mass};
  return SearchBudget(one, method, values, target, options, result);
}

Status SearchBudget(std::span<const HeadMass* const> masses, const kernels::PrefillMethod& method,
                    const kernels::ParameterValues& values, const BudgetTarget& target,
                    const BudgetSearchOptions& options, BudgetSearchResult* result) {
  if (Status status = CheckSearchable(method.spec()); !status.ok()) return status;
  if (masses.empty()) return {StatusCode::kInvalidArgument, "there is no head to search: give at least one recording"};
  if (!(target.mass >= 0 && target.mass <= 1)) {
    return {StatusCode::kInvalidArgument,
            "the target for the kept mass is " + FormatNumber("%.4g", target.mass) + ": choose one from 0 to 1"};
  }
  return Search(masses, method, values, target, options).Run(result);
}

std::string UnreachedSentence(const kernels::MethodSpec& spec, const BudgetTarget& target,
                              const BudgetSearchResult& result) {
  std::string names;
  for (const ParameterSpec* budget : Budgets(spec)) names += (names.empty() ? "" : " and ") + budget->name;
  // Rounded down, so that the target that it names can be reached.
  const double most = std::floor(result.mass.Value(target.statistic) * 1e4) / 1e4;
  const char* const queries = target.statistic == MassStatistic::kMinimum           ? "every query"
                              : target.statistic == MassStatistic::kFifthPercentile ? "95 % of the queries"
                                                                                    : "the queries on average";
  return spec.title + " keeps at most " + FormatNumber("%.4g", most) + " of the mass of " + queries + ", with " +
         names + " at the largest: choose a target up to that, or other parameters.";
}

}  // namespace headscope::analysis
