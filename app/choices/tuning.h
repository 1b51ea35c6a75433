// SPDX-License-Identifier: Apache-2.0
// What `headscope tune` finds, as people read it (tuning_files.h: as programs do).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/search.h"
#include "base/device.h"
#include "choices/length_range.h"
#include "choices/method_choice.h"
#include "data/trace_schema.h"

namespace headscope::app {

// Heads that share one setting.
enum class TunedUnit { kHead, kLayer, kModel };

// What decides between methods that keep equally little: of a target for the kept pairs. By error, as MInference's
// paper has it, or by mass, as its published code.
enum class TunedCriterion { kMass, kError };

struct TuneTarget {
  std::string text;               // as typed
  analysis::BudgetTarget budget;  // where `limit` is given, its `most` is another one for every unit
  // The kept pairs, or the work, of this setting are the limit: "kept=a-shape:n_sink=1024,n_local=4096".
  std::optional<MethodChoice> limit;
};

// "cra=0.95", "cra-p5=0.95" or "cra-mean=0.95", as it is typed: which statistic of the rows' kept mass, and what
// it must reach, above 0 and below 1; "recall=0.95" is the mean. "error=0.05": what the output's relative error may be.
// "kept=0.25" or "kept=METHOD[:k=v,..]": the share of pairs that may be kept. "time=0.5": the share of dense
// attention's time that selection and attention may take. "work=METHOD:k=v" or "work=0.5": the tiles that a kernel may
// compute, by the attended pairs. Throws UsageError, of the
// field "target".
TuneTarget ParseTarget(const std::string& text);

struct TunedHead {
  analysis::HeadId id;
  size_t method = 0;  // among Tuning::methods
  analysis::BudgetSearchResult found;
  NamedDevice device;       // where its masses were computed
  double outside_mass = 0;  // mean share of a row's mass on tokens before the traces' first, which no setting can keep
  std::optional<analysis::BudgetSearchResult> checked;  // the same setting on the traces that nothing was chosen by
};

// Of one unit and one method.
struct TunedFront {
  std::vector<analysis::HeadId> heads;
  size_t method = 0;
  std::vector<analysis::TradeOffPoint> points;
};

struct Tuning {
  struct Source {
    std::string path, prompt;
    int64_t num_tokens = 0, num_rows = 0;
    int64_t first_token = 0;  // above 0: cut from a longer trace
  };
  struct Searched {
    MethodChoice choice;
    std::vector<analysis::SearchedBudget> grid;  // what was tried of the method's budgets
  };
  struct Layer {  // recorded, with what the model has there
    int32_t number = 0, num_qo_heads = 0, num_kv_heads = 0;
  };
  LengthRange range;  // of the prompts that the settings are for; what the traces are of
  data::ModelInfo model;
  std::vector<Layer> layers;  // rising
  std::vector<Source> traces;
  // What was found is tried on these, which are `traces` again where rows of theirs alone are held out.
  std::vector<Source> checks;
  std::string held_out_rows;  // as typed: of `checks` these alone, and of `traces` the others; empty: all rows of both
  std::vector<Searched> methods;
  TuneTarget target;
  TunedUnit unit = TunedUnit::kHead;
  TunedCriterion criterion = TunedCriterion::kMass;
  // Of decode methods: as many of the last recorded rows are steps; and whether a head is searched in the group that
  // shares a selection of keys, as it runs in a model, instead of by itself.
  int32_t decode_rows = analysis::DecodeSearchOptions().decode_rows;
  bool in_group = false;
  std::vector<TunedHead> heads;
  std::vector<TunedFront> fronts;
  size_t num_heads_chosen = 0;  // more than `heads` when the run was interrupted

  bool is_decode() const { return methods.front().choice.decode != nullptr; }  // all are, or none is
  bool complete() const { return heads.size() == num_heads_chosen; }
  const MethodChoice& MethodOf(const TunedHead& head) const { return methods[head.method].choice; }
  // Output errors, times or the kernel's work were measured.
  bool HasErrors() const;
  bool HasTimes() const;
  bool HasWork() const;
};

// The heads that share a setting. `heads` are sorted by layer.
std::vector<std::vector<analysis::HeadId>> UnitsOf(const std::vector<analysis::HeadId>& heads, TunedUnit unit);
// Whether a target bounds what is kept, so that the best of what lies within is looked for.
bool IsLimitOfPairs(const analysis::BudgetTarget& target);
// What decides unless it is told: between methods under such a target the output's error, as in MInference's paper
// (it costs two attentions a method); else the kept mass.
TunedCriterion UsualCriterion(const analysis::BudgetTarget& target, size_t num_methods);
// "mass", "error" or, for the usual one, nothing. Throws UsageError, of the field "choose".
std::optional<TunedCriterion> ParseCriterion(const std::string& text);
// What decides where `asked` is given; else the usual one. Throws UsageError, of the field "choose", for a target that
// leaves nothing to decide.
TunedCriterion CriterionOf(std::optional<TunedCriterion> asked, const analysis::BudgetTarget& target,
                           size_t num_methods);
// Whether what was found can fail on Tuning::checks: a limit of pairs, work or time is of all rows, so held-out rows
// have their mass and error alone to say.
bool HasVerdictOnChecks(const Tuning& tuning);
// Whether of two methods' settings for the same heads `a` is the better one: that which reaches the target; of both,
// that with fewer pairs or, of a target for the pairs, with more mass or the smaller error; of none, that which comes
// nearer.
bool IsBetter(const analysis::BudgetTarget& target, TunedCriterion criterion,
              const std::vector<analysis::BudgetSearchResult>& a, const std::vector<analysis::BudgetSearchResult>& b);

// "head", "layer", "model".
inline const char* NameOf(TunedUnit unit) {
  switch (unit) {
    case TunedUnit::kHead:
      return "head";
    case TunedUnit::kLayer:
      return "layer";
    case TunedUnit::kModel:
      return "model";
  }
  return "";
}
// The method's name or, where the run has it more than once, what it was given beside its defaults too:
// "sample-attention:chunk_n=2", "vertical-slash:n_vertical=30,n_slash=2048".
std::string MethodLabel(const Tuning& tuning, size_t method);
// "n_vertical=30,n_slash=800": the budgets alone.
std::string BudgetText(const MethodChoice& method, const kernels::ParameterValues& values);
// The points' places that no other method's point of the same heads beats in mass or, where errors decide, in the
// error, and in pairs or, where it was measured, in time.
std::vector<bool> Undominated(const Tuning& tuning, const TunedFront& front);

// One line a head; below the names their units. Then the trade-offs, a line for each point.
std::string TuningTable(const Tuning& tuning);
// One sentence: how many heads, how many reach the target and which do not, what they keep, what was searched.
std::string TuningSummary(const Tuning& tuning);

}  // namespace headscope::app
