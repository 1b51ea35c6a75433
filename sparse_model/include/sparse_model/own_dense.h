// SPDX-License-Identifier: Apache-2.0
// Dense attention of a running model by this project's executors, where they are faster than LibTorch's.
#pragma once

#include <memory>

#include "model/attention_backend.h"

namespace headscope::sparse_model {

// Takes passes of 512 rows or more, in bf16, of causal layers without a window that hides a key, on GPUs whose fast
// kernel takes the layer (kernels/cuda_executor.h); finite sinks and soft caps are taken. Sums are fp32 and weights are
// rounded to bf16, as in LibTorch's fused kernels; for layers with a cap LibTorch has none, and its products are fp32.
std::shared_ptr<model::DenseExecutor> OwnDense();

}  // namespace headscope::sparse_model
