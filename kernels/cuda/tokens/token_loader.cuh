// SPDX-License-Identifier: Apache-2.0
// The producer warpgroup: gathers the tokens that lists name, row by row with 16-byte cp.async, and sends for queries.
// A thread copies one 16-byte piece of every slab of four rows of a tile, sixteen rows apart, so that all its places
// are constants and eight neighbouring lanes read 128 bytes in a row.
#pragma once

#include <cute/arch/cluster_sm90.hpp>
#include <cute/arch/copy_sm90_tma.hpp>

#include "tokens/token_traits.cuh"

namespace headscope::kernels::tokens {

template <bool kAgain>
class TokenLoader {
 public:
  __device__ TokenLoader(const TokenParams& params, SharedStorage& shared)
      : p_(params),
        s_(shared),
        piece_(static_cast<int>(threadIdx.x) % 8),
        first_row_(static_cast<int>(threadIdx.x) % 128 / 8),
        in_slab_(static_cast<uint32_t>(first_row_ * 128 + ((piece_ ^ first_row_ % 8) << 4))) {}

  __device__ void Run() {
    Items<kAgain> items(p_);
    int item;
    if (!items.Take(&item)) return;
    ItemList list = ListOf(p_, item);
    Chosen chosen[kGroups];
    for (int tile = 0; tile < kGroups; ++tile) chosen[tile] = Look(list, tile);
    uint32_t number = 0;  // of a pair of tiles, over all items
    while (true) {
      ItemList next_list = list;
      bool more = true;
      for (int pair = 0; pair < list.pairs; ++pair, ++number) {
        // What the next pair names is looked up while this one is on its way.
        const bool last = pair + 1 == list.pairs;
        if (last) {
          more = items.Take(&item);
          if (more) next_list = ListOf(p_, item);
        }
        // In the order in which the halves become free: group 0's values are used before group 1's.
        Bring<0, 0>(number, chosen[0]);
        Bring<0, 1>(number, chosen[0]);
        Bring<1, 1>(number, chosen[1], [&] {
          // Both groups are done with the queries before: this half was last read behind them.
          if (pair == 0) SendForQueries(list);
        });
        const Chosen ahead = Look(next_list, last ? 0 : 2 * pair + 2);
        Bring<1, 0>(number, chosen[1]);
        chosen[0] = ahead;
        chosen[1] = Look(next_list, last ? 1 : 2 * pair + 3);
      }
      if (!more) return;
      list = next_list;
    }
  }

 private:
  static constexpr int kOwnRows = kTileTokens / 16;
  // The thread's rows of a tile: rows of kv, or -1.
  struct Chosen {
    int row[kOwnRows];
  };

  __device__ Chosen Look(const ItemList& list, int tile) const {
    const int32_t* const tokens = p_.tokens + list.query * p_.tokens_stride;
    Chosen chosen;
    CUTE_UNROLL
    for (int i = 0; i < kOwnRows; ++i) {
      const int place = tile * kTileTokens + i * 16 + first_row_;
      const int token = place < list.length ? tokens[place] : -1;
      chosen.row[i] = static_cast<uint32_t>(token) < static_cast<uint32_t>(p_.num_keys) ? token : -1;
    }
    return chosen;
  }

  struct Nothing {
    __device__ void operator()() const {}
  };

  // Half kHalf of group kTile's tile. `once_free`: what is done when the half is free.
  template <int kTile, int kHalf, class OnceFree = Nothing>
  __device__ void Bring(uint32_t number, const Chosen& chosen, const OnceFree& once_free = {}) const {
    Mbarrier::wait(&s_.empty[kTile][kHalf], (number & 1u) ^ 1u);
    __syncwarp();
    once_free();
    // The half that a tile brings first says which of its tokens count.
    constexpr bool kFirst = kTile == kHalf;
    if (kFirst && piece_ == 0) {
      CUTE_UNROLL
      for (int i = 0; i < kOwnRows; ++i) {
        const int column = i * 16 + first_row_;
        s_.counts[kTile][column / 2 % 4][column / 8 * 2 + column % 2] = chosen.row[i] >= 0 ? 1 : 0;
      }
    }
    constexpr int kBegin = kHalf * kHalfSlabs, kEnd = kHalf == 0 ? kHalfSlabs : kSlabs;
    const uint32_t to = cute::cast_smem_ptr_to_uint(s_.tile[kTile]) + in_slab_;
    const Element* const kv = static_cast<const Element*>(p_.kv) + piece_ * 8;
    CUTE_UNROLL
    for (int i = 0; i < kOwnRows; ++i) {
      const Element* const from = kv + max(chosen.row[i], 0) * p_.kv_stride;
      const int bytes = chosen.row[i] >= 0 ? 16 : 0;  // of nothing: zeros
      CUTE_UNROLL
      for (int slab = kBegin; slab < kEnd; ++slab) {
        asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;" ::"r"(
                         to + static_cast<uint32_t>(slab * kSlabBytes + i * 16 * 128)),
                     "l"(from + slab * 64), "r"(bytes)
                     : "memory");
      }
    }
    cutlass::arch::cpasync_barrier_arrive_noinc(&s_.full[kTile][kHalf]);
    // That arrival is the copies'; this one publishes what the thread has written itself.
    if (kFirst) Mbarrier::arrive(&s_.full[kTile][kHalf]);
  }

  __device__ void SendForQueries(const ItemList& list) const {
    if (threadIdx.x % 128 / 32 != 0 || !cute::elect_one_sync()) return;
    Mbarrier::arrive_and_expect_tx(&s_.q_full, kTileBytes);
    for (int slab = 0; slab < kSlabs; ++slab) {
      cute::SM90_TMA_LOAD_4D::copy(&p_.q, &s_.q_full, static_cast<uint64_t>(cute::TMA::CacheHintSm90::EVICT_FIRST),
                                   s_.q + slab * kSlabBytes, slab * 64, list.first_head, list.query, 0);
    }
  }

  const TokenParams& p_;
  SharedStorage& s_;
  const int piece_;      // of 16 bytes, in a row of a slab
  const int first_row_;  // of a tile
  const uint32_t in_slab_;
};

}  // namespace headscope::kernels::tokens
