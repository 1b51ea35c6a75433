// SPDX-License-Identifier: Apache-2.0
// The Hopper kernel for packed sequences: one unit, since CuTe's headers are most of what compiling it takes.
#include "hopper/block.cuh"
#include "hopper/consumer.cuh"
#include "hopper/packed_instances.h"
#include "hopper/packed_traits.cuh"

namespace headscope::kernels::hopper {
namespace {

template <class T>
__global__ void __launch_bounds__(T::kThreads, 1) AttendPackedKernel(const __grid_constant__ PackedParams params) {
  RunBlock<T, Scheduler<T>, Loader<T, PackedCopies<T>>, Consumer<T>>(params, [&] {
    if (!cute::elect_one_sync()) return;
    for (const CUtensorMap* map : {&params.q, &params.k_boxes[kWholeTile], &params.v_boxes[kWholeTile], &params.o}) {
      cute::prefetch_tma_descriptor(map);
    }
  });
}

template <class T>
cudaError_t Launch(const PackedParams& params, int num_blocks, cudaStream_t stream) {
  return LaunchBlocks<T>(AttendPackedKernel<T>, params, num_blocks, stream);
}

}  // namespace

cudaError_t LaunchPacked(DType dtype, int32_t head_dim, const PackedParams& params, int num_blocks,
                         cudaStream_t stream) {
  if (dtype == DType::kBFloat16) {
    return head_dim == 64 ? Launch<PackedTraits<cutlass::bfloat16_t, 64>>(params, num_blocks, stream)
                          : Launch<PackedTraits<cutlass::bfloat16_t, 128>>(params, num_blocks, stream);
  }
  return head_dim == 64 ? Launch<PackedTraits<cutlass::half_t, 64>>(params, num_blocks, stream)
                        : Launch<PackedTraits<cutlass::half_t, 128>>(params, num_blocks, stream);
}

}  // namespace headscope::kernels::hopper
