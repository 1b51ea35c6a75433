// SPDX-License-Identifier: Apache-2.0
// A head made for tests, as a trace that holds it alone.
#pragma once

#include <string>

#include "analysis/head_tensors.h"

namespace headscope::analysis::testing {

// fp32, one layer, the head's own numbers; complete. The head has a row for every token.
void WriteHeadTrace(const HeadTensors& head, const std::string& path);

}  // namespace headscope::analysis::testing
