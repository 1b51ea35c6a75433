// SPDX-License-Identifier: Apache-2.0
#include "fp8/fp8_instances.h"
#include "fp8/fp8_lists_kernel.cuh"

namespace headscope::kernels::fp8 {

cudaError_t LaunchFp8Rare(const Fp8Params& params, int num_blocks, cudaStream_t stream) {
  return LaunchLists<RareListTraits>(params, num_blocks, stream);
}

}  // namespace headscope::kernels::fp8
