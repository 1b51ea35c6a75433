// The scheduler warp: takes work items, brings their queries, and turns their lists into steps.
#pragma once

#include <cute/arch/cluster_sm90.hpp>
#include <cute/arch/copy_sm90_tma.hpp>

#include "hopper/item_queue.cuh"
#include "hopper/run_walker.cuh"
#include "hopper/traits.cuh"

namespace headscope::kernels::hopper {

template <class T>
class Scheduler {
 public:
  __device__ Scheduler(const KernelParams& params, SharedStorage<T>& shared)
      : p_(params), s_(shared), lane_(static_cast<int>(threadIdx.x) % 32), queue_(params, lane_) {}

  __device__ void Run() {
    RunWalker<T> walker(p_, lane_);
    for (uint32_t work = 0;; ++work) {
      const int item = queue_.Take(&s_.lists);
      if (item < 0) {
        Announce(work, {.sequence = -1});
        Publish({}, kStepEnd, 0);
        return;
      }
      const ItemPlace place = PlaceOf(p_, item);
      // The first runs are on their way while the slot for the queries becomes free.
      walker.Start(s_.lists, place.tile);
      Announce(work, place);
      kv_head_ = place.head / p_.group_size;
      sequence_ = place.sequence;
      const bool has_columns = s_.lists.column_count[0] + s_.lists.column_count[1] != 0;
      PublishRuns(walker, has_columns);
      if (has_columns) PublishColumns(s_.lists);
    }
  }

 private:
  // Tells the consumers which item is next, and brings its queries.
  __device__ void Announce(uint32_t work, const ItemPlace& place) {
    WaitEmpty(s_.q_empty, work);
    const uint32_t slot = work % T::kQuerySlots;
    if (lane_ == 0) {
      s_.places[slot] = place;
      if (place.sequence < 0) {
        Mbarrier::arrive(&s_.q_full[slot]);
      } else {
        Mbarrier::arrive_and_expect_tx(&s_.q_full[slot], T::kQueryBytes);
      }
    }
    __syncwarp();
    if (place.sequence >= 0 && cute::elect_one_sync()) {
      for (int slab = 0; slab < T::kSlabs; ++slab) {
        cute::SM90_TMA_LOAD_4D::copy(
            &p_.q, &s_.q_full[slot], static_cast<uint64_t>(cute::TMA::CacheHintSm90::EVICT_FIRST),
            s_.q[slot] + slab * kItemRows * kSlabBytes, slab * 64, place.tile * kItemRows, place.head, place.sequence);
      }
    }
    __syncwarp();
  }

  __device__ void PublishRuns(RunWalker<T>& walker, bool columns_follow) {
    Tile tile;
    if (!walker.Next(&tile)) {
      if (columns_follow) return;
      // An item that keeps nothing is one tile of nothing: rows of zeros behind the last key, all masked.
      tile = {kStepMasked, p_.index.seq_k, 0};
    }
    // Whether a step is the last is known when the one behind it has been looked up.
    while (true) {
      Tile following;
      const bool has_following = walker.Next(&following);
      Publish(tile, tile.flags | (has_following || columns_follow ? 0u : kStepLast + 0u), 0);
      if (!has_following) return;
      tile = following;
    }
  }

  __device__ void PublishColumns(const ItemLists& lists) {
    for (int l = 0; l < lists.count; ++l) {
      const int count = static_cast<int>(lists.column_count[l]);
      const int64_t begin = lists.column_begin[l];
      const uint32_t quarters = lists.Quarters(l);
      const bool last_list = l + 1 == lists.count || lists.column_count[l + 1] == 0;
      for (int first = 0; first < count; first += T::kTileColumns) {
        const int present = min(T::kTileColumns, count - first);
        // The loaders read the columns a few steps from now.
        if (4 * lane_ < present) {
          asm volatile("prefetch.global.L1 [%0];" ::"l"(p_.index.columns + begin + first + 4 * lane_));
        }
        const int length = min(kSegmentRows, max(0, present - lane_ * kSegmentRows));
        uint32_t flags = kStepGathered;
        if (present < T::kTileColumns || quarters != Segment::kAllQuarters) flags |= kStepMasked;
        if (last_list && first + T::kTileColumns >= count) flags |= kStepLast;
        Publish({0, 0, Segment::Pack(length, false, quarters)}, flags, begin + first);
      }
    }
  }

  // Lane i < kSegments holds segment i.
  __device__ void Publish(const Tile& tile, uint32_t flags, int64_t columns) {
    Segment segments[kMaxSegments];
    for (int i = 0; i < T::kSegments; ++i) {
      segments[i] = {__shfl_sync(kAllLanes, tile.start, i), __shfl_sync(kAllLanes, tile.packed, i)};
    }
    WaitEmpty(s_.step_empty, step_);
    if (lane_ == 0) {
      Step& step = s_.steps[step_ % kStepRing];
      for (int i = 0; i < T::kSegments; ++i) step.segments[i] = segments[i];
      step.columns = columns;
      step.kv_head = kv_head_;
      step.sequence = sequence_;
      step.flags = flags;
      Mbarrier::arrive(&s_.step_full[step_ % kStepRing]);
    }
    __syncwarp();
    ++step_;
    queue_.Advance();
  }

  const KernelParams& p_;
  SharedStorage<T>& s_;
  const int lane_;
  ItemQueue queue_;
  uint32_t step_ = 0;  // steps published so far, over all items
  int kv_head_ = 0;
  int sequence_ = 0;
};

}  // namespace headscope::kernels::hopper
