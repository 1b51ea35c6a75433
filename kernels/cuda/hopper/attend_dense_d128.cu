// SPDX-License-Identifier: Apache-2.0
// At head_dim 128 the products take twice as long as the exponentials, which two groups hide. What is won where no list
// is read: a block's first keys come sooner, which short prompts feel, and its code is half as long.
#include "hopper/consumer.cuh"
#include "hopper/dense_kernel.cuh"

namespace headscope::kernels::hopper {
namespace {

template <class Element>
cudaError_t LaunchD128(const KernelParams& params, int num_blocks, cudaStream_t stream) {
  using T = DenseTraits<Element>;
  return LaunchDense<T, Consumer<T>>(params, num_blocks, stream);
}

}  // namespace

cudaError_t LaunchDenseBf16D128(const KernelParams& params, int num_blocks, cudaStream_t stream) {
  return LaunchD128<cutlass::bfloat16_t>(params, num_blocks, stream);
}

cudaError_t LaunchDenseFp16D128(const KernelParams& params, int num_blocks, cudaStream_t stream) {
  return LaunchD128<cutlass::half_t>(params, num_blocks, stream);
}

}  // namespace headscope::kernels::hopper
