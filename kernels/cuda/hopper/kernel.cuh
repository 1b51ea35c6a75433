// SPDX-License-Identifier: Apache-2.0
// The 16-bit Hopper kernel.
#pragma once

#include "hopper/block.cuh"
#include "hopper/consumer.cuh"
#include "hopper/instances.h"
#include "hopper/tensor_copies.cuh"

namespace headscope::kernels::hopper {

// Has the tensors' descriptors fetched, and where items are dealt, what a block's first most likely begins with brought
// to L2, while its lists are still looked up: its queries, and the first keys and values, which are in most lists.
template <class T>
__device__ void FetchAhead(const KernelParams& p) {
  if (!cute::elect_one_sync()) return;
  FetchDescriptors(p);
  if (p.order != nullptr) return;
  const ItemPlace place = PlaceOf(p, DealtItem(p, static_cast<int>(blockIdx.x)));
  const int kv_head = Quotient(place.head, p.by_group_size);
  for (int slab = 0; slab < T::kQuerySlabs; ++slab) {
    for (int row = 0; row < kItemRows; row += T::kRows / T::kQueryParts) {
      cute::SM90_TMA_LOAD_4D::PREFETCH::copy(&p.q, slab * 64, place.tile * kItemRows + row, place.head, place.sequence);
    }
    cute::SM90_TMA_LOAD_4D::PREFETCH::copy(&p.k_boxes[kWholeTile], slab * 64, 0, kv_head, place.sequence);
    if (slab >= T::kValueSlabs) continue;
    cute::SM90_TMA_LOAD_4D::PREFETCH::copy(&p.v_boxes[kWholeTile], slab * 64, 0, kv_head, place.sequence);
  }
}

template <class T>
__global__ void __launch_bounds__(T::kThreads, 1) AttendHopperKernel(const __grid_constant__ KernelParams params) {
  RunBlock<T, Scheduler<T>, Loader<T, TensorCopies<T>>, Consumer<T>>(params, [&] { FetchAhead<T>(params); });
}

template <class T>
cudaError_t LaunchKernel(const KernelParams& params, int num_blocks, cudaStream_t stream) {
  return LaunchBlocks<T>(AttendHopperKernel<T>, params, num_blocks, stream);
}

}  // namespace headscope::kernels::hopper
