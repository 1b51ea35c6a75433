// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "analysis/search.h"
#include "analysis/types/number_text.h"
#include "kernels/parallel.h"
#include "search/budget_grid.h"
#include "search/searched_head.h"
#include "search/setting_search.h"
#include "search/start_search.h"

namespace headscope::analysis {
namespace {

using kernels::ParameterRole;
using kernels::ParameterSpec;
using kernels::Status;
using kernels::StatusCode;

Status CheckRecorded(const std::vector<SearchedHead>& heads) {
  for (const SearchedHead& head : heads) {
    if (head.recordings().empty())
      return {StatusCode::kInvalidArgument, "there is no head to search: give at least one recording"};
  }
  return {};
}

// Where the method leaves every head's layer dense, no budget means anything, and the given one is left as it is.
bool AllDense(const std::vector<SearchedHead>& heads, const kernels::PrefillMethod& method,
              const kernels::ParameterValues& values) {
  return std::ranges::all_of(heads, [&](const SearchedHead& head) {
    return std::ranges::all_of(head.recordings(), [&](const SearchedHead::Recording& recording) {
      return method.IsDenseLayer(values, recording.head->id.layer);
    });
  });
}

// What the given values keep, as a search describes it.
Status MeasureGiven(std::vector<SearchedHead>* heads, const kernels::PrefillMethod& method,
                    const kernels::ParameterValues& values, const BudgetTarget& target,
                    const BudgetSearchOptions& options, std::vector<BudgetSearchResult>* results) {
  std::vector<BudgetSearchResult> measured;
  for (SearchedHead& head : *heads) {
    SearchedHead::Mask mask;
    if (Status status = head.Try(method, values, &mask); !status.ok()) return status;
    BudgetSearchResult& result = measured.emplace_back();
    if (Status status = Describe(method, values, target, options, mask, &head, &result); !status.ok()) return status;
    result.num_masks = 1;
    if (target.kind == BudgetTarget::Kind::kTime) {
      double own = 0, dense = 0;
      if (Status status = head.MeasureTime(method, values, &own, &dense); !status.ok()) return status;
      result.time_share = own / dense;
    }
    result.reached = Meets(target, result);
  }
  *results = std::move(measured);
  return {};
}

Status CheckAndRun(std::vector<SearchedHead>* heads, const kernels::PrefillMethod& method,
                   const kernels::ParameterValues& values, const BudgetTarget& target,
                   const BudgetSearchOptions& options, MeanFronts* mean_fronts,
                   std::vector<BudgetSearchResult>* results) {
  if (Status status = CheckSearchable(method.spec()); !status.ok()) return status;
  if (Status status = CheckRecorded(*heads); !status.ok()) return status;
  if (Status status = CheckTarget(target); !status.ok()) return status;
  if (AllDense(*heads, method, values)) return MeasureGiven(heads, method, values, target, options, results);
  std::vector<BudgetSearchResult> found;
  const kernels::ParameterValues start = WithBudgetsAlone(method.spec(), values);
  if (Status status = FindSetting(heads, method, start, target, options, mean_fronts, &found); !status.ok())
    return status;
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
  if (num_budgets == 0) {
    return {StatusCode::kUnsupported, "method " + spec.name +
                                          " has no budget to search: compare fixed settings of it, or choose another "
                                          "method"};
  }
  return {StatusCode::kUnsupported, "method " + spec.name + " has " + std::to_string(num_budgets) +
                                        " budgets to search: choose a method with one or two"};
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

std::vector<SearchedBudget> SearchedGrid(const kernels::MethodSpec& spec, int64_t num_tokens,
                                         const kernels::ParameterValues* start) {
  const std::vector<const ParameterSpec*> budgets = Budgets(spec);
  const std::vector<BudgetGrid> grids = GridsOf(spec, num_tokens);
  std::vector<SearchedBudget> searched;
  for (size_t i = 0; i < budgets.size(); ++i) {
    searched.push_back({budgets[i]->name, budgets[i]->type == kernels::ParameterType::kInteger, grids[i].minimum(),
                        grids[i].maximum(),
                        start == nullptr ? grids[i].step() : StepFromStart(spec, *start, num_tokens)});
  }
  return searched;
}

int64_t FrontBytes(const kernels::MethodSpec& spec, int64_t num_tokens, int64_t num_heads, int32_t num_threads) {
  if (Budgets(spec).size() != 2) return 0;
  const std::vector<BudgetGrid> grids = GridsOf(spec, num_tokens);
  const int64_t pairs = (grids[0].size() + 1) * (grids[1].size() + 1);
  return pairs * (num_heads * SettingFront::kBytesKept +
                  kernels::NumWorkers(num_threads, std::numeric_limits<int32_t>::max()) * SettingFront::kBytesOfThread);
}

Status SearchBudget(const HeadMass& mass, const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                    const BudgetTarget& target, const BudgetSearchOptions& options, BudgetSearchResult* result) {
  std::vector<SearchedHead> heads;
  heads.emplace_back(std::vector<SearchedHead::Recording>{{.head = &mass.head(), .mass = &mass}}, options);
  std::vector<BudgetSearchResult> results;
  MeanFronts mean_fronts;
  if (Status status = CheckAndRun(&heads, method, values, target, options, &mean_fronts, &results); !status.ok())
    return status;
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
  MeanFronts mean_fronts;
};

BudgetSearcher::BudgetSearcher(const std::vector<std::vector<HeadTensorsPtr>>& heads, BudgetSearchOptions options)
    : impl_(std::make_unique<Impl>()) {
  impl_->options = std::move(options);
  for (const std::vector<HeadTensorsPtr>& head : heads) impl_->heads.emplace_back(RecordingsOf(head), impl_->options);
}
BudgetSearcher::~BudgetSearcher() = default;

Status BudgetSearcher::Search(const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                              const BudgetTarget& target, std::vector<BudgetSearchResult>* results) {
  return CheckAndRun(&impl_->heads, method, values, target, impl_->options, &impl_->mean_fronts, results);
}

Status BudgetSearcher::Measure(const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                               const BudgetTarget& target, std::vector<BudgetSearchResult>* results) {
  if (Status status = CheckTarget(target); !status.ok()) return status;
  return MeasureGiven(&impl_->heads, method, values, target, impl_->options, results);
}

Status BudgetSearcher::TradeOff(const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                                int32_t most_points, std::vector<TradeOffPoint>* points) {
  if (Status status = CheckSearchable(method.spec()); !status.ok()) return status;
  if (Status status = CheckRecorded(impl_->heads); !status.ok()) return status;
  std::vector<TradeOffPoint> found;
  if (Status status = FindTradeOff(&impl_->heads, method, WithBudgetsAlone(method.spec(), values), most_points,
                                   impl_->options, &impl_->mean_fronts, &found);
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
