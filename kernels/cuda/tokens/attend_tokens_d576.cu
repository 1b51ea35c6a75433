// SPDX-License-Identifier: Apache-2.0
// The kernel of attention over chosen tokens: a persistent block per multiprocessor, which takes a query's block of 64
// heads at a time.
#include <cutlass/arch/reg_reconfig.h>

#include "tokens/token_consumer.cuh"
#include "tokens/token_loader.cuh"

namespace headscope::kernels::tokens {
namespace {

__device__ void InitBarriers(SharedStorage& s) {
  Mbarrier::init(&s.q_full, 1);
  for (int tile = 0; tile < kGroups; ++tile) {
    for (int half = 0; half < 2; ++half) {
      Mbarrier::init(&s.full[tile][half], tile == half ? 256 : 128);
      Mbarrier::init(&s.empty[tile][half], tile == half ? 128 : 4);
    }
    Mbarrier::init(&s.weights_full[tile], 128);
    Mbarrier::init(&s.weights_empty[tile], 4);
  }
  Mbarrier::init(&s.met, 128 * kGroups);
  s.again = 0;
  cutlass::arch::fence_barrier_init();
}

template <bool kAgain>
__global__ void __launch_bounds__(kThreads, 1) AttendTokensKernel(const __grid_constant__ TokenParams params) {
  extern __shared__ char raw[];
  // The swizzle's pattern counts from multiples of 1024 bytes.
  SharedStorage& shared =
      *reinterpret_cast<SharedStorage*>(raw + ((1024 - (cute::cast_smem_ptr_to_uint(raw) & 1023)) & 1023));
  if (kAgain && params.again[0] == 0) return;
  if (threadIdx.x == 0) {
    cute::prefetch_tma_descriptor(&params.q);
    InitBarriers(shared);
  }
  __syncthreads();
  const int warpgroup = cutlass::canonical_warp_group_idx();
  if (warpgroup == 0) {
    cutlass::arch::warpgroup_reg_dealloc<kProducerRegisters>();
    TokenLoader<kAgain>(params, shared).Run();
  } else if (warpgroup == 1) {
    cutlass::arch::warpgroup_reg_alloc<kConsumerRegisters>();
    TokenConsumer<0, kAgain>(params, shared).Run();
  } else {
    cutlass::arch::warpgroup_reg_alloc<kConsumerRegisters>();
    TokenConsumer<1, kAgain>(params, shared).Run();
  }
}

template <bool kAgain>
cudaError_t Launch(const TokenParams& params, int num_blocks, cudaStream_t stream) {
  const cudaError_t error =
      cudaFuncSetAttribute(AttendTokensKernel<kAgain>, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  if (error != cudaSuccess) return error;
  AttendTokensKernel<kAgain><<<static_cast<unsigned>(num_blocks), kThreads, kSharedBytes, stream>>>(params);
  return cudaGetLastError();
}

}  // namespace

cudaError_t LaunchAttendTokens(const TokenParams& params, int num_blocks, bool again, cudaStream_t stream) {
  return again ? Launch<true>(params, num_blocks, stream) : Launch<false>(params, num_blocks, stream);
}

}  // namespace headscope::kernels::tokens
