// SPDX-License-Identifier: Apache-2.0
// The FP8 kernel: a persistent thread block per multiprocessor; a scheduler warp, three loader warps and two consumer
// warpgroups, as in hopper/kernel.cuh.
#include <cutlass/arch/reg_reconfig.h>

#include "dependent_launch.cuh"
#include "fp8/fp8_consumer.cuh"
#include "fp8/fp8_instances.h"
#include "fp8/fp8_loader.cuh"
#include "hopper/scheduler.cuh"

namespace headscope::kernels::fp8 {
namespace {

// By one warp, whose lanes share the barriers.
__device__ void InitBarriers(Storage& shared) {
  const uint32_t lane = threadIdx.x % 32;
  using T = Traits;
  static_assert(T::kStepRing + T::kStages + T::kQuerySlots <= 32);
  if (lane < T::kStepRing) {
    Mbarrier::init(&shared.step_full[lane], 1);
    Mbarrier::init(&shared.step_empty[lane], hopper::kStepReaders);
  } else if (const uint32_t stage = lane - T::kStepRing; stage < T::kStages) {
    Mbarrier::init(&shared.k_full[stage], hopper::kFullArrivals);
    Mbarrier::init(&shared.v_full[stage], hopper::kFullArrivals);
    Mbarrier::init(&shared.k_empty[stage], hopper::kEmptyArrivals);
    Mbarrier::init(&shared.v_empty[stage], hopper::kEmptyArrivals);
    Mbarrier::init(&shared.v_landed[stage], 1);
  } else if (const uint32_t slot = stage - T::kStages; slot < T::kQuerySlots) {
    Mbarrier::init(&shared.q_full[0][slot], 1);
    Mbarrier::init(&shared.q_empty[0][slot], kConsumerWarps);
  }
  cutlass::arch::fence_barrier_init();
}

__global__ void __launch_bounds__(hopper::kThreads, 1) AttendFp8Kernel(const __grid_constant__ Fp8Params params) {
  extern __shared__ char raw[];
  // The swizzle's pattern counts from multiples of 1024 bytes.
  Storage& shared = *reinterpret_cast<Storage*>(raw + ((1024 - (cute::cast_smem_ptr_to_uint(raw) & 1023)) & 1023));
  // What needs no barriers goes on while these are made.
  const int warp = cutlass::canonical_warp_idx_sync();
  hopper::ItemQueue::Entry first;
  if (warp == 0) {
    // The queue is the ordering kernels'; all else was there before the first of them started.
    if (params.order != nullptr) cuda::WaitForKernelBefore();
    first = hopper::ItemQueue(params, static_cast<int>(threadIdx.x) % 32, 0).Take();
  } else if (warp == 1) {
    InitBarriers(shared);
  } else if (warp == 2) {
    if (cute::elect_one_sync()) cute::prefetch_tma_descriptor(&params.o);
  }
  __syncthreads();

  if (const int warpgroup = cutlass::canonical_warp_group_idx(); warpgroup == 0) {
    cutlass::arch::warpgroup_reg_dealloc<hopper::kProducerRegisters>();
    if (warp == 0) {
      hopper::Scheduler<Traits>(params, shared).Run(first);
    } else {
      Loader(params, shared, warp - 1).Run();
    }
  } else {
    cutlass::arch::warpgroup_reg_alloc<hopper::kConsumerRegisters>();
    Consumer(params, shared, warpgroup - 1).Run();
  }
}

}  // namespace

cudaError_t LaunchFp8D128(const Fp8Params& params, int num_blocks, cudaStream_t stream) {
  constexpr int kSharedBytes = sizeof(Storage) + 1024;
  static_assert(kSharedBytes <= 227 * 1024);
  const cudaError_t error =
      cudaFuncSetAttribute(AttendFp8Kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  if (error != cudaSuccess) return error;
  if (params.order == nullptr) {
    // Nothing of this call runs before it, so it waits for whatever stands in front of it in the stream.
    AttendFp8Kernel<<<static_cast<unsigned>(num_blocks), hopper::kThreads, kSharedBytes, stream>>>(params);
    return cudaGetLastError();
  }
  return cuda::LaunchDependent(AttendFp8Kernel, static_cast<unsigned>(num_blocks), hopper::kThreads, kSharedBytes,
                               stream, params);
}

}  // namespace headscope::kernels::fp8
