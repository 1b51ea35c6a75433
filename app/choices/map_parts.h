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

// A prefill method's mask on a head.
struct MapMask {
  analysis::MapMethod method;
  analysis::MaskPreview preview;
  kernels::SparseIndexView view;  // of preview.index
};
// Throws what the selection's status says, naming `where` if it is not empty.
std::unique_ptr<const MapMask> MakeMapMask(const analysis::HeadTensors& head, const MethodChoice& choice,
                                           const std::string& where, const std::stop_token& stop);
// A map of `first`, and of how `second` differs from it unless that is null. Both outlive the sources.
void AddMasks(const MapMask& first, const MapMask* second, const std::stop_token& stop,
              analysis::RenderSources* sources);

}  // namespace headscope::app
