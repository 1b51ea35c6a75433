// SPDX-License-Identifier: Apache-2.0
// Where and when runs are measured, for tables that leave the program.
#pragma once

#include <string>

#include "analysis/types/comparison.h"
#include "data/trace_reader.h"

namespace headscope::app {

// Of a run on this trace that ends now, and of a table or a page that is written now.
analysis::RunOrigin OriginOf(const data::TraceReader& trace);
// "2026-05-31 by headscope 0.1.0".
std::string WrittenText(const analysis::RunOrigin& origin);

}  // namespace headscope::app
