// SPDX-License-Identifier: Apache-2.0
// The budget of a decode method, by its choices alone: recorded rows are its steps, and attention is not run.
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "analysis/compare.h"
#include "analysis/search.h"
#include "analysis/types/mass_distribution.h"
#include "kernels/method_names.h"
#include "search/budget_grid.h"
#include "search/setting_search.h"

namespace headscope::analysis {
namespace {

using kernels::Status;
using kernels::StatusCode;

Status CheckDecodeTarget(const kernels::MethodSpec& spec, const BudgetTarget& target) {
  if (target.kind == BudgetTarget::Kind::kMass || target.kind == BudgetTarget::Kind::kKept) return CheckTarget(target);
  return {StatusCode::kUnsupported, "method " + spec.name +
                                        " is a decode method, whose budgets are searched by what they keep: choose a "
                                        "target for the mass or for the share of pairs"};
}

class DecodeSearch {
 public:
  DecodeSearch(const std::vector<std::vector<HeadTensorsPtr>>& heads, const kernels::DecodeMethod& method,
               const kernels::ParameterValues& values, const BudgetTarget& target, const DecodeSearchOptions& options)
      : method_(method), values_(values), target_(target), options_(options) {
    for (const std::vector<HeadTensorsPtr>& recordings : heads) {
      std::vector<MeasuredHeadsPtr>& alone = heads_.emplace_back();
      for (const HeadTensorsPtr& recording : recordings) {
        alone.push_back(AloneHead(recording));
        longest_ = std::max(longest_, recording->num_tokens);
      }
    }
  }

  Status Search(std::vector<BudgetSearchResult>* results) {
    const kernels::ParameterSpec& budget = *Budgets(method_.spec()).front();
    const BudgetGrid grid(budget, longest_);
    const int64_t last = grid.size() - 1;
    // The first place that keeps enough, or the first that keeps too many pairs.
    int64_t before = -1, behind = grid.size();
    while (behind - before > 1) {
      const int64_t middle = before + (behind - before) / 2;
      bool beyond = false;
      if (Status status = IsBeyond(grid, middle, &beyond); !status.ok()) return status;
      (beyond ? behind : before) = middle;
      if (options_.search.progress) {
        options_.search.progress(1 - std::log2(static_cast<double>(behind - before)) /
                                         std::log2(static_cast<double>(grid.size() + 1)));
      }
    }
    const bool by_mass = target_.kind == BudgetTarget::Kind::kMass;
    const int64_t best = by_mass ? std::min(behind, last) : std::max<int64_t>(before, 0);
    const std::vector<BudgetSearchResult>* found = nullptr;
    if (Status status = At(grid, best, &found); !status.ok()) return status;
    *results = *found;
    for (BudgetSearchResult& result : *results) {
      result.reached = by_mass ? behind <= last : before >= 0;
      result.num_masks = static_cast<int32_t>(made_.size());
    }
    return {};
  }

  Status Measure(const kernels::ParameterValues& values, std::vector<BudgetSearchResult>* results) const {
    std::vector<BudgetSearchResult> measured;
    for (const std::vector<MeasuredHeadsPtr>& recordings : heads_) {
      BudgetSearchResult& result = measured.emplace_back();
      result.values = values;
      std::vector<float> masses;
      int64_t kept = 0, attended = 0;
      for (const MeasuredHeadsPtr& recording : recordings) {
        DecodePreview preview;
        const HeadId id{recording->layer, recording->first_qo_head};
        if (Status status = PreviewDecode(*recording, id, method_, values, options_.decode_rows,
                                          options_.search.num_threads, options_.search.stop, &preview);
            !status.ok())
          return status;
        masses.insert(masses.end(), preview.kept_mass.begin(), preview.kept_mass.end());
        for (const KeptStep& step : preview.steps->steps) {
          for (const kernels::ColumnRange& interval : step.kept) kept += interval.end - interval.begin;
          attended += step.attended.end - step.attended.begin;
        }
      }
      result.mass = DistributeMass(masses);
      result.kept_fraction = attended == 0 ? 0 : static_cast<double>(kept) / static_cast<double>(attended);
      result.num_masks = 1;
      result.reached = Meets(target_, result);
    }
    *results = std::move(measured);
    return {};
  }

 private:
  Status At(const BudgetGrid& grid, int64_t place, const std::vector<BudgetSearchResult>** results) {
    auto found = made_.find(place);
    if (found == made_.end()) {
      kernels::ParameterValues values = values_;
      // Grid values are legal by construction.
      static_cast<void>(values.Set(method_.spec(), Budgets(method_.spec()).front()->name, grid.Value(place)));
      std::vector<BudgetSearchResult> made;
      if (Status status = Measure(values, &made); !status.ok()) return status;
      found = made_.emplace(place, std::move(made)).first;
    }
    *results = &found->second;
    return {};
  }

  // Of a mass: every head has enough. Of pairs: all heads together, which have as many steps each, keep too many.
  Status IsBeyond(const BudgetGrid& grid, int64_t place, bool* beyond) {
    const std::vector<BudgetSearchResult>* results = nullptr;
    if (Status status = At(grid, place, &results); !status.ok()) return status;
    if (target_.kind == BudgetTarget::Kind::kMass) {
      *beyond = std::ranges::all_of(*results, &BudgetSearchResult::reached);
      return {};
    }
    double kept = 0;
    for (const BudgetSearchResult& result : *results) kept += result.kept_fraction;
    *beyond = kept > target_.most * static_cast<double>(results->size());
    return {};
  }

  const kernels::DecodeMethod& method_;
  const kernels::ParameterValues& values_;
  const BudgetTarget target_;
  const DecodeSearchOptions& options_;
  std::vector<std::vector<MeasuredHeadsPtr>> heads_;  // by head, then recording
  int64_t longest_ = 0;
  std::map<int64_t, std::vector<BudgetSearchResult>> made_;  // by place
};

}  // namespace

Status SearchDecodeBudget(const std::vector<std::vector<HeadTensorsPtr>>& heads, const kernels::DecodeMethod& method,
                          const kernels::ParameterValues& values, const BudgetTarget& target,
                          const DecodeSearchOptions& options, std::vector<BudgetSearchResult>* results) {
  if (Status status = CheckSearchable(method.spec()); !status.ok()) return status;
  if (Status status = CheckDecodeTarget(method.spec(), target); !status.ok()) return status;
  return DecodeSearch(heads, method, values, target, options).Search(results);
}

Status MeasureDecodeBudget(const std::vector<std::vector<HeadTensorsPtr>>& heads, const kernels::DecodeMethod& method,
                           const kernels::ParameterValues& values, const BudgetTarget& target,
                           const DecodeSearchOptions& options, std::vector<BudgetSearchResult>* results) {
  if (Status status = CheckDecodeTarget(method.spec(), target); !status.ok()) return status;
  return DecodeSearch(heads, method, values, target, options).Measure(values, results);
}

}  // namespace headscope::analysis
