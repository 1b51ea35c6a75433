// SPDX-License-Identifier: Apache-2.0
// Work items for one thread block: a ticket of the global queue, the item behind it and the heads of its lists; of few
// items in all, those that the block is dealt. Nothing
// is drawn ahead: the ring of steps hides the chain of dependent loads, and a block that draws early takes work that
// another would be free for sooner.
#pragma once

#include "hopper/traits.cuh"

namespace headscope::kernels::hopper {

// All lanes of a warp call every function together.
class ItemQueue {
 public:
  __device__ ItemQueue(const KernelParams& params, int lane) : p_(params), lane_(lane) {}

  // The next item, -1 when there is none, and its lists.
  __device__ int Take(ItemLists* lists) {
    int item = 0;
    if (p_.order == nullptr) {
      item = Dealt();
    } else {
      if (lane_ == 0) {
        const int ticket = atomicAdd(p_.next_item, 1);
        item = ticket < p_.num_items ? p_.order[ticket] : -1;
      }
      item = __shfl_sync(kAllLanes, item, 0);
    }
    if (item < 0) return item;
    const int64_t word = ReadHead(item);
    __syncwarp();
    if (lane_ < 8) reinterpret_cast<int64_t*>(lists)[lane_] = word;
    if (lane_ == 0) lists->count = kItemRows / p_.index.tile_rows;
    __syncwarp();
    return item;
  }

 private:
  // Few items are dealt without a queue: the last row tiles of all heads first, since lists grow along a prompt, to and
  // fro over the blocks, so that who got a longer item before gets a shorter one.
  __device__ int Dealt() {
    const int num_blocks = static_cast<int>(gridDim.x), block = static_cast<int>(blockIdx.x);
    const int dealt = round_ * num_blocks + (round_ % 2 == 0 ? block : num_blocks - 1 - block);
    ++round_;
    if (dealt >= p_.num_items) return -1;
    const int num_heads = p_.num_items / p_.items_per_head;
    return dealt % num_heads * p_.items_per_head + p_.items_per_head - 1 - dealt / num_heads;
  }

  // Lane 2 * i + l looks up field i of list l.
  __device__ int64_t ReadHead(int item) const {
    const int lists_per_head = (p_.index.seq_q + p_.index.tile_rows - 1) / p_.index.tile_rows;
    const int lists_per_item = kItemRows / p_.index.tile_rows;
    const int l = lane_ % 2;
    const int tile = item % p_.items_per_head * lists_per_item + l;
    const int64_t list = static_cast<int64_t>(item / p_.items_per_head) * lists_per_head + tile;
    if (l >= lists_per_item || tile >= lists_per_head) return 0;
    switch (lane_ / 2) {
      case 0:
        return p_.index.run_begin[list];
      case 1:
        return p_.index.run_count[list];
      case 2:
        return p_.index.column_begin[list];
      case 3:
        return p_.index.column_count[list];
    }
    return 0;
  }

  const KernelParams& p_;
  const int lane_;
  int round_ = 0;  // of dealing
};

}  // namespace headscope::kernels::hopper
