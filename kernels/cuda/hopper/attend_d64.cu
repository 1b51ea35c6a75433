// SPDX-License-Identifier: Apache-2.0
#include "hopper/kernel.cuh"

namespace headscope::kernels::hopper {

cudaError_t LaunchBf16D64(const KernelParams& params, int num_blocks, cudaStream_t stream) {
  return LaunchKernel<Traits<cutlass::bfloat16_t, 64, 64, 128, 2>>(params, num_blocks, stream);
}

cudaError_t LaunchFp16D64(const KernelParams& params, int num_blocks, cudaStream_t stream) {
  return LaunchKernel<Traits<cutlass::half_t, 64, 64, 128, 2>>(params, num_blocks, stream);
}

}  // namespace headscope::kernels::hopper
