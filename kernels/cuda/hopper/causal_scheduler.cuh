// SPDX-License-Identifier: Apache-2.0
// The scheduler warp of kernels for heads that keep all that a causal rule leaves to them: no list is read, an item's
// steps follow from its place.
#pragma once

#include <cute/arch/cluster_sm90.hpp>

#include "hopper/causal_steps.cuh"
#include "hopper/item_queue.cuh"
#include "hopper/key_bits.cuh"
#include "hopper/step_writer.cuh"
#include "hopper/traits.cuh"

namespace headscope::kernels::hopper {

// All lanes of the warp call every function together.
template <class T>
class CausalScheduler {
 public:
  using Entry = int;  // how many items were taken before
  static constexpr Entry kNone = 0x7fffffff;

  __device__ static Entry TakeFirst(const KernelParams& p, int lane) {
    return p.dense_sections == nullptr || AllKeepEverything(p, lane) ? Take(p, lane, 0) : kNone;
  }

  __device__ CausalScheduler(const typename T::Params& params, SharedStorage<T>& shared)
      : p_(params), lane_(static_cast<int>(threadIdx.x) % 32), writer_(params, shared, lane_) {}

  __device__ void Run(Entry taken) {
    const int tiles = (p_.index.seq_q + T::kRows - 1) / T::kRows;
    const int num_heads = Quotient(p_.num_items, p_.by_items_per_head);
    int round = 1;
    for (uint32_t work = 0;; ++work) {
      typename T::Place place{};
      place.sequence = -1;
      while (taken < num_heads * tiles) {
        place = PlaceOfTaken(taken, tiles, num_heads);
        // Every head has as many items as the longest sequence. A sequence of more queries than keys is nobody's; its
        // rows have no steps that consumers could wait for.
        const int queries = T::kPacked ? NumQueries(p_, place) : p_.index.seq_q;
        if (place.tile * T::kRows < queries && queries <= NumKeys(p_, place)) break;
        place.sequence = -1;
        taken = Take(p_, lane_, round++);
      }
      writer_.Announce(work, place);
      if (place.sequence < 0) {
        Publish(place, 0, kStepEnd, 0);
        return;
      }
      PublishSteps(place);
      taken = Take(p_, lane_, round++);
    }
  }

 private:
  static constexpr bool kForConsumers = T::kStepReaders > kLoaderWarps;  // they read steps, too

  // `round`: how many the block has taken.
  __device__ static Entry Take(const KernelParams& p, int lane, int round) {
    if (p.next_item == nullptr) return Dealt(round);
    int taken = 0;
    if (lane == 0) taken = atomicAdd(p.next_item + 1, 1);
    return __shfl_sync(kAllLanes, taken, 0);
  }

  // The order of work_order.h: neighbours share a row tile, sections begin with the shortest items or with the longest.
  __device__ typename T::Place PlaceOfTaken(int taken, int tiles, int num_heads) const {
    const int section = taken / (p_.heads_per_section * tiles);
    const int first_head = section * p_.heads_per_section;
    const int heads = min(p_.heads_per_section, num_heads - first_head);
    const int rank = taken - first_head * tiles;
    const bool longest_first = !p_.sections_fit_cache || section + 1 == p_.num_sections;
    const int tile = longest_first ? tiles - 1 - rank / heads : rank / heads;
    const int head = first_head + rank % heads;
    const int sequence = Quotient(head, p_.by_sequence_heads);
    const ItemPlace place{sequence, head - sequence * p_.index.num_qo_heads, tile};
    if constexpr (T::kPacked) {
      return WithLengths(p_, place);
    } else {
      return place;
    }
  }

  __device__ void PublishSteps(const typename T::Place& place) {
    const CausalSteps steps = StepsOf<T>(p_, place);
    for (int i = 0; i < steps.Count(); ++i) {
      const int tile = steps.Tile(i);
      uint32_t flags = i + 1 == steps.Count() ? kStepLast : 0;
      if (kForConsumers && steps.IsMasked(i)) flags |= kStepMasked | kStepRuled;
      // Keys behind all rows' positions, whose values nobody may multiply by.
      const bool passes = steps.IsMasked(i) && (tile + 1) * T::kTileColumns > steps.end;
      // Behind the last key of all come zeros; behind a packed sequence's comes whatever lies there.
      if (passes && (T::kPacked || steps.end < NumKeys(p_, place))) flags |= kStepUnreadValues;
      Publish(place, tile, flags, steps.end);
    }
  }

  __device__ void Publish(const typename T::Place& place, int tile, uint32_t flags, int end) {
    int start[T::kSegments];
    CUTE_UNROLL
    for (int i = 0; i < T::kSegments; ++i) start[i] = tile * T::kTileColumns + i * kSegmentRows;
    writer_.Publish(place, flags | kStepWhole, start, [&](Step& step) {
      CUTE_UNROLL
      for (int i = 0; i < T::kSegments; ++i) {
        step.start[i] = start[i];
        if (kForConsumers && (flags & kStepMasked) != 0) {
          for (int quarter = 0; quarter < kItemRows / 32; ++quarter) step.kept[quarter][i] = ~0u;
        }
        if ((flags & kStepUnreadValues) != 0) step.unread[i] = ~BitsBelow(end - start[i]);
      }
      step.kv_head = Quotient(place.head, p_.by_group_size);
      step.sequence = place.sequence;
    });
  }

  const typename T::Params& p_;
  const int lane_;
  StepWriter<T> writer_;
};

}  // namespace headscope::kernels::hopper
