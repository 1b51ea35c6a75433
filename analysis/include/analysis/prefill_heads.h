// SPDX-License-Identifier: Apache-2.0
// What is asked of heads before prefill methods select on them.
#pragma once

#include <vector>

#include "analysis/measured_heads.h"
#include "data/trace_reader.h"
#include "kernels/status.h"

namespace headscope::analysis {

// Prefill methods select for consecutive rows that see all that is before them, but for a window. kUnsupported, with
// the remedy, for heads without rows, with gaps between them, or that attend in chunks; the sentence names `asked`.
kernels::Status CheckPrefillHeads(const MeasuredHeads& heads, HeadId asked);
// The same of heads of a trace, of which nothing but its layers' facts is read; the sentence names the first such head.
kernels::Status CheckPrefillHeads(const data::TraceReader& trace, const std::vector<HeadId>& heads);

}  // namespace headscope::analysis
