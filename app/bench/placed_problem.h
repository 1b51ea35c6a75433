// SPDX-License-Identifier: Apache-2.0
// Seeded problems in a device's memory, and outputs back from it.
#pragma once

#include <memory>
#include <vector>

#include "bench/bench_device.h"
#include "bench/trace_heads.h"
#include "kernels/seeded_problem.h"
#include "kernels/sparse_index.h"

namespace headscope::app::bench {

// Makes Q, K and V, seeded or a trace's, and room for O and the LSE. Of a step (one row) of a layer with a window, the
// tokens are those that the row sees. `trace` outlives the problem. Throws CancelledError, DeviceError, std::bad_alloc,
// and what reading the trace throws.
std::unique_ptr<const PlacedProblem> Place(BenchDevice& device, const kernels::SeededProblem& shape,
                                           kernels::DType dtype, const kernels::RunOptions& options,
                                           const TraceHeads* trace = nullptr);

// The index as the layer's own window leaves it.
kernels::SparseIndex InsideWindow(const PlacedProblem& placed, kernels::SparseIndex index);

// `count` elements of a tensor of the problem, from `first` on, as fp32.
std::vector<float> ReadElements(BenchDevice& device, const void* data, kernels::DType dtype, int64_t first,
                                int64_t count);

// O of query head 0 of the first sequence, [seq_q, v_head_dim], as fp32.
std::vector<float> ReadFirstHead(BenchDevice& device, const PlacedProblem& placed);

// |a - b| / |b| in the L2 norm; NaN when either has one.
double RelativeDistance(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace headscope::app::bench
