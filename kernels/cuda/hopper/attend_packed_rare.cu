// SPDX-License-Identifier: Apache-2.0
#include "hopper/packed_instances.h"
#include "hopper/packed_kernel.cuh"

namespace headscope::kernels::hopper {

cudaError_t LaunchPackedRare(DType dtype, int32_t head_dim, const PackedParams& params, int num_blocks,
                             cudaStream_t stream) {
  return dtype == DType::kBFloat16
             ? LaunchPackedLists<cutlass::bfloat16_t, Extras::kAll>(head_dim, params, num_blocks, stream)
             : LaunchPackedLists<cutlass::half_t, Extras::kAll>(head_dim, params, num_blocks, stream);
}

}  // namespace headscope::kernels::hopper
