// Decode steps on the GPU, as the benchmark times them.
#pragma once

#include <vector>

#include "bench/device.h"

namespace headscope::app::bench {

// dense: one way. sparq: with and without the component-major copy of K, and the cost of keeping that copy and the mean
// of V (AppendTokenCuda) as a third. Throws UsageError for other methods.
std::vector<DecodeWork> CudaDecodeWork(Device& device, const PlacedProblem& placed, const kernels::DecodeMethod& method,
                                       const kernels::ParameterValues& values, const kernels::RunOptions& options);

}  // namespace headscope::app::bench
