// SPDX-License-Identifier: Apache-2.0
// Decode steps on the GPU, as the benchmark times them.
#pragma once

#include <vector>

#include "bench/bench_device.h"

namespace headscope::app::bench {

// dense: one way. sparq: with and without the component-major copy of K, and the cost of keeping that copy and the mean
// of V (AppendTokenCuda) as a third; quest with its bounds. What no launch chooses for, a method or a problem, is
// chosen on the CPU, and its lists are attended on the GPU.
std::vector<DecodeWork> CudaDecodeWork(BenchDevice& device, const PlacedProblem& placed,
                                       const kernels::DecodeMethod& method, const kernels::ParameterValues& values,
                                       const kernels::RunOptions& options);

}  // namespace headscope::app::bench
