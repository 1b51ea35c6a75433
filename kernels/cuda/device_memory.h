// SPDX-License-Identifier: Apache-2.0
// Tensors on their way to the current GPU.
#pragma once

#include <cstdint>

#include "kernels/attention_problem.h"
#include "kernels/cuda_resources.h"

namespace headscope::kernels {

// Of every array inside one allocation; and the bytes that such an array takes up.
inline constexpr int64_t kArrayAlignment = 256;
constexpr int64_t ArrayBytes(int64_t bytes) {
  return (bytes + kArrayAlignment - 1) / kArrayAlignment * kArrayAlignment;
}

// [batch, heads, rows, dim] of the problem's batch and dtype, from host memory of any strides to contiguous device
// memory. Returns when the copy is done.
Status UploadTensor(const AttentionProblem& problem, int32_t heads, int32_t rows, int32_t dim,
                    const StridedTensor<const void>& host, void* device);

// Scratch memory comes from a pool of our own that keeps what it has, so that a call costs no allocation after the
// first and the process-wide default pool keeps its settings. One pool per device, for the life of the process.
Status FindScratchPool(int device, cudaMemPool_t* pool);

}  // namespace headscope::kernels
