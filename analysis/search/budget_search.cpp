// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analysis/search.h"
#include "analysis/types/number_text.h"
#include "compare/model_window.h"
#include "compare/probability_pass.h"
#include "head/head_checks.h"
#include "kernels/parallel.h"
#include "search/budget_grid.h"
#include "search/setting_front.h"

namespace headscope::analysis {
namespace {

using kernels::ParameterRole;
using kernels::ParameterSpec;
using kernels::Status;
using kernels::StatusCode;

// One place on the grid of each budget; with one budget the second place stays 0.
using Places = std::array<int64_t, 2>;

// One prompt's recording of the head. Without masses so far: they are made in the first pass over its probabilities.
struct Recording {
  const HeadTensors* head = nullptr;
  HeadTensorsPtr owned_head = nullptr;
  const HeadMass* mass = nullptr;
  std::shared_ptr<const HeadMass> owned_mass = nullptr;

  void Own(std::shared_ptr<const HeadMass> made) {
    owned_mass = std::move(made);
    mass = owned_mass.get();
  }
};

int64_t LongestOf(const std::vector<Recording>& recordings) {
  int64_t longest = 0;
  for (const Recording& recording : recordings) longest = std::max(longest, recording.head->num_tokens);
  return longest;
}

std::vector<BudgetGrid> GridsOf(const kernels::MethodSpec& spec, int64_t num_tokens) {
  const std::vector<const ParameterSpec*> budgets = Budgets(spec);
  std::vector<BudgetGrid> grids;
  grids.reserve(budgets.size());
  for (const ParameterSpec* budget : budgets)
    grids.emplace_back(*budget, num_tokens, budgets.size() > 1 ? kMostStepsOfTwo : 0);
  return grids;
}

Status Cancelled() {
  return {StatusCode::kCancelled, "cancelled"};
}

// How much a mass of the front's sums may differ from a mask's: both add the same fp32 probabilities, in another order;
// a GPU multiplies anew.
double RoundingOf(const std::vector<Recording>& recordings) {
  const bool on_gpu = std::ranges::any_of(recordings, [](const Recording& one) { return one.head->gpu != nullptr; });
  return on_gpu ? 2e-4 : 1e-5;
}

class Search {
 public:
  Search(std::vector<Recording> recordings, const kernels::PrefillMethod& method,
         const kernels::ParameterValues& values, const BudgetTarget& target, const BudgetSearchOptions& options)
      : recordings_(std::move(recordings)),
        method_(method),
        values_(values),
        target_(target),
        options_(options),
        budgets_(Budgets(method.spec())),
        grids_(GridsOf(method.spec(), LongestOf(recordings_))) {
    for (const Recording& recording : recordings_) num_pairs_ += AttendedPairs(*recording.head);
  }

  Status Run(BudgetSearchResult* result) {
    Places best{};
    for (size_t budget = 0; budget < grids_.size(); ++budget) best[budget] = grids_[budget].size() - 1;
    bool reached = false;
    if (grids_.size() == 1) {
      reached = Bisect(&best);
    } else {
      std::vector<std::unique_ptr<kernels::BudgetEntries>> entries;
      if (Status status = EnterBudgets(&entries); status.ok()) {
        reached = IsUnion(entries) ? FollowFront(entries, &best) : TryEveryFirst(&best);
      } else if (status.code() == StatusCode::kUnsupported) {
        reached = WalkBorder(&best);
      } else {
        return status;
      }
    }
    // Of a target out of reach, the largest budgets are what there is to say.
    if (!reached) Reaches(best);
    if (!status_.ok()) return status_;
    const Mask& mask = made_.at(best);
    result->reached = reached;
    result->values = ValuesAt(best);
    result->kept_fraction = num_pairs_ == 0 ? 0 : static_cast<double>(mask.kept) / static_cast<double>(num_pairs_);
    result->mass = mask.mass;
    result->num_masks = static_cast<int32_t>(made_.size());
    return {};
  }

 private:
  struct Mask {
    int64_t kept = 0;  // pairs
    MassDistribution mass;
  };

  void Report(double share) const {
    if (options_.progress) options_.progress(share);
  }

  kernels::ParameterValues ValuesAt(const Places& places) const {
    kernels::ParameterValues values = values_;
    for (size_t budget = 0; budget < grids_.size(); ++budget) {
      // Grid values are legal by construction.
      static_cast<void>(values.Set(method_.spec(), budgets_[budget]->name, grids_[budget].Value(places[budget])));
    }
    return values;
  }

  // What the values keep of every recording.
  Status Try(const kernels::ParameterValues& values, Mask* mask) {
    std::vector<float> rows;
    int64_t kept = 0;
    for (Recording& recording : recordings_) {
      if (recording.mass == nullptr)
        recording.Own(HeadMass::Compute(recording.owned_head, options_.num_threads, options_.stop));
      if (recording.mass == nullptr || options_.stop.stop_requested()) return Cancelled();
      MaskPreview preview;
      if (Status status = PreviewMask(*recording.mass, method_, values, options_.num_threads, options_.stop, &preview);
          !status.ok())
        return status;
      rows.insert(rows.end(), preview.kept_mass.begin(), preview.kept_mass.end());
      kept += kernels::CountPairs(preview.index->View()).kept;
    }
    *mask = {kept, DistributeMass(rows)};
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
    }
    return made->second.mass.Value(target_.statistic) >= target_.mass;
  }

  // One budget: *best, its largest place, becomes the least that reaches the target, if that does.
  bool Bisect(Places* best) {
    if (!Reaches(*best)) return false;
    int64_t too_little = -1;
    const double most = std::log2(static_cast<double>((*best)[0] + 1));
    for (int64_t& place = (*best)[0]; place - too_little > 1;) {
      Report(1 - std::log2(static_cast<double>(place - too_little)) / (most + 1));
      const int64_t middle = too_little + (place - too_little) / 2;
      (Reaches({middle, 0}) ? place : too_little) = middle;
    }
    return true;
  }

  Status EnterBudgets(std::vector<std::unique_ptr<kernels::BudgetEntries>>* entries) const {
    const std::vector<double> first = grids_[0].Values(), second = grids_[1].Values();
    for (const Recording& recording : recordings_) {
      if (Status status = CheckPrefillHead(*recording.head); !status.ok()) return status;
      entries->emplace_back();
      if (Status status = method_.EnterBudgets(recording.head->Problem(), values_, first, second,
                                               {options_.num_threads, options_.stop}, &entries->back());
          !status.ok())
        return status;
    }
    return {};
  }

  // Inside a model's window, a sink takes the place of the local column that it would have been, and leaves its row
  // tile early (compare/model_window.h): there more sinks may keep less.
  bool IsUnion(const std::vector<std::unique_ptr<kernels::BudgetEntries>>& entries) const {
    for (size_t i = 0; i < entries.size(); ++i) {
      if (entries[i]->IsElementRule() && WindowHides(*recordings_[i].head)) return false;
    }
    return true;
  }

  // Every place of the first budget, with the second one, which keeps more the larger it is, by bisection. *best is the
  // largest places before.
  bool TryEveryFirst(Places* best) {
    bool reached = false;
    const int64_t last = grids_[1].size() - 1;
    for (int64_t first = 0; first < grids_[0].size() && status_.ok(); ++first) {
      Report(static_cast<double>(first) / static_cast<double>(grids_[0].size()));
      if (!Reaches({first, last})) continue;
      int64_t enough = last;
      for (int64_t too_little = -1; enough - too_little > 1;) {
        const int64_t middle = too_little + (enough - too_little) / 2;
        (Reaches({first, middle}) ? enough : too_little) = middle;
      }
      if (!status_.ok()) return false;
      const Places least{first, enough};
      if (!reached || made_.at(least).kept < made_.at(*best).kept) *best = least;
      reached = true;
    }
    return reached;
  }

  // All settings from one pass over the probabilities. Its sums differ from a mask's by rounding, so they say for every
  // first budget how much of the second one is too little for certain; the cheapest that is left is looked at as a
  // mask, until one reaches the target.
  bool FollowFront(const std::vector<std::unique_ptr<kernels::BudgetEntries>>& entries, Places* best) {
    SettingFront front(grids_[0].size(), grids_[1].size(), target_.statistic, target_.mass - RoundingOf(recordings_));
    const auto num_recordings = static_cast<double>(recordings_.size());
    for (size_t i = 0; i < recordings_.size(); ++i) {
      Recording& recording = recordings_[i];
      const std::function<void(double)> progress = [&](double share) {
        Report(0.95 * (static_cast<double>(i) + share) / num_recordings);
      };
      const VisitProbabilities visit = front.Add(
          *recording.head, *entries[i], NumProbabilityWorkers(*recording.head, options_.num_threads), progress);
      bool finished = false;
      if (recording.mass == nullptr) {
        recording.Own(HeadMass::Compute(recording.owned_head, options_.num_threads, options_.stop, visit));
        finished = recording.mass != nullptr;
      } else {
        finished = PassProbabilities(*recording.head, options_.num_threads, options_.stop, nullptr, visit);
      }
      if (!finished) {
        status_ = Cancelled();
        return false;
      }
    }
    front.Finish();
    std::vector<int64_t> second;  // of every place of the first budget, the least one that may be enough
    for (int64_t first = 0; first < grids_[0].size(); ++first) second.push_back(front.LeastSecond(first));
    while (status_.ok()) {
      const auto cheapest = Cheapest(front, second);
      if (!cheapest) return false;
      const Places& places = *cheapest;
      const bool reached = Reaches(places);
      if (status_.ok() && made_.at(places).kept != front.KeptPairs(places[0], places[1])) {
        status_ = {StatusCode::kUnsupported,
                   "method " + method_.spec().name + " keeps " + std::to_string(made_.at(places).kept) +
                       " pairs with " + ValuesAt(places).ToString(method_.spec()) + " and enters " +
                       std::to_string(front.KeptPairs(places[0], places[1])) + ": its budgets cannot be searched"};
        return false;
      }
      if (reached) {
        *best = places;
        return true;
      }
      // Too little beside a smaller first budget as well.
      for (int64_t first = 0; first <= places[0]; ++first) {
        int64_t& least = second[static_cast<size_t>(first)];
        least = std::max(least, places[1] + 1);
      }
    }
    return false;
  }

  // The pair with the fewest kept pairs, of equal ones that with the smallest first budget. None: nothing may be
  // enough.
  std::optional<Places> Cheapest(const SettingFront& front, const std::vector<int64_t>& second) const {
    std::optional<Places> cheapest;
    int64_t least_kept = 0;
    for (size_t first = 0; first < second.size(); ++first) {
      if (second[first] >= grids_[1].size()) continue;
      const Places places{static_cast<int64_t>(first), second[first]};
      const int64_t kept = front.KeptPairs(places[0], places[1]);
      if (cheapest && kept >= least_kept) continue;
      cheapest = places;
      least_kept = kept;
    }
    return cheapest;
  }

  // By masks alone: from the largest first budget down, the least second one that reaches the target only rises, and
  // more of it keeps no fewer pairs. *best is the largest places before.
  bool WalkBorder(Places* best) {
    bool reached = false;
    int64_t second = 0;
    const auto steps = static_cast<double>(grids_[0].size() + grids_[1].size());
    for (int64_t first = grids_[0].size() - 1; first >= 0 && status_.ok(); --first) {
      while (second < grids_[1].size() && !Reaches({first, second})) {
        ++second;
        Report(static_cast<double>(grids_[0].size() - 1 - first + second) / steps);
      }
      if (second == grids_[1].size()) break;
      const Places border{first, second};
      // Of equal ones, that with the smallest first budget.
      if (!reached || made_.at(border).kept <= made_.at(*best).kept) *best = border;
      reached = true;
      Report(static_cast<double>(grids_[0].size() - first + second) / steps);
    }
    return reached && status_.ok();
  }

  std::vector<Recording> recordings_;
  int64_t num_pairs_ = 0;  // attended, of all recordings
  const kernels::PrefillMethod& method_;
  const kernels::ParameterValues& values_;
  const BudgetTarget target_;
  const BudgetSearchOptions& options_;
  const std::vector<const ParameterSpec*> budgets_;
  const std::vector<BudgetGrid> grids_;
  std::map<Places, Mask> made_;
  Status status_;
};

Status CheckAndRun(std::vector<Recording> recordings, const kernels::PrefillMethod& method,
                   const kernels::ParameterValues& values, const BudgetTarget& target,
                   const BudgetSearchOptions& options, BudgetSearchResult* result) {
  if (Status status = CheckSearchable(method.spec()); !status.ok()) return status;
  if (recordings.empty())
    return {StatusCode::kInvalidArgument, "there is no head to search: give at least one recording"};
  if (!(target.mass >= 0 && target.mass <= 1)) {
    return {StatusCode::kInvalidArgument,
            "the target for the kept mass is " + FormatNumber("%.4g", target.mass) + ": choose one from 0 to 1"};
  }
  return Search(std::move(recordings), method, values, target, options).Run(result);
}

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

std::vector<SearchedBudget> SearchedGrid(const kernels::MethodSpec& spec, int64_t num_tokens) {
  const std::vector<const ParameterSpec*> budgets = Budgets(spec);
  const std::vector<BudgetGrid> grids = GridsOf(spec, num_tokens);
  std::vector<SearchedBudget> searched;
  for (size_t i = 0; i < budgets.size(); ++i) {
    searched.push_back({budgets[i]->name, budgets[i]->type == kernels::ParameterType::kInteger, grids[i].minimum(),
                        grids[i].maximum(), grids[i].step()});
  }
  return searched;
}

Status SearchBudget(const HeadMass& mass, const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                    const BudgetTarget& target, const BudgetSearchOptions& options, BudgetSearchResult* result) {
  return CheckAndRun({{.head = &mass.head(), .mass = &mass}}, method, values, target, options, result);
}

Status SearchBudget(std::span<const HeadTensorsPtr> heads, const kernels::PrefillMethod& method,
                    const kernels::ParameterValues& values, const BudgetTarget& target,
                    const BudgetSearchOptions& options, BudgetSearchResult* result) {
  std::vector<Recording> recordings;
  for (const HeadTensorsPtr& head : heads) recordings.push_back({.head = head.get(), .owned_head = head});
  return CheckAndRun(std::move(recordings), method, values, target, options, result);
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
