// SPDX-License-Identifier: Apache-2.0
// The budget of a decode method: recorded rows are its steps.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "analysis/compare.h"
#include "analysis/head_sweeps.h"
#include "analysis/search.h"
#include "analysis/types/mass_distribution.h"
#include "analysis/types/timing.h"
#include "compare/decode_walk.h"
#include "compare/output_error.h"
#include "kernels/contiguous.h"
#include "kernels/cpu_executor.h"
#include "kernels/method_names.h"
#include "search/budget_grid.h"
#include "search/setting_search.h"

namespace headscope::analysis {
namespace {

using kernels::Status;
using Kind = BudgetTarget::Kind;

// One head's recording under a search.
class SearchedSteps {
 public:
  SearchedSteps(MeasuredHeadsPtr head, const DecodeSearchOptions& options)
      : head_(std::move(head)),
        id_(options.head.value_or(HeadId{head_->layer, head_->first_qo_head})),
        steps_(*head_, id_, options.decode_rows),
        options_(options) {}

  const MeasuredHeads& head() const { return *head_; }

  Status Preview(const kernels::DecodeMethod& method, const kernels::ParameterValues& values,
                 DecodePreview* preview) const {
    return PreviewDecode(*head_, id_, method, values, options_.decode_rows, options_.search.num_threads,
                         options_.search.stop, preview);
  }
  Status Runs(const kernels::DecodeMethod& method, const kernels::ParameterValues& values) const {
    return CheckDecodeRuns(*head_, method, values, options_.decode_rows, options_.search.num_threads,
                           options_.search.stop);
  }

  // Every step's output, [steps, v_head_dim]; *milliseconds: selection and attention, the cache's upkeep left out.
  Status Attend(const kernels::DecodeMethod& method, const kernels::ParameterValues& values, std::vector<float>* o,
                double* milliseconds) const {
    if (head_->num_qo_heads != 1)
      return {kernels::StatusCode::kUnsupported, "errors and times are searched for heads by themselves"};
    if (Status status = steps_.Check(id_); !status.ok()) return status;
    const kernels::RunOptions run{options_.search.num_threads, options_.search.stop};
    const kernels::AttentionProblem whole = head_->Problem();
    o->resize(static_cast<size_t>(steps_.count() * head_->ValueDim()));
    DecodeWalk walk(steps_, method, values, whole, RecordedOf(*head_), run);
    if (Status status = walk.Start(); !status.ok()) return status;
    for (int64_t step = 0; step < steps_.count(); ++step) {
      kernels::DecodeSelection selection;
      if (Status status = walk.Select(step, &selection, milliseconds); !status.ok()) return status;
      float* const row = o->data() + step * head_->ValueDim();
      float lse = 0;
      const kernels::AttentionOutput output{kernels::ContiguousTensor<void>(row, 1, 1, head_->ValueDim()), &lse};
      const Stopwatch watch;
      if (Status status = kernels::DecodeCpu(steps_.Problem(whole, step), selection, output, run); !status.ok())
        return status;
      *milliseconds += watch.Milliseconds();
      if (!walk.WantsOutput()) continue;
      if (Status status = walk.Attended(step, selection, row, &lse); !status.ok()) return status;
    }
    return {};
  }

  // Adds the squared norms of the output's difference from dense attention's, and of that.
  Status AddError(const kernels::DecodeMethod& method, const kernels::ParameterValues& values, double* of_difference,
                  double* of_dense) {
    double unused = 0;
    if (dense_.empty()) {
      if (Status status = Attend(kernels::DecodeBaseline(), DenseValues(), &dense_, &unused); !status.ok())
        return status;
    }
    std::vector<float> o;
    if (Status status = Attend(method, values, &o, &unused); !status.ok()) return status;
    double norm = 0;
    for (const float value : dense_) norm += static_cast<double>(value) * static_cast<double>(value);
    const double relative = MeasureError(o.data(), dense_.data(), steps_.count(), head_->ValueDim()).relative;
    *of_difference += relative * relative * norm;
    *of_dense += norm;
    return {};
  }

  Status AddTime(const kernels::DecodeMethod& method, const kernels::ParameterValues& values, double* own_ms,
                 double* dense_ms) const {
    constexpr int kRounds = 3;
    double least_own = std::numeric_limits<double>::infinity(), least_dense = least_own;
    std::vector<float> o;
    for (int round = 0; round < kRounds; ++round) {
      double own = 0, dense = 0;
      if (Status status = Attend(kernels::DecodeBaseline(), DenseValues(), &o, &dense); !status.ok()) return status;
      if (Status status = Attend(method, values, &o, &own); !status.ok()) return status;
      least_own = std::min(least_own, own);
      least_dense = std::min(least_dense, dense);
    }
    *own_ms += least_own;
    *dense_ms += least_dense;
    return {};
  }

 private:
  static kernels::ParameterValues DenseValues() { return kernels::ParameterValues(kernels::DecodeBaseline().spec()); }

  const MeasuredHeadsPtr head_;
  const HeadId id_;
  const DecodeSteps steps_;
  const DecodeSearchOptions& options_;
  std::vector<float> dense_;  // [steps, v_head_dim]; made when it is first needed
};

// One head in all its recordings.
using SearchedHeads = std::vector<std::vector<SearchedSteps>>;

class DecodeSearch {
  static constexpr int32_t kTriedValues = 32;  // of a budget that cannot be bisected

 public:
  DecodeSearch(SearchedHeads* heads, const kernels::DecodeMethod& method, const kernels::ParameterValues& values,
               const BudgetTarget& target, const DecodeSearchOptions& options)
      : heads_(*heads),
        method_(method),
        values_(WithBudgetsAlone(method.spec(), values)),
        target_(target),
        options_(options) {}

  Status Search(std::vector<BudgetSearchResult>* results) {
    if (AllDense()) return Measure(values_, results);
    const BudgetGrid grid = Grid();
    const bool by_cost = target_.kind == Kind::kKept || target_.kind == Kind::kTime;
    int64_t first = 0;
    if (Status status = FindFirst(grid, &first); !status.ok()) return status;
    if (Budget().role == kernels::ParameterRole::kAmount) return TryEach(grid, first, results);
    // The first place that has enough, or the first that costs too much.
    int64_t before = first - 1, behind = grid.size();
    while (behind - before > 1) {
      const int64_t middle = before + (behind - before) / 2;
      bool beyond = false;
      if (Status status = IsBeyond(grid, middle, &beyond); !status.ok()) return status;
      (beyond ? behind : before) = middle;
      Report(1 - std::log2(static_cast<double>(behind - before)) / std::log2(static_cast<double>(grid.size() + 1)));
    }
    const int64_t best = by_cost ? std::max(before, first) : std::min(behind, grid.size() - 1);
    const std::vector<BudgetSearchResult>* found = nullptr;
    if (Status status = At(grid, best, &found); !status.ok()) return status;
    *results = *found;
    for (BudgetSearchResult& result : *results) {
      result.reached = by_cost ? before >= first : behind < grid.size();
      result.num_masks = static_cast<int32_t>(made_.size());
    }
    return {};
  }

  Status Measure(const kernels::ParameterValues& values, std::vector<BudgetSearchResult>* results) {
    return Measure(values, options_.search.measure_error || target_.kind == Kind::kError, target_.kind == Kind::kTime,
                   results);
  }

  Status TradeOff(int32_t most_points, std::vector<TradeOffPoint>* points) {
    const BudgetGrid grid = Grid();
    int64_t first = 0;
    if (Status status = FindFirst(grid, &first); !status.ok()) return status;
    const std::vector<int64_t> places = Spread(first, grid, AllDense() ? 1 : most_points);
    for (const int64_t place : places) {
      std::vector<BudgetSearchResult> found;
      if (Status status = Measure(ValuesAt(grid, place), options_.search.measure_point_errors,
                                  options_.search.measure_point_times, &found);
          !status.ok())
        return status;
      TradeOffPoint& point = points->emplace_back();
      point.values = found.front().values;
      point.kept_fraction = MeanKept(found);
      point.time_share = found.front().time_share;
      point.relative_error = found.front().relative_error;
      for (const BudgetSearchResult& head : found) {
        point.cra_mean += head.mass.mean / static_cast<double>(found.size());
        point.relative_error = std::max(point.relative_error, head.relative_error);
      }
      Report(static_cast<double>(points->size()) / static_cast<double>(places.size()));
    }
    // Of a budget whose larger values may keep less, some keep less mass for more pairs.
    if (Budget().role == kernels::ParameterRole::kAmount) {
      std::ranges::stable_sort(*points, {}, &TradeOffPoint::kept_fraction);
      double most = -1;
      std::erase_if(*points, [&most](const TradeOffPoint& point) {
        const bool worse = point.cra_mean <= most;
        most = std::max(most, point.cra_mean);
        return worse;
      });
    }
    return {};
  }

 private:
  Status Measure(const kernels::ParameterValues& values, bool errors, bool times,
                 std::vector<BudgetSearchResult>* results) {
    std::vector<BudgetSearchResult> measured;
    double own_ms = 0, dense_ms = 0;
    for (std::vector<SearchedSteps>& recordings : heads_) {
      BudgetSearchResult& result = measured.emplace_back();
      result.values = values;
      std::vector<float> masses;
      int64_t kept = 0, attended = 0;
      double of_difference = 0, of_dense = 0;
      for (SearchedSteps& recording : recordings) {
        DecodePreview preview;
        if (Status status = recording.Preview(method_, values, &preview); !status.ok()) return status;
        masses.insert(masses.end(), preview.kept_mass.begin(), preview.kept_mass.end());
        for (const KeptStep& step : preview.steps->steps) {
          for (const kernels::ColumnRange& interval : step.kept) kept += interval.end - interval.begin;
          attended += step.attended.end - step.attended.begin;
        }
        if (errors) {
          if (Status status = recording.AddError(method_, values, &of_difference, &of_dense); !status.ok())
            return status;
        }
        if (times) {
          if (Status status = recording.AddTime(method_, values, &own_ms, &dense_ms); !status.ok()) return status;
        }
      }
      result.mass = DistributeMass(masses);
      result.kept_fraction = attended == 0 ? 0 : static_cast<double>(kept) / static_cast<double>(attended);
      if (errors) result.relative_error = of_dense > 0 ? std::sqrt(of_difference / of_dense) : std::sqrt(of_difference);
      result.num_masks = 1;
    }
    for (BudgetSearchResult& result : measured) {
      if (times) result.time_share = own_ms / dense_ms;
      result.reached = Meets(target_, result);
    }
    *results = std::move(measured);
    return {};
  }

  const kernels::ParameterSpec& Budget() const { return *Budgets(method_.spec()).front(); }

  // Of a budget whose larger values may keep less: of the values that are tried, those that meet the target, and of
  // these the one with the fewest pairs or, under a limit, with the most mass.
  Status TryEach(const BudgetGrid& grid, int64_t first, std::vector<BudgetSearchResult>* results) {
    const bool by_cost = target_.kind == Kind::kKept || target_.kind == Kind::kTime;
    const std::vector<int64_t> places = Spread(first, grid, kTriedValues);
    const auto rank = [by_cost](const std::vector<BudgetSearchResult>& found) {
      double mass = 0;
      for (const BudgetSearchResult& head : found) mass += head.mass.mean;
      return by_cost ? mass : -MeanKept(found);
    };
    const std::vector<BudgetSearchResult>* best = nullptr;
    for (const int64_t place : places) {
      const std::vector<BudgetSearchResult>* found = nullptr;
      if (Status status = At(grid, place, &found); !status.ok()) return status;
      bool beyond = false;
      if (Status status = IsBeyond(grid, place, &beyond); !status.ok()) return status;
      if (beyond != by_cost && (best == nullptr || rank(*found) > rank(*best))) best = found;
      Report(static_cast<double>(made_.size()) / static_cast<double>(places.size()));
    }
    const bool reached = best != nullptr;
    if (!reached) {
      if (Status status = At(grid, by_cost ? places.front() : places.back(), &best); !status.ok()) return status;
    }
    *results = *best;
    for (BudgetSearchResult& result : *results) {
      result.reached = reached;
      result.num_masks = static_cast<int32_t>(made_.size());
    }
    return {};
  }

  // Where the method leaves every head's layer dense, no budget means anything, and the given one is left as it is.
  bool AllDense() const {
    return std::ranges::all_of(heads_, [&](const std::vector<SearchedSteps>& recordings) {
      return std::ranges::all_of(recordings, [&](const SearchedSteps& recording) {
        return method_.IsDenseLayer(values_, recording.head().layer);
      });
    });
  }

  BudgetGrid Grid() const {
    int64_t longest = 0;
    for (const std::vector<SearchedSteps>& recordings : heads_) {
      for (const SearchedSteps& recording : recordings) longest = std::max(longest, recording.head().num_tokens);
    }
    return {Budget(), longest};
  }

  // The first, the last, and what lies evenly between them in the logarithm of the budget.
  static std::vector<int64_t> Spread(int64_t first, const BudgetGrid& grid, int32_t most) {
    const int64_t last = grid.size() - 1;
    std::vector<int64_t> places = {first};
    const double low = std::log(grid.Value(first) + 1), high = std::log(grid.Value(last) + 1);
    for (int64_t place = first + 1; place < last; ++place) {
      const double share = (std::log(grid.Value(place) + 1) - low) / (high - low);
      // Those that are left have room before the last.
      if (std::ssize(places) + 1 < most && share * (most - 1) >= static_cast<double>(places.size()))
        places.push_back(place);
    }
    if (last > first && most > 1) places.push_back(last);
    return places;
  }

  void Report(double share) const {
    if (options_.search.progress) options_.search.progress(share);
  }

  kernels::ParameterValues ValuesAt(const BudgetGrid& grid, int64_t place) const {
    kernels::ParameterValues values = values_;
    // Grid values are legal by construction.
    static_cast<void>(values.Set(method_.spec(), Budget().name, grid.Value(place)));
    return values;
  }

  Status Runs(const kernels::ParameterValues& values) const {
    for (const std::vector<SearchedSteps>& recordings : heads_) {
      for (const SearchedSteps& recording : recordings) {
        if (Status status = recording.Runs(method_, values); !status.ok()) return status;
      }
    }
    return {};
  }

  // The first place at which the method runs, which it does at all behind: a budget may have to hold what is kept in
  // any case.
  Status FindFirst(const BudgetGrid& grid, int64_t* first) const {
    int64_t fails = -1, runs = grid.size() - 1;
    if (Status status = Runs(ValuesAt(grid, runs)); !status.ok()) return status;
    int64_t next = 0;  // mostly it is this one
    while (runs - fails > 1) {
      Status status = Runs(ValuesAt(grid, next));
      if (!status.ok() && !MeansItDoesNotRun(status)) return status;
      (status.ok() ? runs : fails) = next;
      next = fails + (runs - fails) / 2;
    }
    *first = runs;
    return {};
  }

  Status At(const BudgetGrid& grid, int64_t place, const std::vector<BudgetSearchResult>** results) {
    auto found = made_.find(place);
    if (found == made_.end()) {
      std::vector<BudgetSearchResult> made;
      if (Status status = Measure(ValuesAt(grid, place), &made); !status.ok()) return status;
      found = made_.emplace(place, std::move(made)).first;
    }
    *results = &found->second;
    return {};
  }

  // Heads have as many steps each.
  static double MeanKept(const std::vector<BudgetSearchResult>& results) {
    double kept = 0;
    for (const BudgetSearchResult& result : results) kept += result.kept_fraction;
    return kept / static_cast<double>(results.size());
  }

  // Of a mass or an error: every head meets the target. Of pairs or a time: all heads together cost too much.
  Status IsBeyond(const BudgetGrid& grid, int64_t place, bool* beyond) {
    const std::vector<BudgetSearchResult>* results = nullptr;
    if (Status status = At(grid, place, &results); !status.ok()) return status;
    switch (target_.kind) {
      case Kind::kKept:
        *beyond = MeanKept(*results) > target_.most;
        break;
      case Kind::kTime:
        *beyond = results->front().time_share > target_.most;
        break;
      case Kind::kWork:  // refused before
      case Kind::kMass:
      case Kind::kError:
        *beyond = std::ranges::all_of(*results, &BudgetSearchResult::reached);
        break;
    }
    return {};
  }

  SearchedHeads& heads_;
  const kernels::DecodeMethod& method_;
  kernels::ParameterValues values_;
  const BudgetTarget target_;
  const DecodeSearchOptions& options_;
  std::map<int64_t, std::vector<BudgetSearchResult>> made_;  // by place
};

}  // namespace

struct DecodeBudgetSearcher::Impl {
  DecodeSearchOptions options;
  SearchedHeads heads;
};

DecodeBudgetSearcher::DecodeBudgetSearcher(std::vector<std::vector<MeasuredHeadsPtr>> heads,
                                           DecodeSearchOptions options)
    : impl_(std::make_unique<Impl>()) {
  impl_->options = std::move(options);
  for (std::vector<MeasuredHeadsPtr>& recordings : heads) {
    std::vector<SearchedSteps>& head = impl_->heads.emplace_back();
    for (MeasuredHeadsPtr& recording : recordings) head.emplace_back(std::move(recording), impl_->options);
  }
}
DecodeBudgetSearcher::~DecodeBudgetSearcher() = default;

Status DecodeBudgetSearcher::Search(const kernels::DecodeMethod& method, const kernels::ParameterValues& values,
                                    const BudgetTarget& target, std::vector<BudgetSearchResult>* results) {
  if (Status status = CheckSearchable(method.spec()); !status.ok()) return status;
  if (Status status = CheckTarget(target); !status.ok()) return status;
  return DecodeSearch(&impl_->heads, method, values, target, impl_->options).Search(results);
}

Status DecodeBudgetSearcher::Measure(const kernels::DecodeMethod& method, const kernels::ParameterValues& values,
                                     const BudgetTarget& target, std::vector<BudgetSearchResult>* results) {
  if (Status status = CheckTarget(target); !status.ok()) return status;
  return DecodeSearch(&impl_->heads, method, values, target, impl_->options).Measure(values, results);
}

Status DecodeBudgetSearcher::TradeOff(const kernels::DecodeMethod& method, const kernels::ParameterValues& values,
                                      int32_t most_points, std::vector<TradeOffPoint>* points) {
  if (Status status = CheckSearchable(method.spec()); !status.ok()) return status;
  std::vector<TradeOffPoint> found;
  if (Status status = DecodeSearch(&impl_->heads, method, values, {}, impl_->options).TradeOff(most_points, &found);
      !status.ok())
    return status;
  *points = std::move(found);
  return {};
}

}  // namespace headscope::analysis
