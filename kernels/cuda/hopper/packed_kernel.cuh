// SPDX-License-Identifier: Apache-2.0
// The Hopper kernel for packed sequences.
#pragma once

#include "hopper/block.cuh"
#include "hopper/consumer.cuh"
#include "hopper/packed_traits.cuh"

namespace headscope::kernels::hopper {

template <class T, class Scheduler, class Consumer>
__global__ void __launch_bounds__(T::kThreads, 1) AttendPackedKernel(const __grid_constant__ PackedParams params) {
  RunBlock<T, Scheduler, Loader<T, PackedCopies<T>>, Consumer>(params, [&] {
    if (cute::elect_one_sync()) FetchDescriptors(params);
  });
}

template <class T, class Scheduler, class Consumer>
cudaError_t LaunchPackedKernel(const PackedParams& params, int num_blocks, cudaStream_t stream) {
  return LaunchBlocks<T>(AttendPackedKernel<T, Scheduler, Consumer>, params, num_blocks, stream);
}

// For any lists.
template <class Element, Extras kExtras>
cudaError_t LaunchPackedLists(int32_t head_dim, const PackedParams& params, int num_blocks, cudaStream_t stream) {
  const auto launch = [&]<class T>() {
    return LaunchPackedKernel<T, Scheduler<T>, Consumer<T>>(params, num_blocks, stream);
  };
  return head_dim == 64 ? launch.template operator()<PackedTraits<Element, 64, kExtras>>()
                        : launch.template operator()<PackedTraits<Element, 128, kExtras>>();
}

}  // namespace headscope::kernels::hopper
