// SPDX-License-Identifier: Apache-2.0
// Numbers of one encoding in another.
#pragma once

#include <cstdint>

#include "data/trace_schema.h"

namespace headscope::data {

// fp32 to `encoding`, each to the nearest number there is, of two equally near ones the even one; what lies beyond the
// largest becomes infinite. A NaN stays one. Returns the place of the first finite number that became infinite, -1
// where there is none. `out` has SizeOf(encoding) bytes for each of the `count` numbers.
int64_t EncodeFloats(const float* in, int64_t count, ElementType encoding, void* out);

}  // namespace headscope::data
