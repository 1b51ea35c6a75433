// SPDX-License-Identifier: Apache-2.0
// Shapes and shared memory of the 16-bit Hopper kernel.
//
// Shared memory holds one or two tiles of Q (128 rows), and two stages of K and of V (tile_columns keys each; four at
// head_dim 64), all as TMA's 128-byte swizzle leaves them: slabs of 64 components, in a slab one key (or row) per 128
// bytes. The tensor cores read that image both as K-major (Q and K) and as MN-major (V), so nothing is ever transposed.
//
// Where there is room for one tile of Q, each consumer group's half of it comes and goes by itself (kQueryParts): the
// next item's queries are sent for when the group's last product with the present ones is done, and O, which else
// leaves through their place, has one of its own.
#pragma once

#include <cutlass/bfloat16.h>
#include <cutlass/half.h>

#include <cute/arch/copy_sm90_tma.hpp>
#include <cute/atom/mma_traits_sm90_gmma.hpp>
#include <cute/tensor.hpp>

#include "hopper/pipeline.cuh"

namespace headscope::kernels::hopper {

// Where one slab of each consumer warp's rows of O waits to be sent, if not in the place of Q.
template <bool kApart>
struct OutputPlaces {
  alignas(1024) char o[kConsumerWarps][kOutputRows * kSlabBytes];
};
template <>
struct OutputPlaces<false> {};

// What few calls ask for: rows' largest scores, and a soft cap as well, each in kernels of its own. Their code, of a
// soft cap 13 KB wherever scores come from, would stand amid the loop of all others, and a launch fetches what it runs
// through from memory.
enum class Extras { kNone, kRowMax, kAll };

template <class Element_, int kHeadDim_, int kValueDim_, int kTileColumns_, int kQuerySlots_,
          Extras kExtras = Extras::kNone>
struct Traits : TwoGroups, OneLength {
  using Element = Element_;
  using Params = KernelParams;
  static constexpr bool kAlignedSegments = false;  // a segment may begin at any key
  static constexpr int kHeadDim = kHeadDim_;       // of Q and K
  static constexpr int kValueDim = kValueDim_;     // of V and O
  static constexpr int kTileColumns = kTileColumns_;
  // Where keys are small, a step takes less time than a copy, and there is room for more of them.
  static constexpr uint32_t kStages = kHeadDim_ == 64 ? 4 : 2;
  static constexpr int kQuerySlots = kQuerySlots_;
  static constexpr bool kHasSoftCap = kExtras == Extras::kAll;
  static constexpr bool kHasRowMax = kExtras != Extras::kNone;
  static constexpr int kQuerySlabs = kHeadDim / 64;  // of Q and K
  static constexpr int kValueSlabs = kValueDim / 64;
  static constexpr int kSegments = kTileColumns / kSegmentRows;
  static_assert(kSegments <= kMaxSegments);
  static constexpr int kKeyStageBytes = kTileColumns * kHeadDim * 2;
  static constexpr int kValueStageBytes = kTileColumns * kValueDim * 2;
  static constexpr int kQueryBytes = kItemRows * kHeadDim * 2;
  static constexpr int kQueryParts = kQuerySlots == 1 ? kConsumerGroups : 1;
  static constexpr int kPartRows = kItemRows / kQueryParts;
  static constexpr bool kOutputApart = kQueryParts > 1;
  static constexpr bool kQueriesInRegisters = false;
  static_assert(kOutputApart || kValueDim <= kHeadDim, "O leaves through the place of Q");
  static constexpr uint32_t kStepRing = kOutputApart ? 8 : 16;
  using KAtom = cute::GMMA::Layout_K_SW128_Atom<Element>;
  using MnAtom = cute::GMMA::Layout_MN_SW128_Atom<Element>;
  using LayoutQ = decltype(cute::tile_to_shape(
      KAtom{}, cute::Shape<cute::Int<kItemRows>, cute::Int<kHeadDim>, cute::Int<kQuerySlots>>{}));
  using LayoutK = decltype(cute::tile_to_shape(
      KAtom{}, cute::Shape<cute::Int<kTileColumns>, cute::Int<kHeadDim>, cute::Int<kStages>>{}));
  using LayoutVt = decltype(cute::tile_to_shape(
      MnAtom{}, cute::Shape<cute::Int<kValueDim>, cute::Int<kTileColumns>, cute::Int<kStages>>{},
      cute::Step<cute::_2, cute::_1, cute::_3>{}));

  using GroupLayout = cute::Layout<cute::Shape<cute::Int<kConsumerGroups>, cute::_1, cute::_1>>;
  using MmaQk = decltype(cute::make_tiled_mma(
      cute::GMMA::ss_op_selector<Element, Element, float,
                                 cute::Shape<cute::Int<kItemRows>, cute::Int<kTileColumns>, cute::Int<kHeadDim>>>(),
      GroupLayout{}));
  using MmaPv = decltype(cute::make_tiled_mma(
      cute::GMMA::rs_op_selector<Element, Element, float,
                                 cute::Shape<cute::Int<kItemRows>, cute::Int<kValueDim>, cute::Int<kTileColumns>>,
                                 cute::GMMA::Major::K, cute::GMMA::Major::MN>(),
      GroupLayout{}));

  struct Tensors : OutputPlaces<kOutputApart> {
    alignas(1024) char q[kQuerySlots][kQueryBytes];  // O leaves through the slot that its Q came in, or apart
    alignas(1024) char k[kStages][kKeyStageBytes];
    alignas(1024) char v[kStages][kValueStageBytes];
  };

  // Sends for the rows of one part of an item's queries. By one thread.
  __device__ static void CopyQueries(const Params& p, const ItemPlace& place, int part, char* slot, uint64_t* full) {
    const int row = part * kPartRows;
    for (int slab = 0; slab < kQuerySlabs; ++slab) {
      cute::SM90_TMA_LOAD_4D::copy(&p.q, full, static_cast<uint64_t>(cute::TMA::CacheHintSm90::EVICT_FIRST),
                                   slot + (slab * kItemRows + row) * kSlabBytes, slab * 64,
                                   place.tile * kItemRows + row, place.head, place.sequence);
    }
  }
};

// At head_dim 128, for heads that keep everything.
template <class Element, Extras kExtras = Extras::kNone>
struct DenseTraits : Traits<Element, 128, 128, 128, 2, kExtras> {
  static constexpr bool kReadsLists = false;
};

}  // namespace headscope::kernels::hopper
