// SPDX-License-Identifier: Apache-2.0
// The scheduler warp: takes work items, brings their queries, and turns their lists into steps.
#pragma once

#include <cute/arch/cluster_sm90.hpp>
#include <cute/arch/copy_sm90_tma.hpp>

#include "hopper/item_queue.cuh"
#include "hopper/run_walker.cuh"
#include "hopper/step_writer.cuh"
#include "hopper/traits.cuh"

namespace headscope::kernels::hopper {

template <class T>
class Scheduler {
 public:
  using Entry = ItemQueue::Entry;
  // None where a dense kernel takes all items (dense_kernel.cuh).
  __device__ static Entry TakeFirst(const typename T::Params& params, int lane) {
    return AllKeepEverything(params, lane) ? Entry{} : ItemQueue(params, lane, 0).Take();
  }

  __device__ Scheduler(const typename T::Params& params, SharedStorage<T>& shared)
      : p_(params),
        s_(shared),
        lane_(static_cast<int>(threadIdx.x) % 32),
        queue_(params, lane_, 1),
        writer_(params, shared, lane_) {}

  // `entry`: the first that was taken of the queue.
  __device__ void Run(Entry entry) {
    RunWalker<T> walker(p_, lane_);
    for (uint32_t work = 0;; ++work) {
      if constexpr (T::kPacked) SkipAbsent(&entry);
      if (entry.item < 0) {
        writer_.Announce(work, NoPlace());
        Publish({.flags = kStepEnd}, {});
        return;
      }
      const typename T::Place place = PlaceOf(p_, entry.item);
      // At first a slot for queries is free: nothing has to be known of the lists. Later the first runs are on their
      // way while one becomes free.
      if (work < T::kQuerySlots) writer_.Announce(work, place);
      queue_.Store(entry, &s_.lists);
      if constexpr (T::kPacked) {
        place_ = place;
        walker.SetSequence(place.seq_q, place.seq_k, place.first_position);
      }
      walker.Start(s_.lists, place.tile);
      kv_head_ = Quotient(place.head, p_.by_group_size);
      sequence_ = place.sequence;
      if (work >= T::kQuerySlots) {
        if (T::kQueryParts == 1) {
          writer_.Announce(work, place);
        } else {
          late_ = {work, entry.item, kStepsAhead};
        }
      }
      const bool has_columns = s_.lists.column_count[0] + s_.lists.column_count[1] != 0;
      walker.TakeDiagonalEarly();
      PublishRuns(walker, has_columns);
      if (has_columns) PublishColumns(s_.lists);
      AnnounceLate();
      entry = queue_.Take();
    }
  }

 private:
  // Every head has as many items as the longest sequence: takes entries until one is an item of its own sequence.
  __device__ void SkipAbsent(ItemQueue::Entry* entry) {
    while (entry->item >= 0) {
      const typename T::Place place = PlaceOf(p_, entry->item);
      if (place.tile * kItemRows < NumQueries(p_, place)) return;
      *entry = queue_.Take();
    }
  }
  __device__ static typename T::Place NoPlace() {
    typename T::Place none{};
    none.sequence = -1;
    return none;
  }

  // With one slot the queries before are in use until an item's last step: its successor's first steps are published
  // meanwhile, so that their keys are on their way. No more than that, since the ring may be full of them.
  __device__ void AnnounceLate() {
    if (T::kQueryParts == 1 || late_.item < 0) return;
    writer_.Announce(late_.work, PlaceOf(p_, late_.item));
    late_.item = -1;
  }

  __device__ void PublishRuns(RunWalker<T>& walker, bool columns_follow) {
    bool more = walker.HasNext();
    if (!more && !columns_follow) {
      // An item that keeps nothing is one tile of nothing: rows of zeros behind the last key, all masked.
      Tile nothing{.flags = kStepWhole | kStepMasked | kStepLast};
      CUTE_UNROLL
      for (int i = 0; i < T::kSegments; ++i) nothing.start[i] = walker.BehindLastKey();
      Publish(nothing, {});
    }
    while (more) {
      Tile tile = walker.Next();
      more = walker.HasNext();
      if (!more && !columns_follow) tile.flags |= kStepLast;
      Publish(tile, {});
    }
  }

  __device__ void PublishColumns(const ItemLists& lists) {
    for (int l = 0; l < lists.count; ++l) {
      const int count = static_cast<int>(lists.column_count[l]);
      const int64_t begin = lists.column_begin[l];
      const bool last_list = l + 1 == lists.count || lists.column_count[l + 1] == 0;
      for (int first = 0; first < count; first += T::kTileColumns) {
        const int present = min(T::kTileColumns, count - first);
        // The loaders read the columns a few steps from now.
        if (4 * lane_ < present) {
          asm volatile("prefetch.global.L1 [%0];" ::"l"(p_.index.columns + begin + first + 4 * lane_));
        }
        Tile tile{.flags = kStepGathered, .upper_quarters = lists.Quarters(l)};
        CUTE_UNROLL
        for (int i = 0; i < T::kSegments; ++i) tile.upper[i] = BitsBelow(present - i * kSegmentRows);
        if (present < T::kTileColumns || lists.count != 1) tile.flags |= kStepMasked;
        if (last_list && first + T::kTileColumns >= count) tile.flags |= kStepLast;
        Publish(tile, {begin + first, present});
      }
    }
  }

  struct Columns {
    int64_t begin = 0;
    int32_t count = 0;
  };
  __device__ void Publish(const Tile& tile, const Columns& columns) {
    if (T::kQueryParts > 1 && late_.steps_ahead-- == 0) AnnounceLate();
    writer_.Publish(place_, tile.flags, tile.start, [&](Step& step) {
      // Words that no reader of a step of its kind looks at are not written.
      if ((tile.flags & kStepMasked) != 0) WriteKept(tile, &step);
      CUTE_UNROLL
      for (int i = 0; i < T::kSegments; ++i) step.start[i] = tile.start[i];
      if ((tile.flags & kStepGathered) != 0) {
        step.columns = columns.begin;
        step.num_columns = columns.count;
      }
      step.kv_head = kv_head_;
      step.sequence = sequence_;
    });
  }

  __device__ static void WriteKept(const Tile& tile, Step* step) {
    CUTE_UNROLL
    for (int quarter = 0; quarter < kItemRows / 32; ++quarter) {
      const bool upper = (tile.upper_quarters >> quarter & 1u) != 0;
      const bool lower = (tile.lower_quarters >> quarter & 1u) != 0;
      CUTE_UNROLL
      for (int i = 0; i < T::kSegments; ++i) {
        step->kept[quarter][i] = upper ? tile.upper[i] : lower ? tile.lower[i] : 0u;
      }
    }
    CUTE_UNROLL
    for (int i = 0; i < T::kSegments; ++i) step->unread[i] = ~(tile.upper[i] | tile.lower[i]);
  }

  const typename T::Params& p_;
  SharedStorage<T>& s_;
  const int lane_;
  ItemQueue queue_;
  StepWriter<T> writer_;
  int kv_head_ = 0;
  int sequence_ = 0;
  typename T::Place place_{};  // of packed sequences: the item whose steps are published
  // The item that is to be announced behind so many steps.
  struct Late {
    uint32_t work = 0;
    int item = -1;
    int steps_ahead = 0;
  };
  static constexpr int kStepsAhead = T::kStages;  // as many as there is room for their keys
  Late late_;
};

}  // namespace headscope::kernels::hopper
