// SPDX-License-Identifier: Apache-2.0
// Decode steps on the GPU, as the benchmark times them.
#pragma once

#include <vector>

#include "bench/bench_device.h"

namespace headscope::app::bench {

// dense: one way. A method whose choice a kernel makes: each of its steps (kernels/cuda_decode_step.h), and what
// keeping up with a new token costs. What no launch chooses for, a method or a problem, is chosen on the CPU, and its
// lists are attended on the GPU.
std::vector<DecodeWork> CudaDecodeWork(BenchDevice& device, const PlacedProblem& placed,
                                       const kernels::DecodeMethod& method, const kernels::ParameterValues& values,
                                       const kernels::RunOptions& options);

}  // namespace headscope::app::bench
