// SPDX-License-Identifier: Apache-2.0
#include "hopper/wide_kernel.cuh"

namespace headscope::kernels::hopper {

cudaError_t LaunchWideBf16D64(const KernelParams& params, int num_blocks, cudaStream_t stream) {
  return LaunchWide<WideTraits<cutlass::bfloat16_t>>(params, num_blocks, stream);
}

cudaError_t LaunchWideFp16D64(const KernelParams& params, int num_blocks, cudaStream_t stream) {
  return LaunchWide<WideTraits<cutlass::half_t>>(params, num_blocks, stream);
}

}  // namespace headscope::kernels::hopper
