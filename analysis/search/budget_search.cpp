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
#include "search/searched_head.h"
#include "search/setting_front.h"

namespace headscope::analysis {
namespace {

using kernels::ParameterRole;
using kernels::ParameterSpec;
using kernels::Status;
using kernels::StatusCode;

// One place on the grid of each budget; with one budget the second place stays 0.
using Places = std::array<int64_t, 2>;

std::vector<BudgetGrid> GridsOf(const kernels::MethodSpec& spec, int64_t num_tokens) {
  const std::vector<const ParameterSpec*> budgets = Budgets(spec);
  std::vector<BudgetGrid> grids;
  grids.reserve(budgets.size());
  for (const ParameterSpec* budget : budgets)
    grids.emplace_back(*budget, num_tokens, budgets.size() > 1 ? kMostStepsOfTwo : 0);
  return grids;
}

// How much a mass of the front's sums may differ from a mask's: both add the same fp32 probabilities, in another order;
// a GPU multiplies anew.
double RoundingOf(const SearchedHead& head) {
  const bool on_gpu =
      std::ranges::any_of(head.recordings(), [](const auto& recording) { return recording.head->gpu != nullptr; });
  return on_gpu ? 2e-4 : 1e-5;
}

// A result but for `reached` and the number of masks.
Status Describe(const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                const BudgetTarget& target, const BudgetSearchOptions& options, const SearchedHead::Mask& mask,
                SearchedHead* head, BudgetSearchResult* result) {
  result->values = values;
  result->kept_fraction =
      head->num_pairs() == 0 ? 0 : static_cast<double>(mask.kept) / static_cast<double>(head->num_pairs());
  result->mass = mask.mass;
  if (!options.measure_error && target.kind != BudgetTarget::Kind::kError) return {};
  return head->OutputError(method, values, &result->relative_error);
}

class Search {
 public:
  Search(std::vector<SearchedHead>* heads, const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
         const BudgetTarget& target, const BudgetSearchOptions& options)
      : heads_(*heads),
        method_(method),
        values_(values),
        target_(target),
        options_(options),
        budgets_(Budgets(method.spec())),
        grids_(GridsOf(method.spec(), Longest(*heads))) {
    for (const SearchedHead& head : heads_) num_pairs_ += head.num_pairs();
  }

  Status Run(std::vector<BudgetSearchResult>* results) {
    Places best{};
    for (size_t budget = 0; budget < grids_.size(); ++budget) best[budget] = grids_[budget].size() - 1;
    bool reached = false;
    if (target_.kind != BudgetTarget::Kind::kMass) {
      reached = FollowTradeOff(&best);
    } else if (grids_.size() == 1) {
      reached = Bisect(&best);
    } else {
      Entries entries;
      if (Status status = EnterBudgets(&entries); status.ok()) {
        reached = IsUnion(entries) ? FollowFront(entries, &best) : TryEveryFirst(&best);
      } else if (status.code() == StatusCode::kUnsupported) {
        reached = WalkBorder(&best);
      } else {
        return status;
      }
    }
    // Of a target out of reach, the largest budgets are what there is to say.
    const Masks* const masks = MasksAt(best);
    if (masks == nullptr) return status_;
    for (size_t i = 0; i < heads_.size(); ++i) {
      BudgetSearchResult& result = results->emplace_back();
      if (Status status = Describe(method_, ValuesAt(best), target_, options_, (*masks)[i], &heads_[i], &result);
          !status.ok())
        return status;
      result.reached = reached;
      if (const auto time = times_.find(best); time != times_.end()) result.time_share = time->second;
      result.num_masks = static_cast<int32_t>(made_.size());
    }
    return {};
  }

  Status TradeOff(int32_t most_points, std::vector<TradeOffPoint>* points) {
    std::vector<Offer> offers;
    if (!(grids_.size() == 1 ? OfferOneBudget(&offers) : OfferTwoBudgets(&offers))) return status_;
    const std::vector<size_t> chosen = Spread(&offers, most_points);
    if (!status_.ok()) return status_;
    size_t num_rows = 0;
    for (const SearchedHead& head : heads_) {
      for (const auto& recording : head.recordings()) num_rows += static_cast<size_t>(recording.head->num_rows);
    }
    for (const size_t place : chosen) {
      const Places& places = offers[place].places;
      const Masks* const masks = fronts_.empty() ? MasksAt(places) : MasksAsEntered(places);
      if (masks == nullptr) return status_;
      TradeOffPoint& point = points->emplace_back();
      point.values = ValuesAt(places);
      point.kept_fraction = num_pairs_ == 0 ? 0 : static_cast<double>(KeptAt(places)) / static_cast<double>(num_pairs_);
      for (size_t i = 0; i < heads_.size(); ++i) {
        const SearchedHead::Mask& mask = (*masks)[i];
        point.cra_mean += mask.mass.mean * static_cast<double>(mask.mass.num_rows) / static_cast<double>(num_rows);
        if (!options_.measure_error) continue;
        double error = 0;
        if (Status status = heads_[i].OutputError(method_, point.values, &error); !status.ok()) return status;
        point.relative_error = i == 0 ? error : std::max(point.relative_error, error);
      }
    }
    return {};
  }

 private:
  using Masks = std::vector<SearchedHead::Mask>;                                      // one a head
  using Entries = std::vector<std::vector<std::unique_ptr<kernels::BudgetEntries>>>;  // by head, then recording

  static int64_t Longest(const std::vector<SearchedHead>& heads) {
    int64_t longest = 0;
    for (const SearchedHead& head : heads) longest = std::max(longest, head.LongestRecording());
    return longest;
  }

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

  // The masks there of the first heads, so many that `enough` says it is enough; null once one could not be made:
  // status_ has the reason, and nothing more is tried.
  template <typename Enough>
  const Masks* MakeMasks(const Places& places, const Enough& enough) {
    if (!status_.ok()) return nullptr;
    Masks& masks = made_[places];
    while (masks.size() < heads_.size() && !enough(masks)) {
      SearchedHead::Mask mask;
      status_ = heads_[masks.size()].Try(method_, ValuesAt(places), &mask);
      if (!status_.ok()) return nullptr;
      masks.push_back(mask);
    }
    return &masks;
  }
  const Masks* MasksAt(const Places& places) {
    return MakeMasks(places, [](const Masks&) { return false; });
  }

  // Every head does. False as well once a mask could not be made.
  bool Reaches(const Places& places) {
    const auto misses = [&](const SearchedHead::Mask& mask) {
      return !(mask.mass.Value(target_.statistic) >= target_.mass);
    };
    const Masks* const masks = MakeMasks(places, [&](const Masks& some) { return std::ranges::any_of(some, misses); });
    return masks != nullptr && std::ranges::none_of(*masks, misses);
  }

  // Of all heads, whose masks have been made there.
  int64_t KeptAt(const Places& places) const {
    int64_t kept = 0;
    for (const SearchedHead::Mask& mask : made_.at(places)) kept += mask.kept;
    return kept;
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

  Status EnterBudgets(Entries* entries) const {
    const std::vector<double> first = grids_[0].Values(), second = grids_[1].Values();
    for (const SearchedHead& head : heads_) {
      entries->emplace_back();
      for (const SearchedHead::Recording& recording : head.recordings()) {
        if (Status status = CheckPrefillHead(*recording.head); !status.ok()) return status;
        entries->back().emplace_back();
        if (Status status = method_.EnterBudgets(recording.head->Problem(), values_, first, second,
                                                 {options_.num_threads, options_.stop}, &entries->back().back());
            !status.ok())
          return status;
      }
    }
    return {};
  }

  // Inside a model's window, a sink takes the place of the local column that it would have been, and leaves its row
  // tile early (compare/model_window.h): there more sinks may keep less.
  bool IsUnion(const Entries& entries) const {
    for (size_t i = 0; i < heads_.size(); ++i) {
      for (size_t j = 0; j < entries[i].size(); ++j) {
        if (entries[i][j]->IsElementRule() && WindowHides(*heads_[i].recordings()[j].head)) return false;
      }
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
      if (!reached || KeptAt(least) < KeptAt(*best)) *best = least;
      reached = true;
    }
    return reached;
  }

  // One pass over every head's probabilities: what each of them keeps at all places, and where enough of
  // `statistic` begins there.
  bool MakeFronts(const Entries& entries, MassStatistic statistic, double least_mass) {
    size_t num_recordings = 0, done = 0;
    for (const SearchedHead& head : heads_) num_recordings += head.recordings().size();
    for (size_t i = 0; i < heads_.size(); ++i) {
      SearchedHead& head = heads_[i];
      fronts_.push_back(
          std::make_unique<SettingFront>(grids_[0].size(), grids_[1].size(), statistic, least_mass - RoundingOf(head)));
      for (size_t j = 0; j < head.recordings().size(); ++j, ++done) {
        const std::function<void(double)> progress = [&](double share) {
          Report(0.95 * (static_cast<double>(done) + share) / static_cast<double>(num_recordings));
        };
        const HeadTensors& recorded = *head.recordings()[j].head;
        status_ = head.Pass(j, fronts_.back()->Add(recorded, *entries[i][j],
                                                   NumProbabilityWorkers(recorded, options_.num_threads), progress));
        if (!status_.ok()) return false;
      }
      fronts_.back()->Finish();
    }
    return true;
  }

  int64_t FrontPairs(const Places& places) const {
    int64_t kept = 0;
    for (const auto& front : fronts_) kept += front->KeptPairs(places[0], places[1]);
    return kept;
  }

  // The masks there; null, too, with the reason in status_, where they are not what the entries said.
  const Masks* MasksAsEntered(const Places& places) {
    const Masks* const masks = MasksAt(places);
    if (masks == nullptr || KeptAt(places) == FrontPairs(places)) return masks;
    status_ = {StatusCode::kUnsupported, "method " + method_.spec().name + " keeps " + std::to_string(KeptAt(places)) +
                                             " pairs with " + ValuesAt(places).ToString(method_.spec()) +
                                             " and enters " + std::to_string(FrontPairs(places)) +
                                             ": its budgets cannot be searched"};
    return nullptr;
  }

  // All settings from one pass over the probabilities. Its sums differ from a mask's by rounding, so they say for every
  // first budget how much of the second one is too little for certain; the cheapest that is left is looked at as a
  // mask, until one reaches the target.
  bool FollowFront(const Entries& entries, Places* best) {
    if (!MakeFronts(entries, target_.statistic, target_.mass)) return false;
    // Of every place of the first budget, the least second one that may be enough for every head.
    std::vector<int64_t> second(static_cast<size_t>(grids_[0].size()), 0);
    for (size_t first = 0; first < second.size(); ++first) {
      for (const auto& front : fronts_)
        second[first] = std::max(second[first], front->LeastSecond(static_cast<int64_t>(first)));
    }
    while (const auto cheapest = Cheapest(second)) {
      if (MasksAsEntered(*cheapest) == nullptr) return false;
      if (Reaches(*cheapest)) {
        *best = *cheapest;
        return true;
      }
      // Too little beside a smaller first budget as well.
      for (int64_t first = 0; first <= (*cheapest)[0]; ++first) {
        int64_t& least = second[static_cast<size_t>(first)];
        least = std::max(least, (*cheapest)[1] + 1);
      }
    }
    return false;
  }

  // The pair with the fewest kept pairs, of equal ones that with the smallest first budget. None: nothing may be
  // enough.
  std::optional<Places> Cheapest(const std::vector<int64_t>& second) const {
    std::optional<Places> cheapest;
    int64_t least_kept = 0;
    for (size_t first = 0; first < second.size(); ++first) {
      if (second[first] >= grids_[1].size()) continue;
      const Places places{static_cast<int64_t>(first), second[first]};
      const int64_t kept = FrontPairs(places);
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
      if (!reached || KeptAt(border) <= KeptAt(*best)) *best = border;
      reached = true;
      Report(static_cast<double>(grids_[0].size() - first + second) / steps);
    }
    return reached && status_.ok();
  }

  // A setting of the trade-off: what it keeps of all heads' pairs, and the mean over their rows.
  struct Offer {
    Places places{};
    int64_t kept = 0;
    double mass = 0;
  };

  bool FollowTradeOff(Places* best) {
    std::vector<Offer> offers;
    if (!(grids_.size() == 1 ? OfferOneBudget(&offers) : OfferTwoBudgets(&offers))) return false;
    const bool by_cost = target_.kind != BudgetTarget::Kind::kError;
    // The first offer that is not cheap enough any more, or the first whose error is small enough.
    size_t before = 0, behind = offers.size();
    while (before < behind) {
      const size_t middle = before + (behind - before) / 2;
      bool beyond = false;
      if (!IsBeyond(offers[middle].places, &beyond)) return false;
      (beyond ? behind : before) = beyond ? middle : middle + 1;
      Report(0.95 + 0.05 / static_cast<double>(1 + behind - before));
    }
    const bool reached = by_cost ? before > 0 : before < offers.size();
    const size_t chosen = by_cost ? (reached ? before - 1 : 0) : (reached ? before : offers.size() - 1);
    *best = offers[chosen].places;
    if (!fronts_.empty() && MasksAsEntered(*best) == nullptr) return false;
    return reached;
  }

  // Whether the places keep more or take longer than the target lets them, or err no more than it does. False: status_
  // says why not.
  bool IsBeyond(const Places& places, bool* beyond) {
    if (target_.kind == BudgetTarget::Kind::kKept) {
      if (fronts_.empty() && MasksAt(places) == nullptr) return false;
      const auto kept = static_cast<double>(fronts_.empty() ? KeptAt(places) : FrontPairs(places));
      *beyond = kept > target_.most * static_cast<double>(num_pairs_);
      return true;
    }
    if (target_.kind == BudgetTarget::Kind::kTime) {
      double own = 0, dense = 0;
      for (SearchedHead& head : heads_) {
        status_ = head.MeasureTime(method_, ValuesAt(places), &own, &dense);
        if (!status_.ok()) return false;
      }
      times_[places] = own / dense;
      *beyond = own > target_.most * dense;
      return true;
    }
    *beyond = true;
    for (SearchedHead& head : heads_) {
      double error = 0;
      status_ = head.OutputError(method_, ValuesAt(places), &error);
      if (!status_.ok()) return false;
      *beyond = *beyond && error <= target_.most;
    }
    return true;
  }

  // More of the one budget keeps no fewer pairs and no less mass: every place is on the trade-off.
  bool OfferOneBudget(std::vector<Offer>* offers) {
    for (int64_t place = 0; place < grids_[0].size(); ++place) offers->push_back({.places = {place, 0}});
    return true;
  }

  bool OfferTwoBudgets(std::vector<Offer>* offers) {
    Entries entries;
    if (Status status = EnterBudgets(&entries); status.ok() && IsUnion(entries)) {
      if (!MakeFronts(entries, MassStatistic::kMean, 0)) return false;
      for (int64_t first = 0; first < grids_[0].size(); ++first) {
        for (int64_t second = 0; second < grids_[1].size(); ++second) {
          Offer offer{{first, second}, FrontPairs({first, second}), 0};
          for (const auto& front : fronts_) offer.mass += front->MeanMass(first, second);
          offers->push_back(offer);
        }
      }
    } else if (!status.ok() && status.code() != StatusCode::kUnsupported) {
      status_ = status;
      return false;
    } else if (!OfferByMasks(offers)) {
      return false;
    }
    // Ascending in both: an offer that another one beats in both is none. Of equal ones the first stays, which has the
    // smallest first budget.
    std::ranges::stable_sort(
        *offers, [](const Offer& a, const Offer& b) { return a.kept != b.kept ? a.kept < b.kept : a.mass > b.mass; });
    double most = -1;
    std::erase_if(*offers, [&](const Offer& offer) {
      const bool beaten = offer.mass <= most;
      most = std::max(most, offer.mass);
      return beaten;
    });
    return true;
  }

  // The first, the last, and what lies evenly between them in the logarithm of the kept pairs: places among the offers.
  // One budget's offers know their pairs by masks alone, and are thinned by their places before.
  std::vector<size_t> Spread(std::vector<Offer>* offers, int32_t most) {
    if (fronts_.empty() && grids_.size() == 1) {
      constexpr size_t kMasks = 64;
      std::vector<Offer> some;
      const size_t count = std::min(offers->size(), kMasks);
      for (size_t i = 0; i < count; ++i) {
        Offer offer = (*offers)[count == 1 ? 0 : i * (offers->size() - 1) / (count - 1)];
        if (MasksAt(offer.places) == nullptr) return {};
        offer.kept = KeptAt(offer.places);
        some.push_back(offer);
        Report(0.95 * static_cast<double>(i) / static_cast<double>(count));
      }
      *offers = std::move(some);
    }
    std::vector<size_t> chosen;
    if (offers->empty() || most < 1) return chosen;
    // Below half a per cent there is little to choose between.
    const double least = std::max(1.0, static_cast<double>(num_pairs_) / 200);
    const auto log_kept = [&](size_t place) {
      return std::log(std::max(least, static_cast<double>((*offers)[place].kept)));
    };
    const double first = log_kept(0), last = log_kept(offers->size() - 1);
    size_t place = 0;
    for (int32_t i = 0; i < most; ++i) {
      const double wanted = most == 1 ? last : first + (last - first) * i / (most - 1);
      while (place + 1 < offers->size() && log_kept(place) < wanted - 1e-12) ++place;
      if (chosen.empty() || chosen.back() != place) chosen.push_back(place);
    }
    return chosen;
  }

  bool OfferByMasks(std::vector<Offer>* offers) {
    constexpr int64_t kMost = 16;  // places of either budget
    const auto spread = [kMost](int64_t size) {
      std::vector<int64_t> places;
      const int64_t count = std::min(size, kMost);
      for (int64_t i = 0; i < count; ++i) places.push_back(count == 1 ? size - 1 : i * (size - 1) / (count - 1));
      return places;
    };
    const std::vector<int64_t> firsts = spread(grids_[0].size()), seconds = spread(grids_[1].size());
    for (const int64_t first : firsts) {
      for (const int64_t second : seconds) {
        const Masks* const masks = MasksAt({first, second});
        if (masks == nullptr) return false;
        Offer offer{{first, second}, KeptAt({first, second}), 0};
        for (const SearchedHead::Mask& mask : *masks) offer.mass += mask.mass.mean;
        offers->push_back(offer);
        Report(0.95 * static_cast<double>(offers->size()) / static_cast<double>(firsts.size() * seconds.size()));
      }
    }
    return true;
  }

  std::vector<SearchedHead>& heads_;
  int64_t num_pairs_ = 0;  // attended, of all heads
  const kernels::PrefillMethod& method_;
  const kernels::ParameterValues& values_;
  const BudgetTarget target_;
  const BudgetSearchOptions& options_;
  const std::vector<const ParameterSpec*> budgets_;
  const std::vector<BudgetGrid> grids_;
  std::map<Places, Masks> made_;
  std::map<Places, double> times_;                     // by dense attention's, where they were measured
  std::vector<std::unique_ptr<SettingFront>> fronts_;  // one a head, where one pass has made them
  Status status_;
};

Status CheckRecorded(const std::vector<SearchedHead>& heads) {
  for (const SearchedHead& head : heads) {
    if (head.recordings().empty())
      return {StatusCode::kInvalidArgument, "there is no head to search: give at least one recording"};
  }
  return {};
}

Status CheckAndRun(std::vector<SearchedHead>* heads, const kernels::PrefillMethod& method,
                   const kernels::ParameterValues& values, const BudgetTarget& target,
                   const BudgetSearchOptions& options, std::vector<BudgetSearchResult>* results) {
  if (Status status = CheckSearchable(method.spec()); !status.ok()) return status;
  if (Status status = CheckRecorded(*heads); !status.ok()) return status;
  if (Status status = CheckTarget(target); !status.ok()) return status;
  std::vector<BudgetSearchResult> found;
  if (Status status = Search(heads, method, values, target, options).Run(&found); !status.ok()) return status;
  *results = std::move(found);
  return {};
}

std::vector<SearchedHead::Recording> RecordingsOf(std::span<const HeadTensorsPtr> heads) {
  std::vector<SearchedHead::Recording> recordings;
  for (const HeadTensorsPtr& head : heads) recordings.push_back({.head = head.get(), .owned_head = head});
  return recordings;
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

Status CheckTarget(const BudgetTarget& target) {
  if (target.kind == BudgetTarget::Kind::kMass) {
    if (target.mass >= 0 && target.mass <= 1) return {};
    return {StatusCode::kInvalidArgument,
            "the target for the kept mass is " + FormatNumber("%.4g", target.mass) + ": choose one from 0 to 1"};
  }
  if (target.most > 0 && std::isfinite(target.most)) return {};
  return {StatusCode::kInvalidArgument,
          "the target is at most " + FormatNumber("%.4g", target.most) + ": choose a number above 0"};
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
  std::vector<SearchedHead> heads;
  heads.emplace_back(std::vector<SearchedHead::Recording>{{.head = &mass.head(), .mass = &mass}}, options);
  std::vector<BudgetSearchResult> results;
  if (Status status = CheckAndRun(&heads, method, values, target, options, &results); !status.ok()) return status;
  *result = std::move(results.front());
  return {};
}

Status SearchBudget(std::span<const HeadTensorsPtr> heads, const kernels::PrefillMethod& method,
                    const kernels::ParameterValues& values, const BudgetTarget& target,
                    const BudgetSearchOptions& options, BudgetSearchResult* result) {
  std::vector<BudgetSearchResult> results;
  BudgetSearcher searcher({{heads.begin(), heads.end()}}, options);
  if (Status status = searcher.Search(method, values, target, &results); !status.ok()) return status;
  *result = std::move(results.front());
  return {};
}

struct BudgetSearcher::Impl {
  BudgetSearchOptions options;
  std::vector<SearchedHead> heads;
};

BudgetSearcher::BudgetSearcher(const std::vector<std::vector<HeadTensorsPtr>>& heads, BudgetSearchOptions options)
    : impl_(std::make_unique<Impl>()) {
  impl_->options = std::move(options);
  for (const std::vector<HeadTensorsPtr>& head : heads) impl_->heads.emplace_back(RecordingsOf(head), impl_->options);
}
BudgetSearcher::~BudgetSearcher() = default;

Status BudgetSearcher::Search(const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                              const BudgetTarget& target, std::vector<BudgetSearchResult>* results) {
  return CheckAndRun(&impl_->heads, method, values, target, impl_->options, results);
}

Status BudgetSearcher::Measure(const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                               const BudgetTarget& target, std::vector<BudgetSearchResult>* results) {
  if (Status status = CheckTarget(target); !status.ok()) return status;
  std::vector<BudgetSearchResult> measured;
  for (SearchedHead& head : impl_->heads) {
    SearchedHead::Mask mask;
    if (Status status = head.Try(method, values, &mask); !status.ok()) return status;
    BudgetSearchResult& result = measured.emplace_back();
    if (Status status = Describe(method, values, target, impl_->options, mask, &head, &result); !status.ok())
      return status;
    result.num_masks = 1;
    switch (target.kind) {
      case BudgetTarget::Kind::kMass:
        result.reached = mask.mass.Value(target.statistic) >= target.mass;
        break;
      case BudgetTarget::Kind::kKept:
        result.reached = result.kept_fraction <= target.most;
        break;
      case BudgetTarget::Kind::kError:
        result.reached = result.relative_error <= target.most;
        break;
      case BudgetTarget::Kind::kTime: {
        double own = 0, dense = 0;
        if (Status status = head.MeasureTime(method, values, &own, &dense); !status.ok()) return status;
        result.time_share = own / dense;
        result.reached = result.time_share <= target.most;
        break;
      }
    }
  }
  *results = std::move(measured);
  return {};
}

Status BudgetSearcher::TradeOff(const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                                int32_t most_points, std::vector<TradeOffPoint>* points) {
  if (Status status = CheckSearchable(method.spec()); !status.ok()) return status;
  if (Status status = CheckRecorded(impl_->heads); !status.ok()) return status;
  std::vector<TradeOffPoint> found;
  if (Status status = analysis::Search(&impl_->heads, method, values, {}, impl_->options).TradeOff(most_points, &found);
      !status.ok())
    return status;
  *points = std::move(found);
  return {};
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
