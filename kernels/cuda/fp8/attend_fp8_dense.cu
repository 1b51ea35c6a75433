// SPDX-License-Identifier: Apache-2.0
// The FP8 kernel for heads that keep what a causal rule leaves to them: three groups, as at 16 bits with head_dim 64
// (hopper/attend_dense_d64.cu), and for the same reason: exponentials take as long as the products.
#include "fp8/fp8_instances.h"
#include "fp8/fp8_rows.cuh"
#include "fp8/image_copies.cuh"
#include "hopper/block.cuh"
#include "hopper/causal_scheduler.cuh"
#include "hopper/piece_consumer.cuh"
#include "hopper/piece_walks.cuh"

namespace headscope::kernels::fp8 {
namespace {

__global__ void __launch_bounds__(DenseTraits::kThreads, 1)
    AttendFp8DenseKernel(const __grid_constant__ Fp8Params params) {
  // The other's blocks start where this one's have ended, and wait for all of them.
  cuda::LetNextKernelStart();
  using T = DenseTraits;
  hopper::RunBlock<T, hopper::CausalScheduler<T>, hopper::Loader<T, ImageCopies<T>>,
                   hopper::PieceConsumer<T, PieceRows<T>, hopper::CausalWalk>>(params, [&] {
    if (cute::elect_one_sync()) cute::prefetch_tma_descriptor(&params.o);
  });
}

}  // namespace

cudaError_t LaunchFp8Dense(const Fp8Params& params, int num_blocks, cudaStream_t stream) {
  return hopper::LaunchBlocks<DenseTraits>(AttendFp8DenseKernel, params, num_blocks, stream);
}

}  // namespace headscope::kernels::fp8
