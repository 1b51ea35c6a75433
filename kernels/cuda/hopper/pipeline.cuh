// SPDX-License-Identifier: Apache-2.0
// What joins the roles of a kernel that runs SparseIndexes on Hopper: steps, items, and the barriers between those who
// make them, those who bring what they name and those who multiply. Any element type.
//
// Three roles, joined by mbarriers. The scheduler warp turns lists into *steps* (one tile of keys each) and writes them
// into a ring; the loader warps bring the keys and values that a step names; the consumer warpgroups multiply. The ring
// lets the scheduler run ahead by many tiles, also into the next item, so that neither its look-ups nor its arithmetic
// ever stand between two loads.
//
// Whoever reads a step or an item in shared memory is lane 0 of its warp, and hands it on by shuffles: then the thread
// that reads is the thread that arrives at the barrier which lets the slot be written again.
//
// A barrier tells the use of a slot by one bit, so nobody may fall two uses behind: whoever waits at a barrier must
// also be waited for, before the slot can be used again.
#pragma once

#include <cutlass/arch/barrier.h>

#include <cute/arch/copy_sm90_tma.hpp>
#include <cute/tensor.hpp>

#include "hopper/kernel_params.h"

namespace headscope::kernels::hopper {

constexpr int kSlabBytes = 128;  // of one key in one slab: 64 components of 16 bits
constexpr int kConsumerGroups = 2;
constexpr int kConsumerWarps = 4 * kConsumerGroups;
constexpr int kLoaderWarps = 3;  // with the scheduler warp a warpgroup
constexpr uint32_t kAllLanes = 0xffffffffu;

// How a block's threads are divided, a base of a kernel's traits. kGroups: consumer warpgroups, of 64 query rows each.
template <int kGroups_, int kProducerRegisters_, int kConsumerRegisters_>
struct BlockShape {
  static constexpr int kGroups = kGroups_;
  static constexpr int kRows = 64 * kGroups;  // of an item
  static constexpr int kThreads = 128 * (1 + kGroups);
  static constexpr int kProducerRegisters = kProducerRegisters_;
  static constexpr int kConsumerRegisters = kConsumerRegisters_;
  static constexpr uint32_t kEmptyArrivals = 4 * kGroups;                  // of consumer warps, lane 0 of each
  static constexpr uint32_t kQueryArrivals = kEmptyArrivals;               // likewise, at a slot of queries
  static constexpr uint32_t kStepReaders = kEmptyArrivals + kLoaderWarps;  // each lets go of every step
  // Whether steps come out of an index's lists; else every head keeps what a causal rule leaves to it.
  static constexpr bool kReadsLists = true;
};
using TwoGroups = BlockShape<kConsumerGroups, 56, 224>;
using ThreeGroups = BlockShape<3, 32, 160>;
static_assert(TwoGroups::kRows == kItemRows);

// A tile of keys is a few segments of kSegmentRows neighbouring keys.
constexpr int kMaxSegments = 4;

enum StepFlags : uint32_t {
  kStepLast = 1,          // of its item
  kStepMasked = 2,        // some elements are not kept
  kStepUnreadValues = 4,  // V has rows that no list names: they may hold NaN and are zeroed before the product
  kStepGathered = 8,      // single columns, written by cp.async, through the generic proxy
  kStepWhole = 16,        // all segments are neighbours: one box per slab brings them
  kStepPairs = 32,        // segments 0 and 1 are neighbours, and so are 2 and 3: two boxes per slab
  kStepRuled = 64,        // of what is kept the element rule takes some away
  kStepEnd = 128,         // no step, and none will follow
  kStepPieces = 256,      // of packed tensors: the halves of a segment lie apart
};

// One tile of keys, as the scheduler describes it to the loaders and the consumers.
struct Step {
  // Bit j of kept[quarter][i]: these 32 rows of the item keep key start[i] + j (gathered steps: column 32 * i + j).
  alignas(16) uint32_t kept[kItemRows / 32][kMaxSegments];
  int32_t start[kMaxSegments];
  uint32_t unread[kMaxSegments];  // keys of the segments that no row keeps
  int64_t columns;                // gathered: where its columns begin in index.columns
  int32_t num_columns;
  int32_t kv_head;
  int32_t sequence;
  uint32_t flags;
};

// Which (sequence, head, row tile) an item is.
struct ItemPlace {
  int32_t sequence;  // -1: there is no item left
  int32_t head;
  int32_t tile;  // of as many rows as the kernel's items have
};
__device__ inline ItemPlace PlaceOf(const KernelParams& p, int item) {
  const int head = Quotient(item, p.by_items_per_head);
  const int sequence = Quotient(head, p.by_sequence_heads);
  return {sequence, head - sequence * p.index.num_qo_heads, item - head * p.items_per_head};
}

// A base of the traits of kernels whose sequences have one length; packed_traits.cuh has others.
struct OneLength {
  using Place = ItemPlace;
  static constexpr bool kPacked = false;
  struct KeyPlace {};
  static constexpr int kStepWriters = 1;  // lanes of the scheduler, each of which arrives for what it writes
};

// What differs where sequences of several lengths lie in one tensor (packed_place.cuh has the other half of these).
__device__ inline int NumQueries(const KernelParams& p, const ItemPlace&) {
  return p.index.seq_q;
}
__device__ inline int NumKeys(const KernelParams& p, const ItemPlace&) {
  return p.index.seq_k;
}
__device__ inline int FirstPosition(const KernelParams& p, const ItemPlace&) {
  return p.index.first_position;
}
// Of the sequence's query `query`, in q, o and lse, and which sequence of the tensors that is.
__device__ inline int RowOf(const ItemPlace&, int query) {
  return query;
}
__device__ inline int SequenceOf(const ItemPlace& place) {
  return place.sequence;
}
__device__ inline int64_t LseOf(const KernelParams& p, const ItemPlace& place, int query) {
  return (static_cast<int64_t>(place.sequence) * p.index.num_qo_heads + place.head) * p.index.seq_q + query;
}

// The lists of one item: one of 128 rows, or two of 64 that are walked one after the other. Eight words, each of which
// a lane looks up.
struct ItemLists {
  int64_t run_begin[2];
  int64_t run_count[2];
  int64_t column_begin[2];
  int64_t column_count[2];
  int32_t count;  // 1 or 2

  // Row quarters of the item that list l covers.
  __device__ uint32_t Quarters(int l) const { return count == 1 ? 0xfu : l == 0 ? 0x3u : 0xcu; }
};

// Every loader thread arrives once for each step's keys and once for its values, one lane for its warp where that
// copies nothing by itself.
constexpr uint32_t kFullArrivals = 32 * kLoaderWarps;

// A block's shared memory. T: the traits of a kernel (hopper/traits.cuh, fp8/fp8_traits.cuh), whose Tensors are Q, K, V
// and what else it keeps there. Bases begin where what they are part of does: nvcc takes a conversion to one that does
// not for a pointer that may be null, and forgets that it is shared memory.
template <class T>
struct SharedStorage : T::Tensors {
  alignas(16) Step steps[T::kStepRing];
  ItemLists lists;  // of the item that the scheduler walks; its own
  typename T::Place places[T::kQueryParts][T::kQuerySlots];
  alignas(8) uint64_t q_full[T::kQueryParts][T::kQuerySlots];
  alignas(8) uint64_t q_empty[T::kQueryParts][T::kQuerySlots];
  alignas(8) uint64_t k_full[T::kStages];
  alignas(8) uint64_t k_empty[T::kStages];
  alignas(8) uint64_t v_full[T::kStages];
  alignas(8) uint64_t v_empty[T::kStages];
  alignas(8) uint64_t v_landed[T::kStages];  // of steps with unread values: what TMA brings is there
  alignas(8) uint64_t step_full[T::kStepRing];
  alignas(8) uint64_t step_empty[T::kStepRing];
};

enum BarrierId : uint32_t { kTurnBarrier = 2 /* and 3 */, kLoaderBarrier = 4, kGroupBarrier = 5 /* to 7 */ };

// Both are for whole warps: the lanes come together first.
__device__ inline void BarrierSync(uint32_t id, int threads) {
  __syncwarp();
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ inline void BarrierArrive(uint32_t id, int threads) {
  __syncwarp();
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ inline void ArriveMany(uint64_t* barrier, uint32_t count) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(cute::cast_smem_ptr_to_uint(barrier)), "r"(count)
               : "memory");
}

using Mbarrier = cutlass::arch::ClusterTransactionBarrier;

// Waits until slot `number % kSlots` of a ring has been filled (emptied) for the use that `number` makes of it.
template <uint32_t kSlots>
__device__ inline void WaitFull(uint64_t (&full)[kSlots], uint32_t number) {
  Mbarrier::wait(&full[number % kSlots], number / kSlots & 1u);
}
// Whether it has been filled already. All lanes ask and get one answer: code around wgmma is compiled for warps that
// stay together, so that lanes which saw different moments of the barrier would part for good.
template <uint32_t kSlots>
__device__ inline bool IsFull(uint64_t (&full)[kSlots], uint32_t number) {
  return __all_sync(kAllLanes, Mbarrier::test_wait(&full[number % kSlots], number / kSlots & 1u, /*pred=*/1)) != 0;
}
template <uint32_t kSlots>
__device__ inline void WaitEmpty(uint64_t (&empty)[kSlots], uint32_t number) {
  Mbarrier::wait(&empty[number % kSlots], (number / kSlots & 1u) ^ 1u);
}

}  // namespace headscope::kernels::hopper
