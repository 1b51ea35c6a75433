// SPDX-License-Identifier: Apache-2.0
// Dense attention of a running model by this project's executors, where they are faster than LibTorch's.
#pragma once

#include <cstdint>
#include <memory>

#include "model/attention_backend.h"

namespace headscope::sparse_model {

// Takes passes of 512 rows or more, in bf16, of causal layers without a window that hides a key, on GPUs whose fast
// kernel takes the layer (kernels/cuda_executor.h); soft caps and sinks are taken. Sums are fp32 and weights are
// rounded to bf16, as in LibTorch's fused kernels.
std::shared_ptr<model::DenseExecutor> OwnDense(int32_t num_threads = 0);

}  // namespace headscope::sparse_model
