// SPDX-License-Identifier: Apache-2.0
// Work items for one thread block: a ticket of the global queue, the item behind it and the heads of its lists; of few
// items in all, those that the block is dealt. Nothing is drawn ahead: the ring of steps hides the chain of dependent
// loads, and a block that draws early takes work that another would be free for sooner.
#pragma once

#include "hopper/traits.cuh"

namespace headscope::kernels::hopper {

// The dealt-th item of few. A block's first is the one of its own number.
__device__ inline int DealtItem(const KernelParams& p, int dealt) {
  const int from_last = Quotient(dealt, p.by_heads);
  const int num_heads = Quotient(p.num_items, p.by_items_per_head);
  return (dealt - from_last * num_heads) * p.items_per_head + p.items_per_head - 1 - from_last;
}

// Which item a block takes next where they are dealt: to and fro over the blocks, so that who got a longer item before
// gets a shorter one.
__device__ inline int Dealt(int round) {
  const int num_blocks = static_cast<int>(gridDim.x), block = static_cast<int>(blockIdx.x);
  return round * num_blocks + (round % 2 == 0 ? block : num_blocks - 1 - block);
}

// Whether every head keeps everything, where that was asked. All lanes of a warp together, behind the ordering kernels.
__device__ inline bool AllKeepEverything(const KernelParams& p, int lane) {
  if (p.dense_sections == nullptr) return false;
  bool all = true;
  CUTE_NO_UNROLL
  for (int section = lane; section < p.num_sections; section += 32) all &= p.dense_sections[section] != 0;
  return __all_sync(kAllLanes, all) != 0;
}

// All lanes of a warp call every function together.
class ItemQueue {
 public:
  // `taken`: how many items the block has taken already.
  __device__ ItemQueue(const KernelParams& params, int lane, int taken) : p_(params), lane_(lane), round_(taken) {}

  // The next item, -1 when there is none, and what a lane has asked for of its lists: lane 2 * i + l field i of list l.
  // Nothing waits for that before Store().
  struct Entry {
    int item = -1;
    int64_t begin = 0;
    int32_t count = 0;
  };
  __device__ Entry Take() {
    Entry entry{.item = Next()};
    if (entry.item < 0) return entry;
    const int lists_per_item = p_.index.tile_rows == kItemRows ? 1 : 2;
    const int head = Quotient(entry.item, p_.by_items_per_head);
    const int field = lane_ / 2, l = lane_ % 2;
    const int tile = (entry.item - head * p_.items_per_head) * lists_per_item + l;
    const int64_t list = static_cast<int64_t>(head) * p_.lists_per_head + tile;
    if (field > 3 || l >= lists_per_item || tile >= p_.lists_per_head) return entry;
    if (field % 2 == 0) {
      entry.begin = (field == 0 ? p_.index.run_begin : p_.index.column_begin)[list];
    } else {
      entry.count = (field == 1 ? p_.index.run_count : p_.index.column_count)[list];
    }
    return entry;
  }
  __device__ void Store(const Entry& entry, ItemLists* lists) const {
    __syncwarp();
    if (lane_ < 8) reinterpret_cast<int64_t*>(lists)[lane_] = lane_ / 2 % 2 == 0 ? entry.begin : entry.count;
    if (lane_ == 0) lists->count = p_.index.tile_rows == kItemRows ? 1 : 2;
    __syncwarp();
  }

 private:
  __device__ int Next() {
    if (p_.order == nullptr) return NextDealt();
    int item = 0;
    if (lane_ == 0) {
      const int ticket = atomicAdd(p_.next_item, 1);
      item = ticket < p_.num_items ? p_.order[ticket] : -1;
    }
    return __shfl_sync(kAllLanes, item, 0);
  }

  // Few items are dealt without a queue: the last row tiles of all heads first, since lists grow along a prompt.
  __device__ int NextDealt() {
    const int dealt = Dealt(round_++);
    return dealt < p_.num_items ? DealtItem(p_, dealt) : -1;
  }

  const KernelParams& p_;
  const int lane_;
  int round_;  // of dealing
};

}  // namespace headscope::kernels::hopper
