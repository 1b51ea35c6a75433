// SPDX-License-Identifier: Apache-2.0
// One head in host memory alone, and the same one on the GPU as well.
#pragma once

#include <cstdint>

#include "analysis/head_tensors.h"
#include "synthetic_heads.h"

namespace headscope::analysis::testing {

// Values that bf16 holds, and the LSE of just these.
HeadTensors Bf16Head(const RandomHeadShape& shape, uint32_t seed);
HeadTensors Bf16Head(HeadTensors head);

struct HeadPair {
  HeadTensorsPtr cpu, gpu;
};
// A test failure, and no copy, where the GPU does not take the head.
HeadPair OnBoth(const RandomHeadShape& shape, uint32_t seed);
HeadPair OnBoth(HeadTensors head);

}  // namespace headscope::analysis::testing
