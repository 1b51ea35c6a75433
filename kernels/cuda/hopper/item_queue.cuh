// Work items for one thread block: the next ticket of the global queue, the item behind it and the heads of its lists,
// each looked up while the present item is being walked, so that no item starts with a chain of four dependent loads.
#pragma once

#include "hopper/traits.cuh"

namespace headscope::kernels::hopper {

// All lanes of a warp call every function together.
class ItemQueue {
 public:
  __device__ ItemQueue(const KernelParams& params, int lane) : p_(params), lane_(lane) {}

  // Starts one more look-up, if one is left. Its result is first touched by the next call, so that nothing waits here.
  __device__ void Advance() {
    if (stage_ == 0) {
      if (lane_ == 0) item_ = atomicAdd(p_.next_item, 1);
    } else if (stage_ == 1) {
      if (lane_ == 0) item_ = item_ < p_.num_items ? p_.order[item_] : -1;
    } else if (stage_ == 2) {
      item_ = __shfl_sync(kAllLanes, item_, 0);
      if (item_ >= 0) ReadHead();
    } else {
      return;
    }
    ++stage_;
  }

  // The next item, -1 when there is none, and its lists.
  __device__ int Take(ItemLists* lists) {
    while (stage_ < 3) Advance();
    stage_ = 0;
    __syncwarp();
    if (lane_ < 8) reinterpret_cast<int64_t*>(lists)[lane_] = word_;
    if (lane_ == 0) lists->count = kItemRows / p_.index.tile_rows;
    __syncwarp();
    return item_;
  }

 private:
  // Lane 2 * i + l looks up field i of list l.
  __device__ void ReadHead() {
    const int lists_per_head = (p_.index.seq_q + p_.index.tile_rows - 1) / p_.index.tile_rows;
    const int lists_per_item = kItemRows / p_.index.tile_rows;
    const int l = lane_ % 2;
    const int tile = item_ % p_.items_per_head * lists_per_item + l;
    const int64_t list = static_cast<int64_t>(item_ / p_.items_per_head) * lists_per_head + tile;
    word_ = 0;
    if (l >= lists_per_item || tile >= lists_per_head) return;
    switch (lane_ / 2) {
      case 0:
        word_ = p_.index.run_begin[list];
        break;
      case 1:
        word_ = p_.index.run_count[list];
        break;
      case 2:
        word_ = p_.index.column_begin[list];
        break;
      case 3:
        word_ = p_.index.column_count[list];
        break;
    }
  }

  const KernelParams& p_;
  const int lane_;
  int stage_ = 0;
  int item_ = 0;  // a ticket, then an item
  int64_t word_ = 0;
};

}  // namespace headscope::kernels::hopper
