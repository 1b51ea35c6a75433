// SPDX-License-Identifier: Apache-2.0
// The FP8 kernel for any lists. T: ListTraits, or RareListTraits.
#pragma once

#include "fp8/fp8_rows.cuh"
#include "fp8/image_copies.cuh"
#include "hopper/block.cuh"
#include "hopper/piece_consumer.cuh"
#include "hopper/piece_walks.cuh"

namespace headscope::kernels::fp8 {

template <class T>
__global__ void __launch_bounds__(T::kThreads, 1) AttendFp8ListsKernel(const __grid_constant__ Fp8Params params) {
  hopper::RunBlock<T, hopper::Scheduler<T>, hopper::Loader<T, ImageCopies<T>>,
                   hopper::PieceConsumer<T, PieceRows<T>, hopper::ListWalk>>(params, [&] {
    if (cute::elect_one_sync()) cute::prefetch_tma_descriptor(&params.o);
  });
}

template <class T>
cudaError_t LaunchLists(const Fp8Params& params, int num_blocks, cudaStream_t stream) {
  return hopper::LaunchBlocks<T>(AttendFp8ListsKernel<T>, params, num_blocks, stream);
}

}  // namespace headscope::kernels::fp8
