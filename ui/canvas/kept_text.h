// SPDX-License-Identifier: Apache-2.0
// What a mask keeps, in words: the panel, the map's tooltip and a picture's caption say the same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/types/number_text.h"
#include "canvas_model.h"

namespace headscope::ui {

using analysis::Grouped;
// Which queries a decode method was tried on, and why these: the trace's own decode steps, or its last rows.
std::string DescribeSteps(const CanvasModel& model, const analysis::KeptSteps& kept);
// Who shares a decode method's choice of keys: "chosen per KV head, one choice for query heads 4 to 7". Empty of a
// prefill method, and where keys are chosen by place.
std::string DescribeChoice(const CanvasModel& model, const LiveMask& mask);
// "CRA of 4,090 queries: min 0.612, 5th percentile 0.931, mean 0.983"; of few queries without a percentile.
std::string DescribeCra(const LiveMask& mask);
// Of a cut trace: how much of the attention no mask can keep. Empty of a whole one.
std::string DescribeOutside(const LiveMask& mask);
// Lines: "one run 12.3 ms, dense 41.0 ms (3.3x), the median of 3 times in 12 s", "relative error 1.2e-03, max 4.5e-02".
// Of sampled rows it says so.
std::vector<std::string> DescribeLive(const analysis::LiveRun& run, bool is_decode);
// What a run at every change is, of a method for prompts or of one for decode steps: where it runs, and what its times
// are of.
std::string HelpOnLive(bool is_decode);
// Of parameters that leave out nothing at the trace's length.
std::string DescribeKeepsEverything(int64_t num_tokens);
// Of a layer that the method leaves dense, whatever its budget.
std::string DescribeDenseLayer(const analysis::MaskSummary& summary);
// What a measured run's numbers are of: what was timed, on what, how often. Where a short run was repeated more
// often than was asked for, it says why.
std::string DescribeMeasured(const analysis::MethodResult& result);

}  // namespace headscope::ui
