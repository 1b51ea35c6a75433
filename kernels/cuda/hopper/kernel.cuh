// SPDX-License-Identifier: Apache-2.0
// The Hopper kernel: a persistent thread block per multiprocessor; a scheduler warp, three loader warps and two
// consumer warpgroups.
#pragma once

#include <cutlass/arch/reg_reconfig.h>

#include "dependent_launch.cuh"
#include "hopper/consumer.cuh"
#include "hopper/instances.h"
#include "hopper/loader.cuh"
#include "hopper/scheduler.cuh"

namespace headscope::kernels::hopper {

template <class T>
__global__ void __launch_bounds__(kThreads, 1) AttendHopperKernel(const __grid_constant__ KernelParams params) {
  extern __shared__ char raw[];
  // The swizzle's pattern counts from multiples of 1024 bytes.
  SharedStorage<T>& shared =
      *reinterpret_cast<SharedStorage<T>*>(raw + ((1024 - (cute::cast_smem_ptr_to_uint(raw) & 1023)) & 1023));
  if (threadIdx.x == 0) {
    for (int i = 0; i < T::kQuerySlots; ++i) {
      Mbarrier::init(&shared.q_full[i], 1);
      Mbarrier::init(&shared.q_empty[i], kConsumerWarps);
    }
    for (uint32_t i = 0; i < kStages; ++i) {
      Mbarrier::init(&shared.k_full[i], kFullArrivals);
      Mbarrier::init(&shared.v_full[i], kFullArrivals);
      Mbarrier::init(&shared.k_empty[i], kEmptyArrivals);
      Mbarrier::init(&shared.v_empty[i], kEmptyArrivals);
      Mbarrier::init(&shared.v_landed[i], 1);
    }
    for (uint32_t i = 0; i < kStepRing; ++i) {
      Mbarrier::init(&shared.step_full[i], 1);
      Mbarrier::init(&shared.step_empty[i], kStepReaders);
    }
    cutlass::arch::fence_barrier_init();
  }
  __syncthreads();

  const int warpgroup = cutlass::canonical_warp_group_idx();
  if (warpgroup == 0) {
    cutlass::arch::warpgroup_reg_dealloc<kProducerRegisters>();
    if (const int warp = cutlass::canonical_warp_idx_sync(); warp == 0) {
      // The queue is the ordering kernels'; all else was there before the first of them started.
      cuda::WaitForKernelBefore();
      Scheduler<T>(params, shared).Run();
    } else {
      Loader<T>(params, shared, warp - 1).Run();
    }
  } else {
    cutlass::arch::warpgroup_reg_alloc<kConsumerRegisters>();
    Consumer<T>(params, shared, warpgroup - 1).Run();
  }
}

template <class T>
cudaError_t LaunchKernel(const KernelParams& params, int num_blocks, cudaStream_t stream) {
  constexpr int kSharedBytes = sizeof(SharedStorage<T>) + 1024;
  static_assert(kSharedBytes <= 227 * 1024);
  const cudaError_t error =
      cudaFuncSetAttribute(AttendHopperKernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  if (error != cudaSuccess) return error;
  if (params.order == nullptr) {
    // Nothing of this call runs before it, so it waits for whatever stands in front of it in the stream.
    AttendHopperKernel<T><<<static_cast<unsigned>(num_blocks), kThreads, kSharedBytes, stream>>>(params);
    return cudaGetLastError();
  }
  return cuda::LaunchDependent(AttendHopperKernel<T>, static_cast<unsigned>(num_blocks), kThreads, kSharedBytes, stream,
                               params);
}

}  // namespace headscope::kernels::hopper
