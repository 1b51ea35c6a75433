// SPDX-License-Identifier: Apache-2.0
// Kernels that take the 16-bit Hopper kernel's place where every head keeps what a causal rule leaves to it. Whoever
// made the index may have said so; else, for head_dim 64, the ordering kernels find it out on the device: this one is
// launched then and the other behind it, and one of them finds nothing to do.
#pragma once

#include "hopper/block.cuh"
#include "hopper/causal_scheduler.cuh"
#include "hopper/instances.h"
#include "hopper/tensor_copies.cuh"

namespace headscope::kernels::hopper {

template <class T, class Consumer>
__global__ void __launch_bounds__(T::kThreads, 1) AttendDenseKernel(const __grid_constant__ KernelParams params) {
  // The other's blocks start where this one's have ended, and wait for all of them.
  cuda::LetNextKernelStart();
  RunBlock<T, CausalScheduler<T>, Loader<T, TensorCopies<T>>, Consumer>(params, [&] {
    if (cute::elect_one_sync()) FetchDescriptors(params);
  });
}

template <class T, class Consumer>
cudaError_t LaunchDense(const KernelParams& params, int num_blocks, cudaStream_t stream) {
  return LaunchBlocks<T>(AttendDenseKernel<T, Consumer>, params, num_blocks, stream);
}

}  // namespace headscope::kernels::hopper
