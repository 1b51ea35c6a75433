// SPDX-License-Identifier: Apache-2.0
// Methods on heads of a trace, layer by layer: what `compare` and `demo` share.
#pragma once

#include <string>
#include <vector>

#include "analysis/compare.h"
#include "commands/head_notes.h"
#include "commands/method_choice.h"
#include "data/trace_reader.h"
#include "support/progress_line.h"

namespace headscope::app {

// What is timed: the head's whole layer in one launch, as a model attends, or the head by itself.
enum class Measure { kLayer, kHead };
// "layer" or "head". Throws UsageError for another word.
Measure ParseMeasure(const std::string& text);

// Measures every layer that one of `heads` is of once, and judges the heads by that run: results by head, then method,
// both in the order given. notes: looks at every head, or null. Throws as LoadLayer and CheckStatus do; CommandError
// where it was cancelled.
std::vector<analysis::MethodResult> CompareHeads(const data::TraceReader& trace,
                                                 const std::vector<analysis::HeadId>& heads,
                                                 const std::vector<MethodChoice>& methods, Measure measure,
                                                 analysis::CompareOptions options, ProgressLine* line,
                                                 HeadNotes* notes);

}  // namespace headscope::app
