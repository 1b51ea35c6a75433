// SPDX-License-Identifier: Apache-2.0
// Heads tuned at one target, and the configuration of all of them: `headscope tune` for the window.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "analysis/search.h"
#include "kernels/method_names.h"
#include "mass_cache.h"
#include "opened_trace.h"
#include "ui/workbench.h"

namespace headscope::app {

// What the window's searches aim at: fewer than 5 % of the rows below `share` of their mass.
analysis::BudgetTarget WindowTarget(double share);

// A method of either phase, as kernels::FindMethod knows it, to be run on the trace. Methods of files are shared by the
// window's traces, which may be of different models. Throws UsageError for what is none, and BadInputError as
// CheckMethodIsOfModel.
kernels::NamedMethod MethodFor(const data::TraceReader& trace, const std::string& name);

// The cheapest values of a decode method on the last `decode_rows` rows of a head, a step each: of AloneHead as
// `headscope tune` finds them, or of the head's group, in which it shares choices, as masks and runs are made.
kernels::Status SearchDecode(const OpenedTrace& trace, analysis::HeadId head,
                             const analysis::MeasuredHeadsPtr& measured, const kernels::DecodeMethod& method,
                             const kernels::ParameterValues& values, double target,
                             const analysis::DecodeSearchOptions& options, analysis::BudgetSearchResult* found);

// Throws FailedError, with a sentence for people, where the target was out of reach.
const kernels::ParameterValues& ReachedValues(const kernels::MethodSpec& spec, double target,
                                              const analysis::BudgetSearchResult& found);

// The cheapest values of a method on one head at a target: what the window's Meet target does. `alone` as below;
// `unsupported` takes whether the head lacks what the method needs, or the target is out of reach, where this throws.
kernels::ParameterValues MeetTarget(OpenedTrace& trace, analysis::HeadId head, const ui::TuneSettings::Method& method,
                                    double target, bool alone, const analysis::BudgetSearchOptions& options,
                                    MassCache* masses, bool* unsupported);

// Calls of work over many heads: one at a time, on any of its threads.
template <typename T>
struct HeadsCalls {
  std::function<void(T)> one;
  std::function<void(ui::FailedHead)> failed;
  std::function<void(double share)> progress;  // of all heads, 0 to 1
};

// Of each head, or of the heads that share a setting, the cheapest of the methods' settings that reaches the target,
// several at a time (choices/unit_search.h, which is `headscope tune`'s search too). Throws UsageError for what is no
// method or target; returns early when stopped.
void TuneHeads(OpenedTrace& trace, const std::vector<analysis::HeadId>& heads, const ui::TuneSettings& settings,
               const HeadsCalls<ui::TunedSetting>& calls, const std::stop_token& stop);
// Each statistic that a target can be about, once.
std::vector<ui::TuneTargetChoice> TuneTargets();
// Whether a target's search takes times, which nothing should run beside. Throws UsageError for what is no target.
bool IsTimed(const ui::TuneSettings& settings);

// What ExportTuning writes.
std::vector<ui::TuningFile> TuningFiles();
// As `headscope tune -o` writes it: the kind of `file`, or by the extension of `path`. Replaces a file of that name.
// Throws UsageError when heads are missing, and where the kind has no place for what was found.
void ExportTuning(const data::TraceReader& trace, const ui::TuneSettings& settings,
                  const std::vector<ui::TunedSetting>& heads, size_t num_heads_chosen, const std::string& path,
                  const std::string& file);

}  // namespace headscope::app
