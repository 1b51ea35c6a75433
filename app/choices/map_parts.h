// SPDX-License-Identifier: Apache-2.0
// What pictures of maps are made of, from a trace and what was typed: `headscope render` and the window's exports.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "analysis/compare.h"
#include "analysis/report.h"
#include "choices/method_choice.h"
#include "data/trace_reader.h"

namespace headscope::app {

// Of what trace a picture is; its file without the folder.
analysis::MapSource MapSourceOf(const data::TraceReader& trace);
// The generated tokens that stand where a task's answer belongs; the same begin and end: there are none.
analysis::TokenSpan ModelAnswerOf(const data::TraceReader& trace);
// As the window marks them on its axes.
std::vector<analysis::TokenSpan> AnswersOf(const data::TraceReader& trace);

// The last recorded rows, whose tokens the model generated.
int64_t NumDecodeRows(const data::TraceReader& trace);
// As many of the last recorded rows as the window tries decode methods on: those, at most 256, or, where there are
// none, as many as compare takes.
int32_t DecodeRowsTried(const data::TraceReader& trace);

// A method's mask on a head.
struct MapMask {
  analysis::MapMethod method;
  std::shared_ptr<const kernels::SparseIndex> index;  // of a prefill method
  kernels::SparseIndexView view;                      // of index
  int32_t window = 0;
  analysis::KeptStepsPtr steps;  // of a decode method
  std::vector<float> kept_mass;  // of every row, or of every step
};
// What else a decode method's mask depends on.
struct MapSteps {
  bool alone = false;    // the head by itself chooses, or else the group that shares its KV head
  int32_t num_rows = 0;  // the last recorded rows; 0: DecodeRowsTried
};
// `head` is of `trace`. Throws what the selection's status says, naming `where` if it is not empty.
std::unique_ptr<const MapMask> MakeMapMask(const data::TraceReader& trace, const analysis::HeadTensorsPtr& head,
                                           const MethodChoice& choice, const MapSteps& steps, const std::string& where,
                                           const std::stop_token& stop);
// A map of `first`, and of how `second` differs from it unless that is null. Both outlive the sources.
void AddMasks(const MapMask& first, const MapMask* second, const std::stop_token& stop,
              analysis::RenderSources* sources);

}  // namespace headscope::app
