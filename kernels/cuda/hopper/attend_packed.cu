// SPDX-License-Identifier: Apache-2.0
// The Hopper kernel for packed sequences: one unit, since CuTe's headers are most of what compiling it takes.
#include "hopper/block.cuh"
#include "hopper/causal_scheduler.cuh"
#include "hopper/consumer.cuh"
#include "hopper/packed_instances.h"
#include "hopper/packed_traits.cuh"

namespace headscope::kernels::hopper {
namespace {

template <class T, class Scheduler>
__global__ void __launch_bounds__(T::kThreads, 1) AttendPackedKernel(const __grid_constant__ PackedParams params) {
  RunBlock<T, Scheduler, Loader<T, PackedCopies<T>>, Consumer<T>>(params, [&] {
    if (cute::elect_one_sync()) FetchDescriptors(params);
  });
}

template <template <class, int> class Traits, template <class> class Scheduler>
cudaError_t Launch(DType dtype, int32_t head_dim, const PackedParams& params, int num_blocks, cudaStream_t stream) {
  const auto launch = [&]<class Element, int kHeadDim>() {
    using T = Traits<Element, kHeadDim>;
    return LaunchBlocks<T>(AttendPackedKernel<T, Scheduler<T>>, params, num_blocks, stream);
  };
  if (dtype == DType::kBFloat16) {
    return head_dim == 64 ? launch.template operator()<cutlass::bfloat16_t, 64>()
                          : launch.template operator()<cutlass::bfloat16_t, 128>();
  }
  return head_dim == 64 ? launch.template operator()<cutlass::half_t, 64>()
                        : launch.template operator()<cutlass::half_t, 128>();
}

}  // namespace

cudaError_t LaunchPacked(DType dtype, int32_t head_dim, const PackedParams& params, int num_blocks,
                         cudaStream_t stream) {
  return Launch<PackedTraits, Scheduler>(dtype, head_dim, params, num_blocks, stream);
}

cudaError_t LaunchPackedDense(DType dtype, int32_t head_dim, const PackedParams& params, int num_blocks,
                              cudaStream_t stream) {
  return Launch<PackedDenseTraits, CausalScheduler>(dtype, head_dim, params, num_blocks, stream);
}

}  // namespace headscope::kernels::hopper
