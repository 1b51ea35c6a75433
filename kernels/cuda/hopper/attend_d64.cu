// SPDX-License-Identifier: Apache-2.0
// Head_dim 64, with and without a soft cap, and the wide form: one unit, since CuTe's headers are most of what
// compiling it takes.
#include "hopper/kernel.cuh"
#include "hopper/wide_kernel.cuh"

namespace headscope::kernels::hopper {

cudaError_t LaunchBf16D64(const KernelParams& params, int num_blocks, cudaStream_t stream) {
  return LaunchKernel<Traits<cutlass::bfloat16_t, 64, 64, 128, 2, /*kCapped=*/false>>(params, num_blocks, stream);
}

cudaError_t LaunchFp16D64(const KernelParams& params, int num_blocks, cudaStream_t stream) {
  return LaunchKernel<Traits<cutlass::half_t, 64, 64, 128, 2, /*kCapped=*/false>>(params, num_blocks, stream);
}

cudaError_t LaunchCappedBf16D64(const KernelParams& params, int num_blocks, cudaStream_t stream) {
  return LaunchKernel<Traits<cutlass::bfloat16_t, 64, 64, 128, 2, /*kCapped=*/true>>(params, num_blocks, stream);
}

cudaError_t LaunchCappedFp16D64(const KernelParams& params, int num_blocks, cudaStream_t stream) {
  return LaunchKernel<Traits<cutlass::half_t, 64, 64, 128, 2, /*kCapped=*/true>>(params, num_blocks, stream);
}

cudaError_t LaunchWideBf16D64(const KernelParams& params, int num_blocks, cudaStream_t stream) {
  return LaunchWide<WideTraits<cutlass::bfloat16_t>>(params, num_blocks, stream);
}

cudaError_t LaunchWideFp16D64(const KernelParams& params, int num_blocks, cudaStream_t stream) {
  return LaunchWide<WideTraits<cutlass::half_t>>(params, num_blocks, stream);
}

}  // namespace headscope::kernels::hopper
