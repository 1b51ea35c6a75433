// SPDX-License-Identifier: Apache-2.0
// A persistent thread block per multiprocessor: a scheduler warp, three loader warps and two or three consumer
// warpgroups; and its launch. Any element type.
#pragma once

#include <cutlass/arch/reg_reconfig.h>

#include "dependent_launch.cuh"
#include "hopper/loader.cuh"
#include "hopper/scheduler.cuh"
#include "hopper/traits.cuh"

namespace headscope::kernels::hopper {

// By one warp, whose lanes share the barriers.
template <class T>
__device__ void InitBarriers(SharedStorage<T>& shared) {
  const uint32_t lane = threadIdx.x % 32;
  static_assert(T::kStepRing + T::kStages + T::kQuerySlots * T::kQueryParts <= 32);
  if (lane < T::kStepRing) {
    Mbarrier::init(&shared.step_full[lane], T::kStepWriters);
    Mbarrier::init(&shared.step_empty[lane], T::kStepReaders);
  } else if (const uint32_t stage = lane - T::kStepRing; stage < T::kStages) {
    Mbarrier::init(&shared.k_full[stage], kFullArrivals);
    Mbarrier::init(&shared.v_full[stage], kFullArrivals);
    Mbarrier::init(&shared.k_empty[stage], T::kEmptyArrivals);
    Mbarrier::init(&shared.v_empty[stage], T::kEmptyArrivals);
    Mbarrier::init(&shared.v_landed[stage], 1);
  } else if (const uint32_t place = stage - T::kStages; place < T::kQuerySlots * T::kQueryParts) {
    Mbarrier::init(&shared.q_full[place / T::kQuerySlots][place % T::kQuerySlots], 1);
    Mbarrier::init(&shared.q_empty[place / T::kQuerySlots][place % T::kQuerySlots], T::kQueryArrivals / T::kQueryParts);
  }
  cutlass::arch::fence_barrier_init();
}

// fetch_ahead: what one warp does while the barriers are made.
template <class T, class Scheduler, class Loader, class Consumer, class FetchAhead>
__device__ __forceinline__ void RunBlock(const typename T::Params& params, const FetchAhead& fetch_ahead) {
  extern __shared__ char raw[];
  // The swizzle's pattern counts from multiples of 1024 bytes.
  SharedStorage<T>& shared =
      *reinterpret_cast<SharedStorage<T>*>(raw + ((1024 - (cute::cast_smem_ptr_to_uint(raw) & 1023)) & 1023));
  // What needs no barriers goes on while these are made.
  const int warp = cutlass::canonical_warp_idx_sync();
  typename Scheduler::Entry first;
  if (warp == 0) {
    // The queue is the ordering kernels'; all else was there before the first of them started.
    if (params.order != nullptr) cuda::WaitForKernelBefore();
    first = Scheduler::TakeFirst(params, static_cast<int>(threadIdx.x) % 32);
  } else if (warp == 1) {
    InitBarriers(shared);
  } else if (warp == 2) {
    fetch_ahead();
  }
  __syncthreads();

  if (const int warpgroup = cutlass::canonical_warp_group_idx(); warpgroup == 0) {
    cutlass::arch::warpgroup_reg_dealloc<T::kProducerRegisters>();
    if (warp == 0) {
      Scheduler(params, shared).Run(first);
    } else {
      Loader(params, shared, warp - 1).Run();
    }
  } else {
    cutlass::arch::warpgroup_reg_alloc<T::kConsumerRegisters>();
    Consumer(params, shared, warpgroup - 1).Run();
  }
}

template <class T, class Params>
cudaError_t LaunchBlocks(void (*kernel)(Params), const typename T::Params& params, int num_blocks,
                         cudaStream_t stream) {
  constexpr int kSharedBytes = sizeof(SharedStorage<T>) + 1024;
  static_assert(kSharedBytes <= 227 * 1024);
  const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  if (error != cudaSuccess) return error;
  if (params.order == nullptr) {
    // Nothing of this call runs before it, so it waits for whatever stands in front of it in the stream.
    kernel<<<static_cast<unsigned>(num_blocks), T::kThreads, kSharedBytes, stream>>>(params);
    return cudaGetLastError();
  }
  return cuda::LaunchDependent(kernel, static_cast<unsigned>(num_blocks), T::kThreads, kSharedBytes, stream, params);
}

}  // namespace headscope::kernels::hopper
