// SPDX-License-Identifier: Apache-2.0
// What `headscope tune` finds, and how it is written: for people, for a serving engine, for a table.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/search.h"
#include "commands/method_choice.h"
#include "data/trace_schema.h"

namespace headscope::app {

// "cra=0.95", "cra-p5=0.95" or "cra-mean=0.95", as --target takes it: which statistic of the rows' kept mass, and what
// it must reach, above 0 and below 1. Throws UsageError.
analysis::BudgetTarget ParseTarget(const std::string& text);

struct TunedHead {
  analysis::HeadId id;
  analysis::BudgetSearchResult found;
  std::string device;       // where its masses were computed: "cpu" or the GPU's name
  double outside_mass = 0;  // mean share of a row's mass on tokens before the traces' first, which no setting can keep
};

struct Tuning {
  struct Source {
    std::string path, prompt;
    int64_t num_tokens = 0, num_rows = 0;
    int64_t first_token = 0;  // above 0: cut from a longer trace
  };
  data::ModelInfo model;
  std::vector<Source> traces;
  MethodChoice method;
  std::string target_text;  // as typed
  analysis::BudgetTarget target;
  std::vector<analysis::SearchedBudget> grid;  // what was tried of the method's budgets
  std::vector<TunedHead> heads;
  size_t num_heads_chosen = 0;  // more than `heads` when the run was interrupted

  bool complete() const { return heads.size() == num_heads_chosen; }
};

// One line a head; below the names their units.
std::string TuningTable(const Tuning& tuning);
// Schema headscope-tuning-1 (docs/analysis.md, "A tuned configuration").
std::string TuningJson(const Tuning& tuning);
// One line a head with the same names. What belongs to the whole run is left out, but for `complete`.
std::string TuningCsv(const Tuning& tuning);
// One sentence: how many heads, how many reach the target and which do not, what they keep, what was searched.
std::string TuningSummary(const Tuning& tuning);

}  // namespace headscope::app
