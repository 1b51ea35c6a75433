// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include "hopper/packed_params.h"
#include "kernels/attention_problem.h"

namespace headscope::kernels::hopper {

// bf16 and fp16, head_dim 64 and 128, with as many components in v.
cudaError_t LaunchPacked(DType dtype, int32_t head_dim, const PackedParams& params, int num_blocks,
                         cudaStream_t stream);

// The same with what few calls ask for: soft caps and rows' largest scores.
cudaError_t LaunchPackedRare(DType dtype, int32_t head_dim, const PackedParams& params, int num_blocks,
                             cudaStream_t stream);

// For sequences whose heads keep everything that a causal rule leaves to them. `params.q` has boxes of as many rows as
// items have there.
constexpr int32_t kPackedDenseRowsD64 = 192;
constexpr int32_t PackedDenseRows(int32_t head_dim) {
  return head_dim == 64 ? kPackedDenseRowsD64 : kItemRows;
}
cudaError_t LaunchPackedDense(DType dtype, int32_t head_dim, const PackedParams& params, int num_blocks,
                              cudaStream_t stream);

}  // namespace headscope::kernels::hopper
