// SPDX-License-Identifier: Apache-2.0
#include "hopper/kernel.cuh"

namespace headscope::kernels::hopper {

cudaError_t LaunchRareBf16D128(const KernelParams& params, int num_blocks, cudaStream_t stream) {
  return LaunchKernel<Traits<cutlass::bfloat16_t, 128, 128, 128, 2, Extras::kAll>>(params, num_blocks, stream);
}

cudaError_t LaunchRareFp16D128(const KernelParams& params, int num_blocks, cudaStream_t stream) {
  return LaunchKernel<Traits<cutlass::half_t, 128, 128, 128, 2, Extras::kAll>>(params, num_blocks, stream);
}

}  // namespace headscope::kernels::hopper
