// SPDX-License-Identifier: Apache-2.0
// LibTorch's dense decode, as a baseline of comparisons on the CPU.
#pragma once

#include <cstdint>

#include "analysis/compare.h"

namespace headscope::app {

// Loads LibTorch when a step is first made. num_threads: 0 for all cores.
analysis::OtherDense TorchDecode(int32_t num_threads);

}  // namespace headscope::app
