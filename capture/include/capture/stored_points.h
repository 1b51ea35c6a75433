// SPDX-License-Identifier: Apache-2.0
// Where a trace says that it has what a capture recorded beside q, k, v and lse.
#pragma once

#include "data/trace_schema.h"
#include "model/capture_points.h"

namespace headscope::capture {

// The fact of a recorded layer that is true where the layer has the tensors of that point.
bool data::LayerFacts::*StoredFact(model::CapturePoint point);

}  // namespace headscope::capture
