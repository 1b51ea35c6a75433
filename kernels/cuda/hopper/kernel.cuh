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

// By one warp, whose lanes share the barriers.
template <class T>
__device__ void InitBarriers(SharedStorage<T>& shared) {
  const uint32_t lane = threadIdx.x % 32;
  static_assert(T::kStepRing + kStages + T::kQuerySlots * T::kQueryParts <= 32);
  if (lane < T::kStepRing) {
    Mbarrier::init(&shared.step_full[lane], 1);
    Mbarrier::init(&shared.step_empty[lane], kStepReaders);
  } else if (const uint32_t stage = lane - T::kStepRing; stage < kStages) {
    Mbarrier::init(&shared.k_full[stage], kFullArrivals);
    Mbarrier::init(&shared.v_full[stage], kFullArrivals);
    Mbarrier::init(&shared.k_empty[stage], kEmptyArrivals);
    Mbarrier::init(&shared.v_empty[stage], kEmptyArrivals);
    Mbarrier::init(&shared.v_landed[stage], 1);
  } else if (const uint32_t place = stage - kStages; place < T::kQuerySlots * T::kQueryParts) {
    Mbarrier::init(&shared.q_full[place / T::kQuerySlots][place % T::kQuerySlots], 1);
    Mbarrier::init(&shared.q_empty[place / T::kQuerySlots][place % T::kQuerySlots], kConsumerWarps / T::kQueryParts);
  }
  cutlass::arch::fence_barrier_init();
}

// Has the tensors' descriptors fetched, and where items are dealt, what a block's first most likely begins with brought
// to L2, while its lists are still looked up: its queries, and the first keys and values, which are in most lists.
template <class T>
__device__ void FetchAhead(const KernelParams& p) {
  if (!cute::elect_one_sync()) return;
  for (const CUtensorMap* map : {&p.q, &p.k_boxes[kWholeTile], &p.v_boxes[kWholeTile], &p.o}) {
    cute::prefetch_tma_descriptor(map);
  }
  if (p.order != nullptr) return;
  const ItemPlace place = PlaceOf(p, DealtItem(p, static_cast<int>(blockIdx.x)));
  const int kv_head = Quotient(place.head, p.by_group_size);
  for (int slab = 0; slab < T::kQuerySlabs; ++slab) {
    for (int row = 0; row < kItemRows; row += T::kPartRows) {
      cute::SM90_TMA_LOAD_4D::PREFETCH::copy(&p.q, slab * 64, place.tile * kItemRows + row, place.head, place.sequence);
    }
    cute::SM90_TMA_LOAD_4D::PREFETCH::copy(&p.k_boxes[kWholeTile], slab * 64, 0, kv_head, place.sequence);
    if (slab >= T::kValueSlabs) continue;
    cute::SM90_TMA_LOAD_4D::PREFETCH::copy(&p.v_boxes[kWholeTile], slab * 64, 0, kv_head, place.sequence);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads, 1) AttendHopperKernel(const __grid_constant__ KernelParams params) {
  extern __shared__ char raw[];
  // The swizzle's pattern counts from multiples of 1024 bytes.
  SharedStorage<T>& shared =
      *reinterpret_cast<SharedStorage<T>*>(raw + ((1024 - (cute::cast_smem_ptr_to_uint(raw) & 1023)) & 1023));
  // What needs no barriers goes on while these are made.
  const int warp = cutlass::canonical_warp_idx_sync();
  ItemQueue::Entry first;
  if (warp == 0) {
    // The queue is the ordering kernels'; all else was there before the first of them started.
    if (params.order != nullptr) cuda::WaitForKernelBefore();
    first = ItemQueue(params, static_cast<int>(threadIdx.x) % 32, 0).Take();
  } else if (warp == 1) {
    InitBarriers(shared);
  } else if (warp == 2) {
    FetchAhead<T>(params);
  }
  __syncthreads();

  if (const int warpgroup = cutlass::canonical_warp_group_idx(); warpgroup == 0) {
    cutlass::arch::warpgroup_reg_dealloc<kProducerRegisters>();
    if (warp == 0) {
      Scheduler<T>(params, shared).Run(first);
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
