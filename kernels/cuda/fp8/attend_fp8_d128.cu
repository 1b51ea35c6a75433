// SPDX-License-Identifier: Apache-2.0
// The FP8 kernel for any lists.
#include "fp8/fp8_consumer.cuh"
#include "fp8/fp8_instances.h"
#include "fp8/image_copies.cuh"
#include "hopper/block.cuh"

namespace headscope::kernels::fp8 {
namespace {

__global__ void __launch_bounds__(Traits::kThreads, 1) AttendFp8Kernel(const __grid_constant__ Fp8Params params) {
  hopper::RunBlock<Traits, hopper::Scheduler<Traits>, hopper::Loader<Traits, ImageCopies<Traits>>, Consumer>(
      params, [&] {
        if (cute::elect_one_sync()) cute::prefetch_tma_descriptor(&params.o);
      });
}

}  // namespace

cudaError_t LaunchFp8D128(const Fp8Params& params, int num_blocks, cudaStream_t stream) {
  return hopper::LaunchBlocks<Traits>(AttendFp8Kernel, params, num_blocks, stream);
}

}  // namespace headscope::kernels::fp8
