// SPDX-License-Identifier: Apache-2.0
// The kernels for packed sequences that most calls run: one unit, since CuTe's headers are most of what compiling it
// takes.
#include "hopper/causal_scheduler.cuh"
#include "hopper/packed_instances.h"
#include "hopper/packed_kernel.cuh"
#include "hopper/piece_consumer.cuh"
#include "hopper/piece_rows.cuh"
#include "hopper/piece_walks.cuh"

namespace headscope::kernels::hopper {
namespace {

template <class Element>
cudaError_t LaunchEverything(int32_t head_dim, const PackedParams& params, int num_blocks, cudaStream_t stream) {
  if (head_dim == 64) {
    using T = PackedPieceTraits<Element>;
    static_assert(T::kRows == kPackedDenseRowsD64);
    return LaunchPackedKernel<T, CausalScheduler<T>, PieceConsumer<T, PieceRows<T>, CausalWalk>>(params, num_blocks,
                                                                                                 stream);
  }
  using T = PackedDenseTraits<Element>;
  return LaunchPackedKernel<T, CausalScheduler<T>, Consumer<T>>(params, num_blocks, stream);
}

}  // namespace

cudaError_t LaunchPacked(DType dtype, int32_t head_dim, const PackedParams& params, int num_blocks,
                         cudaStream_t stream) {
  return dtype == DType::kBFloat16
             ? LaunchPackedLists<cutlass::bfloat16_t, Extras::kNone>(head_dim, params, num_blocks, stream)
             : LaunchPackedLists<cutlass::half_t, Extras::kNone>(head_dim, params, num_blocks, stream);
}

cudaError_t LaunchPackedDense(DType dtype, int32_t head_dim, const PackedParams& params, int num_blocks,
                              cudaStream_t stream) {
  return dtype == DType::kBFloat16 ? LaunchEverything<cutlass::bfloat16_t>(head_dim, params, num_blocks, stream)
                                   : LaunchEverything<cutlass::half_t>(head_dim, params, num_blocks, stream);
}

}  // namespace headscope::kernels::hopper
