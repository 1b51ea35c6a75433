// SPDX-License-Identifier: Apache-2.0
// Where packed sequences lie: their rows in q, o and lse, their keys in pages or one behind the other.
#pragma once

#include "hopper/packed_params.h"
#include "hopper/pipeline.cuh"

namespace headscope::kernels::hopper {

constexpr int kPieces = kMaxSegments * kSegmentRows / kPieceRows;  // of a step's keys

struct PackedPlace : ItemPlace {
  int32_t first_row;  // of the sequence, in q, o and lse
  int32_t seq_q;
  int32_t seq_k;
  int32_t first_position;  // of its first query: the last one stands at its last key
};

__device__ inline PackedPlace WithLengths(const PackedParams& p, const ItemPlace& item) {
  PackedPlace place{};
  static_cast<ItemPlace&>(place) = item;
  const int s = place.sequence;
  const int q_begin = __ldg(p.q_begin + s), q_end = __ldg(p.q_begin + s + 1);
  const int k_begin = __ldg(p.k_begin + s), k_end = __ldg(p.k_begin + s + 1);
  place.first_row = q_begin;
  place.seq_q = q_end - q_begin;
  place.seq_k = k_end - k_begin;
  place.first_position = place.seq_k - place.seq_q;
  return place;
}
__device__ inline PackedPlace PlaceOf(const PackedParams& p, int item) {
  return WithLengths(p, PlaceOf(static_cast<const KernelParams&>(p), item));
}

__device__ inline int NumQueries(const PackedParams&, const PackedPlace& place) {
  return place.seq_q;
}
__device__ inline int NumKeys(const PackedParams&, const PackedPlace& place) {
  return place.seq_k;
}
__device__ inline int FirstPosition(const PackedParams&, const PackedPlace& place) {
  return place.first_position;
}
__device__ inline int RowOf(const PackedPlace& place, int query) {
  return place.first_row + query;
}
__device__ inline int SequenceOf(const PackedPlace&) {
  return 0;
}
__device__ inline int64_t LseOf(const PackedParams& p, const PackedPlace& place, int query) {
  return static_cast<int64_t>(place.head) * p.total_q + place.first_row + query;
}

// The place of one of a sequence's keys.
__device__ inline int KeyPlace(const PackedParams& p, int sequence, int key) {
  if (p.page_table == nullptr) return __ldg(p.k_begin + sequence) + key;
  const int page = Quotient(key, p.by_page_rows);
  const int64_t entry = static_cast<int64_t>(sequence) * p.pages_per_sequence + page;
  return __ldg(p.page_table + entry) * p.page_rows + key - page * p.page_rows;
}

__device__ inline int64_t OffsetOf(const PackedParams& p, const GatherSource& source, int sequence, int column) {
  const int place = KeyPlace(p, sequence, column);
  const int page = Quotient(place, p.by_page_rows);
  return page * source.batch_stride + (place - page * p.page_rows) * source.row_stride;
}

// Where a piece of a step's keys lies.
struct PiecePlace {
  int32_t page;
  int32_t row;
};

// Finds the places of the segments at `start`, piece by piece, each by the lane of its number, and returns the step's
// flags with the boxes that bring them. By all lanes of the scheduler warp.
__device__ inline uint32_t FindPlaces(const PackedParams& p, const PackedPlace& item, const int (&start)[kMaxSegments],
                                      int lane, uint32_t flags, PiecePlace* found) {
  constexpr int kPerSegment = kSegmentRows / kPieceRows;
  int key = 0;
  CUTE_UNROLL
  for (int i = 0; i < kMaxSegments; ++i) {
    if (lane / kPerSegment == i) key = start[i] + lane % kPerSegment * kPieceRows;
  }
  const int place = lane < kPieces && key < item.seq_k ? KeyPlace(p, item.sequence, key) : p.num_places;
  found->page = Quotient(place, p.by_page_rows);
  found->row = place - found->page * p.page_rows;
  // Whether a piece follows the one before it in the same page. Behind all pages zeros follow zeros.
  const int page_before = __shfl_up_sync(kAllLanes, found->page, 1);
  const int row_before = __shfl_up_sync(kAllLanes, found->row, 1);
  const bool follows = found->page == page_before && (found->row == row_before + kPieceRows || place == p.num_places);
  const uint32_t joined = __ballot_sync(kAllLanes, follows);
  flags &= ~static_cast<uint32_t>(kStepWhole | kStepPairs);
  if ((joined & 0xfeu) == 0xfeu) return flags | kStepWhole;
  if ((joined & 0xeeu) == 0xeeu) return flags | kStepPairs;
  return (joined & 0xaau) == 0xaau ? flags : flags | kStepPieces;
}

// Writes the first `queries` rows of a warp's 16 from the slabs at `first`, whose rows lie as TMA's swizzle has them.
template <class Params>
__device__ void StoreRows(const Params& p, const PackedPlace& place, int query, int queries, const char* first,
                          int slab_bytes) {
  const int pieces = p.value_dim / 8;  // of 16 bytes
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int i = lane; i < queries * pieces; i += 32) {
    const int row = i / pieces, piece = i % pieces;
    const uint4 values = *reinterpret_cast<const uint4*>(first + piece / 8 * slab_bytes + row * kSlabBytes +
                                                         ((piece % 8 ^ row % 8) << 4));
    auto* const o = static_cast<uint16_t*>(const_cast<void*>(p.o_rows.data)) + place.head * p.o_rows.head_stride +
                    (place.first_row + query + row) * p.o_rows.row_stride;
    *reinterpret_cast<uint4*>(o + piece * 8) = values;
  }
}

}  // namespace headscope::kernels::hopper
