// SPDX-License-Identifier: Apache-2.0
#include "hopper/dense_kernel.cuh"
#include "hopper/piece_consumer.cuh"
#include "hopper/piece_rows.cuh"
#include "hopper/piece_traits.cuh"
#include "hopper/piece_walks.cuh"

namespace headscope::kernels::hopper {
namespace {

template <class Element>
cudaError_t LaunchRowMaxD64(const KernelParams& params, int num_blocks, cudaStream_t stream) {
  using T = PieceTraits<Element, /*kHasRowMax=*/true>;
  return LaunchDense<T, PieceConsumer<T, PieceRows<T>, CausalWalk>>(params, num_blocks, stream);
}

}  // namespace

cudaError_t LaunchDenseRowMaxBf16D64(const KernelParams& params, int num_blocks, cudaStream_t stream) {
  return LaunchRowMaxD64<cutlass::bfloat16_t>(params, num_blocks, stream);
}

cudaError_t LaunchDenseRowMaxFp16D64(const KernelParams& params, int num_blocks, cudaStream_t stream) {
  return LaunchRowMaxD64<cutlass::half_t>(params, num_blocks, stream);
}

}  // namespace headscope::kernels::hopper
