// SPDX-License-Identifier: Apache-2.0
// The launch of the quantising kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "fp8/fp8_params.h"
#include "kernels/attention_problem.h"

namespace headscope::kernels::fp8 {

// A tensor [batch, heads, rows, kHeadDim] of 16-bit elements, aligned to 16 bytes; strides count elements.
struct Source {
  const void* data;
  int64_t batch_stride;
  int64_t head_stride;
  int64_t row_stride;
  int32_t heads;
  int32_t rows;
};

// Fills scales [num_heads] and `pieces` pieces for each head, at least as many as hold its rows; columns: null, or
// where the second copy goes. num_heads: of all sequences, at most 65535.
cudaError_t LaunchQuantise(const Source& source, DType dtype, int num_heads, float* scales, int pieces, uint8_t* rows,
                           uint8_t* columns, cudaStream_t stream);

}  // namespace headscope::kernels::fp8
