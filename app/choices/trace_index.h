// SPDX-License-Identifier: Apache-2.0
// What a method keeps on a trace's heads, as one index file: the heads of another trace of the same model can run it.
#pragma once

#include <stop_token>
#include <vector>

#include "analysis/head_sweeps.h"
#include "choices/method_choice.h"
#include "data/index_file.h"
#include "data/trace_reader.h"

namespace headscope::app {

// Selects on the CPU: of kLayer all recorded heads of the layers that `heads` are of, which are attended together; of
// kHead each of `heads` by itself. A window of the model's own cuts nothing here: it does where the index is run.
// Throws as LoadLayer, and what all prefill methods (analysis/prefill_heads.h) or this one refuse.
data::IndexFile IndexOfTrace(const data::TraceReader& trace, const std::vector<analysis::HeadId>& heads,
                             const MethodChoice& method, analysis::Measure measure, int32_t num_threads,
                             const std::stop_token& stop);

}  // namespace headscope::app
