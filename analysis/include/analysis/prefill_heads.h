// SPDX-License-Identifier: Apache-2.0
// What is asked of heads before prefill methods select on them.
#pragma once

#include "analysis/measured_heads.h"
#include "kernels/status.h"

namespace headscope::analysis {

// Prefill methods select for consecutive rows that see all that is before them, but for a window. kUnsupported, with
// the remedy, for heads without rows, with gaps between them, or that attend in chunks; the sentence names `asked`.
kernels::Status CheckPrefillHeads(const MeasuredHeads& heads, HeadId asked);

}  // namespace headscope::analysis
