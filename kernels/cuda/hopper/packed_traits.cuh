// SPDX-License-Identifier: Apache-2.0
// The 16-bit kernel for packed sequences: rows and keys of each sequence are found by its number, keys through pages.
#pragma once

#include "hopper/packed_place.cuh"
#include "hopper/piece_traits.cuh"
#include "hopper/tensor_copies.cuh"
#include "hopper/traits.cuh"

namespace headscope::kernels::hopper {

// What a kernel's traits become where its sequences lie packed.
template <class Base>
struct Packed : Base {
  using Params = PackedParams;
  using Place = PackedPlace;
  using KeyPlace = PiecePlace;
  static constexpr bool kPacked = true;
  static constexpr int kPieces = hopper::kPieces;
  static constexpr int kStepWriters = kPieces;
  static constexpr bool kAlignedSegments = true;  // so that a piece lies in one page

  struct Tensors : Base::Tensors {
    alignas(8) PiecePlace key_places[Base::kStepRing][kPieces];
  };

  __device__ static void CopyQueries(const Params& p, const Place& place, int, char* slot, uint64_t* full) {
    for (int slab = 0; slab < Base::kQuerySlabs; ++slab) {
      cute::SM90_TMA_LOAD_4D::copy(&p.q, full, static_cast<uint64_t>(cute::TMA::CacheHintSm90::EVICT_FIRST),
                                   slot + slab * Base::kRows * kSlabBytes, slab * 64,
                                   RowOf(place, place.tile * Base::kRows), place.head, 0);
    }
  }
};

template <class Element, int kHeadDim, Extras kExtras>
using PackedTraits = Packed<Traits<Element, kHeadDim, kHeadDim, /*kTileColumns=*/128, /*kQuerySlots=*/2, kExtras>>;

// For sequences whose heads keep everything, at head_dim 128 and at 64.
template <class Element>
struct PackedDenseTraits : Packed<DenseTraits<Element>> {
  // Finding places takes few registers, and consumers know more of their items.
  static constexpr int kProducerRegisters = 40;
  static constexpr int kConsumerRegisters = 232;
};
template <class Element>
using PackedPieceTraits = Packed<PieceTraits<Element>>;

// Copies of keys and values by their places; single columns and zeros are as ever.
template <class T>
class PackedCopies : public TensorCopies<T> {
 public:
  __device__ PackedCopies(const PackedParams& params, SharedStorage<T>& shared, int warp, int lane)
      : TensorCopies<T>(params, shared, warp, lane), p_(params), s_(shared) {}

  __device__ void CopyKeys(const StepSource<T>& source, char* stage, uint64_t* full) const {
    Copy<T::kQuerySlabs>(p_.k_boxes, p_.k_pieces, stage, full, source);
  }
  __device__ void CopyValues(const StepSource<T>& source, char* stage, uint64_t* full) const {
    Copy<T::kValueSlabs>(p_.v_boxes, p_.v_pieces, stage, full, source);
  }

 private:
  template <int kSlabs>
  __device__ void Copy(const CUtensorMap (&boxes)[kBoxKinds], const CUtensorMap& pieces, char* stage, uint64_t* full,
                       const StepSource<T>& step) const {
    Mbarrier::arrive_and_expect_tx(full, kSlabs * T::kTileColumns * kSlabBytes);
    if ((step.flags & kStepWhole) != 0) {
      CopyPieces<kSlabs, kPieces>(boxes[kWholeTile], stage, full, step);
    } else if ((step.flags & kStepPairs) != 0) {
      CopyPieces<kSlabs, kPieces / 2>(boxes[kTwoSegments], stage, full, step);
    } else if ((step.flags & kStepPieces) == 0) {
      CopyPieces<kSlabs, kPieces / 4>(boxes[kOneSegment], stage, full, step);
    } else {
      CopyPieces<kSlabs, 1>(pieces, stage, full, step);
    }
  }

  // Boxes of kPerBox pieces.
  template <int kSlabs, int kPerBox>
  __device__ void CopyPieces(const CUtensorMap& map, char* stage, uint64_t* full, const StepSource<T>& step) const {
    CUTE_UNROLL
    for (int i = 0; i < kPieces; i += kPerBox) {
      const PiecePlace place = i == 0 ? step.place : s_.key_places[step.number % T::kStepRing][i];
      CUTE_UNROLL
      for (int slab = 0; slab < kSlabs; ++slab) {
        cute::SM90_TMA_LOAD_4D::copy(&map, full, static_cast<uint64_t>(cute::TMA::CacheHintSm90::EVICT_LAST),
                                     stage + (slab * T::kTileColumns + i * kPieceRows) * kSlabBytes, slab * 64,
                                     place.row, step.kv_head, place.page);
      }
    }
  }

  const PackedParams& p_;
  SharedStorage<T>& s_;
};

}  // namespace headscope::kernels::hopper
