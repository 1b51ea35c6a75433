// SPDX-License-Identifier: Apache-2.0
// The current GPU, asked once per call: attributes are cached by the runtime and cost well under a microsecond.
#pragma once

#include "kernels/status.h"

namespace headscope::kernels {

struct CurrentDevice {
  int ordinal = 0;
  int compute_capability = 0;  // 90 for Hopper
  int num_multiprocessors = 0;
};

// kDeviceMissing without a GPU, kUnsupported when it is older than compute capability 8.0, the oldest that the kernels
// are built for.
Status FindCurrentDevice(CurrentDevice* device);

}  // namespace headscope::kernels
