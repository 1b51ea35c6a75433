// SPDX-License-Identifier: Apache-2.0
// The wide FP8 kernel: it takes the other's place where every head keeps what a causal rule leaves to it, as at 16 bits
// with head_dim 64 (hopper/wide_kernel.cuh), and for the same reason: exponentials take as long as the products.
#include "fp8/fp8_instances.h"
#include "fp8/fp8_wide_rows.cuh"
#include "fp8/image_copies.cuh"
#include "hopper/block.cuh"
#include "hopper/wide_consumer.cuh"
#include "hopper/wide_scheduler.cuh"

namespace headscope::kernels::fp8 {
namespace {

__global__ void __launch_bounds__(WideTraits::kThreads, 1)
    AttendFp8WideKernel(const __grid_constant__ Fp8Params params) {
  // The other's blocks start where this one's have ended, and wait for all of them.
  cuda::LetNextKernelStart();
  using Consumer = hopper::WideConsumer<WideTraits, WideRows<WideTraits>>;
  hopper::RunBlock<WideTraits, hopper::WideScheduler<WideTraits>, hopper::Loader<WideTraits, ImageCopies<WideTraits>>,
                   Consumer>(params, [&] {
    if (cute::elect_one_sync()) cute::prefetch_tma_descriptor(&params.o);
  });
}

}  // namespace

cudaError_t LaunchFp8Wide(const Fp8Params& params, int num_blocks, cudaStream_t stream) {
  return hopper::LaunchBlocks<WideTraits>(AttendFp8WideKernel, params, num_blocks, stream);
}

}  // namespace headscope::kernels::fp8
