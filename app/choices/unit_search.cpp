// SPDX-License-Identifier: Apache-2.0
#include "choices/unit_search.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "analysis/compare.h"
#include "analysis/outside_mass.h"
#include "analysis/sweep.h"
#include "base/errors.h"
#include "choices/held_out_rows.h"
#include "choices/tuning_traces.h"
#include "kernels/method_names.h"

namespace headscope::app {

analysis::HeadTensorsPtr TunedTrace::Load(analysis::HeadId head, const Device& device) {
  return analysis::LoadHead(*reader_, head, device);
}

analysis::MeasuredHeadsPtr TunedTrace::GroupOf(analysis::HeadId head) {
  return analysis::LoadLayer(*reader_, head, /*most_bytes=*/0);  // at least its own group
}

std::shared_ptr<const std::vector<double>> TunedTrace::MassInTrace(const analysis::HeadTensors& head,
                                                                   int32_t num_threads, const std::stop_token& stop) {
  if (reader_->layout().first_token == 0) return nullptr;
  return std::make_shared<const std::vector<double>>(analysis::MassInTrace(head, num_threads, stop));
}

namespace {

using kernels::Status;
using Kind = analysis::BudgetTarget::Kind;
using Recordings = std::vector<std::vector<analysis::HeadTensorsPtr>>;  // by head, then trace

int64_t LongestOf(const TunedTraces& traces) {
  int64_t longest = 0;
  for (const TunedTrace* trace : traces) longest = std::max(longest, trace->reader().num_tokens());
  return longest;
}

// What a search holds of a method's trade-off, the largest of the methods searched: one is held at a time.
int64_t MostFrontBytes(const Tuning& tuning, const TunedTraces& traces, size_t num_heads, int32_t num_threads) {
  int64_t most = 0;
  for (const Tuning::Searched& method : tuning.methods) {
    if (method.choice.decode != nullptr) continue;
    most = std::max(most, analysis::FrontBytes(*method.choice.spec, LongestOf(traces), static_cast<int64_t>(num_heads),
                                               num_threads));
  }
  return most;
}

// How many lower layers' heads are held beside a head: those whose selections a decode method takes.
int64_t MostLowerLayers(const Tuning& tuning, const std::vector<analysis::HeadId>& heads) {
  size_t most = 0;
  for (const analysis::HeadId& head : heads) {
    std::set<int32_t> layers;
    for (const Tuning::Searched& method : tuning.methods) {
      if (method.choice.decode == nullptr) continue;
      for (const int32_t layer : method.choice.decode->LowerLayers(method.choice.values, head.layer))
        layers.insert(layer);
    }
    most = std::max(most, layers.size());
  }
  return static_cast<int64_t>(most);
}

// The searches over one unit's heads; what fails is told with the method's name.
class MethodSearcher {
 public:
  MethodSearcher(const Tuning& tuning, const TunedTraces& traces, const Recordings& recordings,
                 const analysis::BudgetSearchOptions& options) {
    if (!tuning.is_decode()) {
      prefill_.emplace(recordings, options);
      return;
    }
    std::vector<analysis::AskedMethod> asked;
    const auto add = [&](const MethodChoice& method) {
      asked.push_back({kernels::UniqueName(*method.spec), method.values});
    };
    for (const Tuning::Searched& method : tuning.methods) add(method.choice);
    if (tuning.target.limit) add(*tuning.target.limit);
    std::vector<std::vector<analysis::MeasuredHeadsPtr>> heads;
    for (const std::vector<analysis::HeadTensorsPtr>& head : recordings) {
      heads.emplace_back();
      for (size_t i = 0; i < head.size(); ++i) {
        const analysis::MeasuredHeadsPtr measured =
            tuning.in_group ? traces[i]->GroupOf(head[i]->id) : analysis::AloneHead(head[i]);
        heads.back().push_back(analysis::WithLayersBelow(traces[i]->reader(), measured, asked));
      }
    }
    analysis::DecodeSearchOptions of_steps{.search = options, .decode_rows = tuning.decode_rows};
    if (tuning.in_group) of_steps.head = recordings.front().front()->id;
    decode_.emplace(std::move(heads), of_steps);
  }

  Status Search(const MethodChoice& method, const analysis::BudgetTarget& target,
                std::vector<analysis::BudgetSearchResult>* results) {
    return Named(method, decode_ ? decode_->Search(*method.decode, method.values, target, results)
                                 : prefill_->Search(*method.prefill, method.values, target, results));
  }
  // With these values, whatever they keep.
  Status Measure(const MethodChoice& method, const kernels::ParameterValues& values,
                 const analysis::BudgetTarget& target, std::vector<analysis::BudgetSearchResult>* results) {
    return Named(method, decode_ ? decode_->Measure(*method.decode, values, target, results)
                                 : prefill_->Measure(*method.prefill, values, target, results));
  }
  Status TradeOff(const MethodChoice& method, int32_t most_points, std::vector<analysis::TradeOffPoint>* points) {
    return Named(method, decode_ ? decode_->TradeOff(*method.decode, method.values, most_points, points)
                                 : prefill_->TradeOff(*method.prefill, method.values, most_points, points));
  }

 private:
  static Status Named(const MethodChoice& method, const Status& status) {
    return status.ok() ? status : Status{status.code(), method.name + ": " + status.message()};
  }

  std::optional<analysis::BudgetSearcher> prefill_;
  std::optional<analysis::DecodeBudgetSearcher> decode_;
};

class UnitSearch {
 public:
  UnitSearch(const Tuning& tuning, const TunedTraces& traces, const TunedTraces& checks,
             const std::vector<analysis::HeadId>& unit, const UnitSearchOptions& options)
      : tuning_(tuning),
        traces_(traces),
        checks_(checks),
        unit_(unit),
        options_(options),
        held_out_(tuning.held_out_rows),
        by_time_(tuning.target.budget.kind == Kind::kTime) {}

  Status Run(TunedTogether* together) {
    const Recordings recordings = Load(unit_, traces_);
    analysis::BudgetSearchOptions search = SearchOptions();
    MethodSearcher searcher(tuning_, traces_, recordings, search);
    analysis::BudgetTarget target = tuning_.target.budget;
    if (Status status = Limit(&searcher, &target); !status.ok()) return status;
    std::vector<analysis::BudgetSearchResult> best;
    size_t best_method = 0;
    if (Status status = FindBest(&searcher, target, &best, &best_method, together); !status.ok()) return status;
    for (size_t i = 0; i < unit_.size(); ++i) {
      TunedHead& head = together->heads.emplace_back();
      head.id = unit_[i];
      head.method = best_method;
      head.found = std::move(best[i]);
      head.device = recordings[i].front()->WhereComputed();
      head.outside_mass = MeanOutside(recordings[i], [&, i](size_t trace) {
        return traces_[trace]->MassInTrace(*recordings[i][trace], options_.num_threads, options_.stop);
      });
    }
    search.progress = {};
    search.judged_rows = held_out_.Judge(/*held_out=*/true);
    return Check(search, target, &together->heads);
  }

 private:
  // Decode methods, and whatever is timed, run on the CPU: their heads need not be elsewhere.
  Recordings Load(const std::vector<analysis::HeadId>& heads, const TunedTraces& traces) const {
    const Device device = by_time_ || tuning_.is_decode() ? kCpu : options_.device;
    Recordings recordings;
    for (const analysis::HeadId& head : heads) {
      recordings.emplace_back();
      for (TunedTrace* const trace : traces) recordings.back().push_back(trace->Load(head, device));
    }
    return recordings;
  }

  analysis::BudgetSearchOptions SearchOptions() {
    analysis::BudgetSearchOptions search;
    search.num_threads = options_.num_threads;
    search.stop = options_.stop;
    // Every method has an equal part of the progress, and its trade-off half of that.
    const size_t num_steps = tuning_.methods.size() * (options_.front_points > 0 ? 2 : 1);
    search.progress = [this, num_steps](double share) {
      if (options_.report) options_.report((static_cast<double>(step_) + share) / static_cast<double>(num_steps));
    };
    search.judged_rows = held_out_.Judge(/*held_out=*/false);
    search.measure_error = tuning_.criterion == TunedCriterion::kError;
    search.measure_point_times = by_time_;
    search.measure_point_errors = by_time_ || search.measure_error || tuning_.target.budget.kind == Kind::kError;
    return search;
  }

  // Of a target that is another setting's pairs.
  Status Limit(MethodSearcher* searcher, analysis::BudgetTarget* target) const {
    if (!tuning_.target.limit) return {};
    const MethodChoice& limit = *tuning_.target.limit;
    target->most = 1;
    std::vector<analysis::BudgetSearchResult> kept;
    if (Status status = searcher->Measure(limit, limit.values, *target, &kept); !status.ok()) return status;
    double sum = 0;
    const bool work = target->kind == Kind::kWork;
    for (const analysis::BudgetSearchResult& head : kept) sum += work ? head.work_share : head.kept_fraction;
    // Not so exactly that rounding would leave out a setting of the very same pairs.
    target->most = sum / static_cast<double>(kept.size()) * (1 + 1e-12);
    return {};
  }

  Status FindBest(MethodSearcher* searcher, const analysis::BudgetTarget& target,
                  std::vector<analysis::BudgetSearchResult>* best, size_t* best_method, TunedTogether* together) {
    const size_t steps_of_method = options_.front_points > 0 ? 2 : 1;
    Status refused;
    for (size_t i = 0; i < tuning_.methods.size(); ++i) {
      step_ = i * steps_of_method;
      const MethodChoice& method = tuning_.methods[i].choice;
      std::vector<analysis::BudgetSearchResult> found;
      Status status = searcher->Search(method, target, &found);
      if (status.code() == kernels::StatusCode::kUnsupported) {
        together->passed_over.push_back(status.message());
        refused = std::move(status);
        continue;
      }
      if (!status.ok()) return status;
      if (best->empty() || IsBetter(tuning_.target.budget, tuning_.criterion, found, *best)) {
        *best = std::move(found);
        *best_method = i;
      }
      if (options_.front_points == 0) continue;
      // Now, while the searcher still has what every setting of the method keeps.
      ++step_;
      TunedFront& front = together->fronts.emplace_back();
      front.heads = unit_;
      front.method = i;
      if (status = searcher->TradeOff(method, options_.front_points, &front.points); !status.ok()) return status;
    }
    return best->empty() ? refused : Status();
  }

  // The heads' settings on the traces, or rows, that they were not chosen by.
  Status Check(const analysis::BudgetSearchOptions& search, const analysis::BudgetTarget& target,
               std::vector<TunedHead>* heads) const {
    if (checks_.empty()) return {};
    for (TunedHead& head : *heads) {
      const MethodChoice& method = tuning_.methods[head.method].choice;
      MethodSearcher searcher(tuning_, checks_, Load({head.id}, checks_), search);
      std::vector<analysis::BudgetSearchResult> checked;
      if (Status status = searcher.Measure(method, head.found.values, target, &checked); !status.ok()) return status;
      head.checked = std::move(checked.front());
    }
    return {};
  }

  const Tuning& tuning_;
  const TunedTraces &traces_, &checks_;
  const std::vector<analysis::HeadId>& unit_;
  const UnitSearchOptions& options_;
  const HeldOutRows held_out_;
  const bool by_time_;
  size_t step_ = 0;  // that is under way
};

}  // namespace

std::string NoteOfMethod(const Tuning& tuning, const MethodChoice& method, const data::TraceReader& trace) {
  if (method.decode == nullptr) return {};
  const std::string searched = tuning.in_group ? "the group of a head" : "a head by itself";
  if (method.decode->ChoosesForLayer(method.values))
    return method.name + " makes one choice for all heads of a layer, and " + searched + " was searched with its own";
  const auto has_one_kv_head = [](const data::LayerFacts& layer) { return layer.num_kv_heads == 1; };
  // Such a layer's budget is its KV head's.
  if (!method.decode->SharesLayerBudget(method.values) || std::ranges::all_of(trace.layout().facts, has_one_kv_head))
    return {};
  return method.name + " shares a layer's budget out between its KV heads, and " + searched +
         " was searched with an even share of it";
}

void CheckGroup(const Tuning& tuning) {
  if (!tuning.in_group) return;
  const auto refuse = [](const std::string& problem, const std::string& remedy) {
    throw UsageError({.field = "group", .problem = problem, .remedy = remedy});
  };
  if (!tuning.is_decode()) refuse("prefill methods select for each head by itself", "leave it out");
  if (tuning.target.budget.kind != Kind::kMass || tuning.criterion == TunedCriterion::kError)
    refuse("errors, times and limits are searched for heads by themselves",
           "give a target of the mass, such as cra=0.95");
  if (tuning.unit != TunedUnit::kHead) refuse("a group is searched for one of its heads", "tune per head");
}

int64_t SearchedHeadBytes(const Tuning& tuning, const TunedTraces& traces, const std::vector<analysis::HeadId>& heads,
                          int32_t num_threads) {
  int64_t bytes = MostFrontBytes(tuning, traces, 1, num_threads);
  for (const TunedTrace* trace : traces) bytes += analysis::LargestHeadBytes(trace->reader(), heads);
  return bytes;
}

void CheckUnitMemory(const Tuning& tuning, const TunedTraces& traces, const std::vector<analysis::HeadId>& unit,
                     int32_t num_threads) {
  if (unit.size() <= 1) return;
  constexpr int64_t kMassBytes = int64_t{64} << 20;  // of a head at most (analysis::HeadMass)
  const int64_t layers = 1 + MostLowerLayers(tuning, unit);
  int64_t of_head = 0;
  for (const TunedTrace* const tuned : traces) {
    const data::TraceReader& trace = tuned->reader();
    int64_t elements = 0;  // of q, k and v, in the layer where they are most
    for (const data::LayerFacts& facts : trace.layout().facts) {
      elements = std::max(
          elements, (trace.num_rows() + trace.num_tokens()) * facts.head_dim + trace.num_tokens() * facts.v_head_dim);
    }
    of_head += layers * elements * int64_t{sizeof(float)} +
               std::min(kMassBytes, trace.num_rows() * (trace.num_tokens() / 64 + 1) * int64_t{sizeof(float)});
  }
  const int64_t bytes =
      static_cast<int64_t>(unit.size()) * of_head + MostFrontBytes(tuning, traces, unit.size(), num_threads);
  if (bytes <= analysis::MostMeasuredBytes()) return;
  throw DeviceError(Fault{.field = "per",
                          .problem = std::to_string(unit.size()) + " heads that share a setting take " +
                                     std::to_string(bytes >> 20) +
                                     " MiB together, more than half of the available memory",
                          .remedy = "tune per head, or take fewer heads or a shorter trace"});
}

Status TuneUnit(const Tuning& tuning, const TunedTraces& traces, const TunedTraces& checks,
                const std::vector<analysis::HeadId>& unit, const UnitSearchOptions& options, TunedTogether* together) {
  return UnitSearch(tuning, traces, checks, unit, options).Run(together);
}

}  // namespace headscope::app
