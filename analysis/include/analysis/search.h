// SPDX-License-Identifier: Apache-2.0
// The cheapest setting of a method that keeps a wanted mass of a head, or of several that share it; the best one for a
// given cost; and what lies between: what the window's "Meet target" and `headscope tune` do.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "analysis/compare.h"
#include "analysis/types/mass_distribution.h"
#include "analysis/types/setting_quality.h"

namespace headscope::analysis {

struct BudgetTarget {
  enum class Kind {
    kMass,   // at least `mass` by `statistic`, for the fewest pairs
    kKept,   // at most `most` of the attended pairs, for the most mass (the mean over rows)
    kError,  // an output error of at most `most`, |O - O_dense| / |O_dense| over all rows, for the fewest pairs
    kTime,   // selection and attention in at most `most` of dense attention's time, for the most mass
    // MInference's search: from the given budgets by steps of the larger one to a kernel whose tiles are at most `most`
    // of the attended pairs. Prefill methods.
    kWork,
  };
  double mass = 0.95;  // 0 to 1
  // Which statistic of the rows' kept mass must reach it. The minimum is SampleAttention's CRA; the fifth percentile
  // lets fewer than 5 % of the rows stay below and is not decided by a single row; the mean is what the head as a whole
  // keeps.
  MassStatistic statistic = MassStatistic::kFifthPercentile;
  Kind kind = Kind::kMass;
  double most = 0;  // of kKept, kError, kTime and kWork; above 0
};

struct BudgetSearchOptions {
  int32_t num_threads = 0;
  std::stop_token stop = {};
  // The share that is done, 0 to 1, rising. Called on the caller's thread.
  std::function<void(double share)> progress = {};
  // Of a recording, [num_rows]: the rows that settings are judged by, by their mass and the error of their output.
  // Empty: all. Methods see every row all the same, and kept pairs, work and times are of all.
  std::function<std::vector<uint8_t>(const HeadFrame& recording)> judged_rows = {};
  // Measures the output error of what is found, which costs a dense and a sparse attention of the head.
  bool measure_error = false;
  // The same of the points of a trade-off, and what they take beside dense attention.
  bool measure_point_errors = false, measure_point_times = false;
};

struct BudgetSearchResult : SettingQuality {
  kernels::ParameterValues values;  // `values` of the call with the budgets moved
  int32_t num_masks = 0;            // made on the way
};

// The parameters that SearchBudget moves: those that the registry marks as budgets, in its order.
std::vector<const kernels::ParameterSpec*> Budgets(const kernels::MethodSpec& spec);

// Whether SearchBudget takes the method, before any head is read: kUnsupported, with the reason, when it has no budgets
// or more than two.
kernels::Status CheckSearchable(const kernels::MethodSpec& spec);

// What SearchBudget tries of one budget: the minimum, the multiples of the step above it, and the maximum.
struct SearchedBudget {
  std::string name;
  bool integer = false;
  double minimum = 0, maximum = 0, step = 0;
};
// Of a head whose longest recording has num_tokens: the budget's own range and step in the registry, but an integer one
// ends where it covers the sequence. Its step is the largest divisor of the registry's that gives at least 64 steps (1
// for shorter sequences); of two budgets, doubled while there are more than 800.
// With a start, a kWork search's from there: the budget that is the larger moves by at most that step, and by no more
// than a thirtieth of what it starts with; another one is held until the larger has come down to it, and moves along.
// None that starts above 0 ends at 0.
std::vector<SearchedBudget> SearchedGrid(const kernels::MethodSpec& spec, int64_t num_tokens,
                                         const kernels::ParameterValues* start = nullptr);

// Moves the parameters that the registry marks as budgets (kernels::ParameterRole) and leaves the others at `values`.
//
// The result is that of trying every setting of SearchedGrid: of those that reach the target, the one with the fewest
// kept pairs; of equal ones, that with the smallest first budget, then with the smallest second. Never runs attention.
//
// Method: kept sets grow with a budget, so with one budget bisection finds it, by some 10 masks. With two, the settings
// that are just enough are a border along which one budget rises as the other falls. Methods that say where their
// budgets take each pair (PrefillMethod::EnterBudgets: all of the registry) have it found by one pass over the head's
// probabilities (search/setting_front.h), and a mask or a few confirm it; for others it is walked mask by mask, as many
// as both grids have places. A-shape inside a model's own window, where more sinks may keep less, is bisected beside
// every number of sinks.
//
// A kKept, kError or kTime target is looked for along the trade-off: the settings of the grid that keep the most mass
// (the mean over rows) for their pairs. Of these, kKept takes the last one that is cheap enough; kError, whose error
// falls along it but for noise, and kTime, whose time rises, bisect. Times are those of the CPU, in turn with dense
// attention, the least of three; nothing else should run beside. With two budgets a method that does not say where they
// take each pair, or A-shape inside a model's own window, has the trade-off of at most 16 x 16 settings, evenly spaced
// over the grid.
//
// A kWork target starts from the budgets in `values`, and tries no other setting than those that lie whole steps away
// (SearchedGrid with that start; MInference 1.0, Algorithm 1): several starts, and the best of what each leads to, are
// its search. What keeps no pair at all never reaches a limit.
//
// Errors: a method without budgets or with more than two; a target out of its range; cancelled; what PreviewMask
// refuses.
kernels::Status SearchBudget(const HeadMass& mass, const kernels::PrefillMethod& method,
                             const kernels::ParameterValues& values, const BudgetTarget& target,
                             const BudgetSearchOptions& options, BudgetSearchResult* result);
// One setting for several recordings of one head (other prompts, other lengths): their rows together make the
// distribution, and their pairs together the kept fraction. The grid is the longest one's. Heads are not null and at
// least one; their block masses are made on the way.
kernels::Status SearchBudget(std::span<const HeadTensorsPtr> heads, const kernels::PrefillMethod& method,
                             const kernels::ParameterValues& values, const BudgetTarget& target,
                             const BudgetSearchOptions& options, BudgetSearchResult* result);

// A setting of the trade-off between pairs and mass.
struct TradeOffPoint {
  kernels::ParameterValues values;
  double kept_fraction = 0;                                          // of all heads' attended pairs
  double cra_mean = 0;                                               // mean over all heads' rows
  double relative_error = std::numeric_limits<double>::quiet_NaN();  // the worst head's; NaN: not measured
  double time_share = std::numeric_limits<double>::quiet_NaN();      // as BudgetSearchResult's
};

// The most bytes that a search over so many heads holds of what a method with two budgets keeps at every pair of
// places, beside the heads and their masses; 0 of a method with one budget. num_tokens: of the longest recording.
int64_t FrontBytes(const kernels::MethodSpec& spec, int64_t num_tokens, int64_t num_heads, int32_t num_threads);

// Several searches over the same heads, whose masses and dense outputs are made once, and of the method that was
// searched last what every setting keeps on average. With several heads, they share one setting: each must reach the
// target by itself (kKept: all of them together), for the fewest pairs of all of them.
class BudgetSearcher {
 public:
  // heads: each one's recordings, at least one and none null.
  BudgetSearcher(const std::vector<std::vector<HeadTensorsPtr>>& heads, BudgetSearchOptions options);
  ~BudgetSearcher();
  BudgetSearcher(const BudgetSearcher&) = delete;
  BudgetSearcher& operator=(const BudgetSearcher&) = delete;

  // *results: one a head, with the same values. Errors as SearchBudget's.
  kernels::Status Search(const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                         const BudgetTarget& target, std::vector<BudgetSearchResult>* results);
  // What a setting keeps of each head; `reached` says whether that meets the target.
  kernels::Status Measure(const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                          const BudgetTarget& target, std::vector<BudgetSearchResult>* results);
  // At most most_points of the settings that keep the most mass for their pairs, ascending in both, from the cheapest
  // to the largest: evenly spaced in the logarithm of the pairs. Errors and times measured where the options say so.
  kernels::Status TradeOff(const kernels::PrefillMethod& method, const kernels::ParameterValues& values,
                           int32_t most_points, std::vector<TradeOffPoint>* points);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct DecodeSearchOptions {
  BudgetSearchOptions search;
  int32_t decode_rows = 16;  // last recorded rows that are steps
  // Of heads that are measured in their group, where query heads may share a choice, the one whose mass is judged;
  // without, each is alone.
  std::optional<HeadId> head = {};
};

// The same for decode methods with one budget: what they keep on the last recorded rows, a step each, of heads by
// themselves. More of the budget keeps no less, so every value of SearchedGrid is on the trade-off, and each target is
// found by bisection: of a mass or an error the first value that meets it in every head, of pairs or a time the last
// that all heads together keep within. Where a method refuses the least values (what it keeps in any case is more), the
// grid begins behind them. Attention is run where an error or a time is asked for, and for methods that learn from it.
// Times are the CPU's, selection and attention of all steps in turn with dense decode's, the least of three of each.
class DecodeBudgetSearcher {
 public:
  // heads: each one's recordings, at least one and none null; one query head each (AloneHead) or, for targets of
  // mass, the group of DecodeSearchOptions::head, with the lower layers whose choices the methods take
  // (WithLowerLayers).
  DecodeBudgetSearcher(std::vector<std::vector<MeasuredHeadsPtr>> heads, DecodeSearchOptions options);
  ~DecodeBudgetSearcher();
  DecodeBudgetSearcher(const DecodeBudgetSearcher&) = delete;
  DecodeBudgetSearcher& operator=(const DecodeBudgetSearcher&) = delete;

  // As BudgetSearcher's. Errors: a method without budgets or with more than one; a target out of its range; what
  // PreviewDecode refuses; cancelled.
  kernels::Status Search(const kernels::DecodeMethod& method, const kernels::ParameterValues& values,
                         const BudgetTarget& target, std::vector<BudgetSearchResult>* results);
  kernels::Status Measure(const kernels::DecodeMethod& method, const kernels::ParameterValues& values,
                          const BudgetTarget& target, std::vector<BudgetSearchResult>* results);
  kernels::Status TradeOff(const kernels::DecodeMethod& method, const kernels::ParameterValues& values,
                           int32_t most_points, std::vector<TradeOffPoint>* points);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// kInvalidArgument: a mass or a limit out of its range.
kernels::Status CheckTarget(const BudgetTarget& target);

// "SampleAttention keeps at most 0.93 of the mass of 95 % of the queries, with alpha_c and alpha_s at their largest:
// choose a target of at most 0.93.": of a search that did not reach its target.
std::string UnreachedSentence(const kernels::MethodSpec& spec, const BudgetTarget& target,
                              const BudgetSearchResult& result);

}  // namespace headscope::analysis
