// SPDX-License-Identifier: Apache-2.0
// Which traces may be tuned, or checked, together.
#pragma once

#include "data/trace_reader.h"

namespace headscope::app {

// Refuses (BadInputError) a trace without query rows or with gaps between them, and (UsageError) one of another model
// than `first`'s. `trace` may be `first`.
void CheckTunedTogether(const data::TraceReader& trace, const data::TraceReader& first);

}  // namespace headscope::app
