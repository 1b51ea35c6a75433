// SPDX-License-Identifier: Apache-2.0
// Where and when runs are measured, for tables that leave the program.
#pragma once

#include "analysis/types/comparison.h"
#include "data/trace_reader.h"

namespace headscope::app {

// Of a run on this trace that ends now.
analysis::RunOrigin OriginOf(const data::TraceReader& trace);

}  // namespace headscope::app
