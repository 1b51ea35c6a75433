// SPDX-License-Identifier: Apache-2.0
#include "search/setting_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "compare/model_window.h"
#include "compare/probability_pass.h"
#include "head/head_checks.h"
#include "kernels/parallel.h"
#include "search/start_search.h"

namespace headscope::analysis {
namespace {

using kernels::ParameterSpec;
using kernels::Status;
using kernels::StatusCode;

// One place on the grid of each budget; with one budget the second place stays 0.
using Places = std::array<int64_t, 2>;

// How much a mass of the front's sums may differ from a mask's: both add the same fp32 probabilities, in another order;
// a GPU multiplies anew.
double RoundingOf(const SearchedHead& head) {
  const bool on_gpu =
      std::ranges::any_of(head.recordings(), [](const auto& recording) { return recording.head->gpu != nullptr; });
  return on_gpu ? 2e-4 : 1e-5;
}

class Search {
 public:
  Search(std::vector<SearchedHead>* heads, const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
         const BudgetTarget& target, const BudgetSearchOptions& options, MeanFronts* mean_fronts)
      : heads_(*heads),
        method_(method),
        values_(values),
        target_(target),
        options_(options),
        mean_fronts_(*mean_fronts),
        budgets_(Budgets(method.spec())),
        grids_(GridsOf(method.spec(), Longest(*heads))) {
    for (const SearchedHead& head : heads_) num_pairs_ += head.num_pairs();
  }

  Status Run(std::vector<BudgetSearchResult>* results) {
    Places best{};
    for (size_t budget = 0; budget < grids_.size(); ++budget) best[budget] = grids_[budget].size() - 1;
    bool reached = false;
    if (target_.kind == BudgetTarget::Kind::kMass && target_.statistic != MassStatistic::kMean)
      mean_fronts_ = {};  // one set of fronts at a time
    if (target_.kind != BudgetTarget::Kind::kMass) {
      reached = FollowTradeOff(&best);
    } else if (grids_.size() == 1) {
      reached = Bisect(&best);
    } else if (target_.statistic == MassStatistic::kMean && TakeMeanFronts()) {
      reached = FollowFront(&best);
    } else {
      Entries entries;
      if (Status status = EnterBudgets(&entries); status.ok()) {
        if (!IsUnion(entries)) {
          reached = TryEveryFirst(&best);
        } else if (MakeFronts(entries, target_.statistic, target_.mass)) {
          reached = FollowFront(&best);
        }
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
      result.reached = reached && !IsEmptyUnderLimit(target_, result);
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
    for (const size_t place : chosen) {
      const Places& places = offers[place].places;
      const Masks* const masks = fronts_.empty() ? MasksAt(places) : MasksAsEntered(places);
      if (masks == nullptr) return status_;
      TradeOffPoint& point = points->emplace_back();
      point.values = ValuesAt(places);
      point.kept_fraction = num_pairs_ == 0 ? 0 : static_cast<double>(KeptAt(places)) / static_cast<double>(num_pairs_);
      double own = 0, dense = 0;
      int64_t num_rows = 0;
      for (const SearchedHead::Mask& mask : *masks) num_rows += mask.mass.num_rows;
      for (size_t i = 0; i < heads_.size(); ++i) {
        const SearchedHead::Mask& mask = (*masks)[i];
        point.cra_mean += mask.mass.mean * static_cast<double>(mask.mass.num_rows) / static_cast<double>(num_rows);
        if (options_.measure_point_times) {
          if (Status status = heads_[i].MeasureTime(method_, point.values, &own, &dense); !status.ok()) return status;
        }
        if (!options_.measure_point_errors) continue;
        double error = 0;
        if (Status status = heads_[i].OutputError(method_, point.values, &error); !status.ok()) return status;
        point.relative_error = i == 0 ? error : std::max(point.relative_error, error);
      }
      if (options_.measure_point_times) point.time_share = own / dense;
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

  // Those of an earlier search of the method.
  bool TakeMeanFronts() {
    if (!mean_fronts_.AreOf(method_, values_)) return false;
    fronts_ = mean_fronts_.fronts;
    return true;
  }

  // One pass over every head's probabilities: what each of them keeps at all places, and where enough of
  // `statistic` begins there. Those of the mean stay for the next search.
  bool MakeFronts(const Entries& entries, MassStatistic statistic, double least_mass) {
    size_t num_recordings = 0, done = 0;
    for (const SearchedHead& head : heads_) num_recordings += head.recordings().size();
    if (statistic == MassStatistic::kMean) mean_fronts_ = {};  // another method's, before room is taken for these
    for (size_t i = 0; i < heads_.size(); ++i) {
      SearchedHead& head = heads_[i];
      const auto front =
          std::make_shared<SettingFront>(grids_[0].size(), grids_[1].size(), statistic, least_mass - RoundingOf(head));
      for (size_t j = 0; j < head.recordings().size(); ++j, ++done) {
        const std::function<void(double)> progress = [&](double share) {
          Report(0.95 * (static_cast<double>(done) + share) / static_cast<double>(num_recordings));
        };
        const HeadTensors& recorded = *head.recordings()[j].head;
        status_ = head.Pass(j, front->Add(recorded, head.recordings()[j].judged, *entries[i][j],
                                          NumProbabilityWorkers(recorded, options_.num_threads), progress));
        if (!status_.ok()) return false;
      }
      front->Finish();
      fronts_.push_back(front);
    }
    if (statistic == MassStatistic::kMean) mean_fronts_ = {&method_, values_, fronts_};
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
  bool FollowFront(Places* best) {
    // Of every place of the first budget, the least second one that may be enough for every head.
    std::vector<int64_t> second(static_cast<size_t>(grids_[0].size()), 0);
    for (size_t first = 0; first < second.size(); ++first) {
      for (size_t i = 0; i < fronts_.size(); ++i) {
        const auto place = static_cast<int64_t>(first);
        second[first] =
            std::max(second[first], target_.statistic == MassStatistic::kMean
                                        ? fronts_[i]->LeastSecondOfMean(place, target_.mass - RoundingOf(heads_[i]))
                                        : fronts_[i]->LeastSecond(place));
      }
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
    Status status;
    bool has_fronts = TakeMeanFronts();
    if (!has_fronts) {
      status = EnterBudgets(&entries);
      if (status.ok() && IsUnion(entries)) {
        if (!MakeFronts(entries, MassStatistic::kMean, 0)) return false;
        has_fronts = true;
      }
    }
    if (has_fronts) {
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
  MeanFronts& mean_fronts_;
  const std::vector<const ParameterSpec*> budgets_;
  const std::vector<BudgetGrid> grids_;
  std::map<Places, Masks> made_;
  std::map<Places, double> times_;  // by dense attention's, where they were measured
  // One a head, where one pass has made them.
  std::vector<std::shared_ptr<const SettingFront>> fronts_;
  Status status_;
};

}  // namespace

std::vector<BudgetGrid> GridsOf(const kernels::MethodSpec& spec, int64_t num_tokens) {
  const std::vector<const ParameterSpec*> budgets = Budgets(spec);
  std::vector<BudgetGrid> grids;
  grids.reserve(budgets.size());
  for (const ParameterSpec* budget : budgets)
    grids.emplace_back(*budget, num_tokens, budgets.size() > 1 ? kMostStepsOfTwo : 0);
  return grids;
}

// A result but for `reached` and the number of masks.
Status Describe(const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                const BudgetTarget& target, const BudgetSearchOptions& options, const SearchedHead::Mask& mask,
                SearchedHead* head, BudgetSearchResult* result) {
  result->values = values;
  result->kept_fraction =
      head->num_pairs() == 0 ? 0 : static_cast<double>(mask.kept) / static_cast<double>(head->num_pairs());
  result->mass = mask.mass;
  if (target.kind == BudgetTarget::Kind::kWork) {
    int64_t work = 0;
    if (Status status = head->Work(method, values, &work); !status.ok()) return status;
    result->work_share =
        head->num_pairs() == 0 ? 0 : static_cast<double>(work) / static_cast<double>(head->num_pairs());
  }
  if (!options.measure_error && target.kind != BudgetTarget::Kind::kError) return {};
  return head->OutputError(method, values, &result->relative_error);
}

bool IsEmptyUnderLimit(const BudgetTarget& target, const BudgetSearchResult& result) {
  using Kind = BudgetTarget::Kind;
  return result.kept_fraction == 0 &&
         (target.kind == Kind::kKept || target.kind == Kind::kWork || target.kind == Kind::kTime);
}

bool Meets(const BudgetTarget& target, const BudgetSearchResult& result) {
  if (IsEmptyUnderLimit(target, result)) return false;
  switch (target.kind) {
    case BudgetTarget::Kind::kMass:
      return result.mass.Value(target.statistic) >= target.mass;
    case BudgetTarget::Kind::kKept:
      return result.kept_fraction <= target.most;
    case BudgetTarget::Kind::kError:
      return result.relative_error <= target.most;
    case BudgetTarget::Kind::kWork:
      return result.work_share <= target.most;
    case BudgetTarget::Kind::kTime:
      break;
  }
  return result.time_share <= target.most;
}

Status FindSetting(std::vector<SearchedHead>* heads, const kernels::PrefillMethod& method,
                   const kernels::ParameterValues& values, const BudgetTarget& target,
                   const BudgetSearchOptions& options, MeanFronts* mean_fronts,
                   std::vector<BudgetSearchResult>* results) {
  if (target.kind == BudgetTarget::Kind::kWork) return FindFromStart(heads, method, values, target, options, results);
  return Search(heads, method, values, target, options, mean_fronts).Run(results);
}

Status FindTradeOff(std::vector<SearchedHead>* heads, const kernels::PrefillMethod& method,
                    const kernels::ParameterValues& values, int32_t most_points, const BudgetSearchOptions& options,
                    MeanFronts* mean_fronts, std::vector<TradeOffPoint>* points) {
  return Search(heads, method, values, {}, options, mean_fronts).TradeOff(most_points, points);
}

}  // namespace headscope::analysis
