// SPDX-License-Identifier: Apache-2.0
// The wide kernel: it takes the 16-bit Hopper kernel's place where head_dim is 64 and every head keeps what a causal
// rule leaves to it. That is known on the device alone, so this one is launched and then the other, and one of them
// finds nothing to do.
#pragma once

#include "hopper/block.cuh"
#include "hopper/instances.h"
#include "hopper/tensor_copies.cuh"
#include "hopper/wide_consumer.cuh"
#include "hopper/wide_rows.cuh"
#include "hopper/wide_scheduler.cuh"
#include "hopper/wide_traits.cuh"

namespace headscope::kernels::hopper {

template <class T>
__global__ void __launch_bounds__(T::kThreads, 1) AttendWideKernel(const __grid_constant__ KernelParams params) {
  // The other's blocks start where this one's have ended, and wait for all of them.
  cuda::LetNextKernelStart();
  RunBlock<T, WideScheduler<T>, Loader<T, TensorCopies<T>>, WideConsumer<T, WideRows<T>>>(params, [&] {
    if (!cute::elect_one_sync()) return;
    for (const CUtensorMap* map : {&params.q, &params.k_boxes[kWholeTile], &params.v_boxes[kWholeTile], &params.o}) {
      cute::prefetch_tma_descriptor(map);
    }
  });
}

template <class T>
cudaError_t LaunchWide(const KernelParams& params, int num_blocks, cudaStream_t stream) {
  return LaunchBlocks<T>(AttendWideKernel<T>, params, num_blocks, stream);
}

}  // namespace headscope::kernels::hopper
