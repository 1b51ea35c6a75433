// SPDX-License-Identifier: Apache-2.0
// The scheduler warp of kernels for heads that keep all that a causal rule leaves to them: no list is read, an item's
// steps follow from its place.
#pragma once

#include <cute/arch/cluster_sm90.hpp>

#include "hopper/item_queue.cuh"
#include "hopper/key_bits.cuh"
#include "hopper/traits.cuh"
#include "hopper/causal_steps.cuh"

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
      : p_(params), s_(shared), lane_(static_cast<int>(threadIdx.x) % 32) {}

  __device__ void Run(Entry taken) {
    const int tiles = (p_.index.seq_q + T::kRows - 1) / T::kRows;
    const int num_heads = Quotient(p_.num_items, p_.by_items_per_head);
    for (uint32_t work = 0;; ++work) {
      if (taken >= num_heads * tiles) {
        Announce(work, {.sequence = -1});
        Publish(0, kStepEnd, {}, 0);
        return;
      }
      const ItemPlace place = PlaceOfTaken(taken, tiles, num_heads);
      Announce(work, place);
      PublishSteps(place);
      taken = Take(p_, lane_, static_cast<int>(work) + 1);
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
  __device__ ItemPlace PlaceOfTaken(int taken, int tiles, int num_heads) const {
    const int section = taken / (p_.heads_per_section * tiles);
    const int first_head = section * p_.heads_per_section;
    const int heads = min(p_.heads_per_section, num_heads - first_head);
    const int rank = taken - first_head * tiles;
    const bool longest_first = !p_.sections_fit_cache || section + 1 == p_.num_sections;
    const int tile = longest_first ? tiles - 1 - rank / heads : rank / heads;
    const int head = first_head + rank % heads;
    const int sequence = Quotient(head, p_.by_sequence_heads);
    return {sequence, head - sequence * p_.index.num_qo_heads, tile};
  }

  // Tells the consumers which item is next, and brings its queries.
  __device__ void Announce(uint32_t work, const ItemPlace& place) {
    const uint32_t slot = work % T::kQuerySlots;
    WaitEmpty(s_.q_empty[0], work);
    uint64_t* const full = &s_.q_full[0][slot];
    if (lane_ == 0) {
      s_.places[0][slot] = place;
      if (place.sequence < 0) {
        Mbarrier::arrive(full);
      } else {
        Mbarrier::arrive_and_expect_tx(full, T::kQueryBytes);
      }
    }
    __syncwarp();
    if (place.sequence >= 0 && cute::elect_one_sync()) T::CopyQueries(p_, place, 0, s_.q[slot], full);
    __syncwarp();
  }

  __device__ void PublishSteps(const ItemPlace& place) {
    const CausalSteps steps = StepsOf<T>(p_, place);
    for (int i = 0; i < steps.Count(); ++i) {
      const int tile = steps.Tile(i);
      uint32_t flags = i + 1 == steps.Count() ? kStepLast : 0;
      if (kForConsumers && steps.IsMasked(i)) flags |= kStepMasked | kStepRuled;
      // Keys behind all rows' positions, whose values nobody may multiply by.
      const bool passes = steps.IsMasked(i) && (tile + 1) * T::kTileColumns > steps.end;
      if (passes && steps.end < p_.index.seq_k) flags |= kStepUnreadValues;
      Publish(tile, flags, place, steps.end);
    }
  }

  __device__ void Publish(int tile, uint32_t flags, const ItemPlace& place, int end) {
    WaitEmpty(s_.step_empty, step_);
    if (lane_ == 0) {
      Step& step = s_.steps[step_ % T::kStepRing];
      const int start = tile * T::kTileColumns;
      CUTE_UNROLL
      for (int i = 0; i < T::kSegments; ++i) {
        step.start[i] = start + i * kSegmentRows;
        if (kForConsumers && (flags & kStepMasked) != 0) {
          for (int quarter = 0; quarter < kItemRows / 32; ++quarter) step.kept[quarter][i] = ~0u;
        }
        if ((flags & kStepUnreadValues) != 0) step.unread[i] = ~BitsBelow(end - start - i * kSegmentRows);
      }
      step.kv_head = Quotient(place.head, p_.by_group_size);
      step.sequence = place.sequence;
      step.flags = flags | kStepWhole;
      Mbarrier::arrive(&s_.step_full[step_ % T::kStepRing]);
    }
    __syncwarp();
    ++step_;
  }

  const typename T::Params& p_;
  SharedStorage<T>& s_;
  const int lane_;
  uint32_t step_ = 0;  // steps published so far, over all items
};

}  // namespace headscope::kernels::hopper
