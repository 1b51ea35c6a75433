// SPDX-License-Identifier: Apache-2.0
#include "hopper/consumer.cuh"
#include "hopper/dense_kernel.cuh"

namespace headscope::kernels::hopper {
namespace {

template <class Element>
cudaError_t LaunchRowMaxD128(const KernelParams& params, int num_blocks, cudaStream_t stream) {
  using T = DenseTraits<Element, Extras::kRowMax>;
  return LaunchDense<T, Consumer<T>>(params, num_blocks, stream);
}

}  // namespace

cudaError_t LaunchDenseRowMaxBf16D128(const KernelParams& params, int num_blocks, cudaStream_t stream) {
  return LaunchRowMaxD128<cutlass::bfloat16_t>(params, num_blocks, stream);
}

cudaError_t LaunchDenseRowMaxFp16D128(const KernelParams& params, int num_blocks, cudaStream_t stream) {
  return LaunchRowMaxD128<cutlass::half_t>(params, num_blocks, stream);
}

}  // namespace headscope::kernels::hopper
