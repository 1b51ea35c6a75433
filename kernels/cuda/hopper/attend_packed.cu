// SPDX-License-Identifier: Apache-2.0
// The Hopper kernel for packed sequences: one unit, since CuTe's headers are most of what compiling it takes.
#include "hopper/block.cuh"
#include "hopper/causal_scheduler.cuh"
#include "hopper/consumer.cuh"
#include "hopper/packed_instances.h"
#include "hopper/packed_traits.cuh"
#include "hopper/piece_consumer.cuh"
#include "hopper/piece_rows.cuh"
#include "hopper/piece_walks.cuh"

namespace headscope::kernels::hopper {
namespace {

template <class T, class Scheduler, class Consumer>
__global__ void __launch_bounds__(T::kThreads, 1) AttendPackedKernel(const __grid_constant__ PackedParams params) {
  RunBlock<T, Scheduler, Loader<T, PackedCopies<T>>, Consumer>(params, [&] {
    if (cute::elect_one_sync()) FetchDescriptors(params);
  });
}

template <class T, class Scheduler, class Consumer>
cudaError_t Launch(const PackedParams& params, int num_blocks, cudaStream_t stream) {
  return LaunchBlocks<T>(AttendPackedKernel<T, Scheduler, Consumer>, params, num_blocks, stream);
}

template <class Element>
cudaError_t LaunchLists(int32_t head_dim, const PackedParams& params, int num_blocks, cudaStream_t stream) {
  const auto launch = [&]<class T>() { return Launch<T, Scheduler<T>, Consumer<T>>(params, num_blocks, stream); };
  return head_dim == 64 ? launch.template operator()<PackedTraits<Element, 64>>()
                        : launch.template operator()<PackedTraits<Element, 128>>();
}

template <class Element>
cudaError_t LaunchEverything(int32_t head_dim, const PackedParams& params, int num_blocks, cudaStream_t stream) {
  if (head_dim == 64) {
    using T = PackedPieceTraits<Element>;
    static_assert(T::kRows == kPackedDenseRowsD64);
    return Launch<T, CausalScheduler<T>, PieceConsumer<T, PieceRows<T>, CausalWalk>>(params, num_blocks, stream);
  }
  using T = PackedDenseTraits<Element>;
  return Launch<T, CausalScheduler<T>, Consumer<T>>(params, num_blocks, stream);
}

}  // namespace

cudaError_t LaunchPacked(DType dtype, int32_t head_dim, const PackedParams& params, int num_blocks,
                         cudaStream_t stream) {
  return dtype == DType::kBFloat16 ? LaunchLists<cutlass::bfloat16_t>(head_dim, params, num_blocks, stream)
                                   : LaunchLists<cutlass::half_t>(head_dim, params, num_blocks, stream);
}

cudaError_t LaunchPackedDense(DType dtype, int32_t head_dim, const PackedParams& params, int num_blocks,
                              cudaStream_t stream) {
  return dtype == DType::kBFloat16 ? LaunchEverything<cutlass::bfloat16_t>(head_dim, params, num_blocks, stream)
                                   : LaunchEverything<cutlass::half_t>(head_dim, params, num_blocks, stream);
}

}  // namespace headscope::kernels::hopper
