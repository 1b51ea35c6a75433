// SPDX-License-Identifier: Apache-2.0
// Shapes and shared memory of the wide kernel at 16 bits: head_dim 64, items of 192 rows, three consumer warpgroups.
//
// A step brings 128 keys, as elsewhere, and is worked on in two pieces of 64. With head_dim 64 a piece is 8 KB of
// shared memory in a row, of K as of V, so that stages of pieces are stages of steps.
#pragma once

#include "hopper/traits.cuh"
#include "hopper/wide_steps.cuh"

namespace headscope::kernels::hopper {

template <class Element_>
struct WideTraits : WideShape, OneLength {
  using Element = Element_;
  using Params = KernelParams;
  static constexpr int kHeadDim = 64;
  static constexpr int kValueDim = 64;
  static constexpr int kQuerySlabs = 1;
  static constexpr int kValueSlabs = 1;
  static constexpr int kSegments = kTileColumns / kSegmentRows;
  static constexpr uint32_t kStages = 4;
  static constexpr uint32_t kStepRing = 16;
  static constexpr int kQuerySlots = 2;
  static constexpr int kQueryParts = 1;
  static constexpr bool kOutputApart = false;
  static constexpr int kStageBytes = kTileColumns * kHeadDim * 2;
  static constexpr int kQueryBytes = WideTraits::kRows * kHeadDim * 2;

  using KAtom = cute::GMMA::Layout_K_SW128_Atom<Element>;
  using MnAtom = cute::GMMA::Layout_MN_SW128_Atom<Element>;
  using Rows = cute::Int<WideTraits::kRows>;
  using Columns = cute::Int<kPieceColumns>;
  using Dim = cute::Int<kHeadDim>;
  using PieceStages = cute::Int<kPieces * kStages>;
  using LayoutK = decltype(cute::tile_to_shape(KAtom{}, cute::Shape<Columns, Dim, PieceStages>{}));
  using LayoutVt = decltype(cute::tile_to_shape(MnAtom{}, cute::Shape<Dim, Columns, PieceStages>{},
                                                cute::Step<cute::_2, cute::_1, cute::_3>{}));
  using GroupLayout = cute::Layout<cute::Shape<cute::Int<WideTraits::kGroups>, cute::_1, cute::_1>>;
  using MmaQk = decltype(cute::make_tiled_mma(
      cute::GMMA::rs_op_selector<Element, Element, float, cute::Shape<Rows, Columns, Dim>>(), GroupLayout{}));
  using MmaPv =
      decltype(cute::make_tiled_mma(cute::GMMA::rs_op_selector<Element, Element, float, cute::Shape<Rows, Dim, Columns>,
                                                               cute::GMMA::Major::K, cute::GMMA::Major::MN>(),
                                    GroupLayout{}));

  struct Tensors {
    alignas(1024) char q[kQuerySlots][kQueryBytes];  // O leaves through the slot that its Q came in
    alignas(1024) char k[kStages][kStageBytes];
    alignas(1024) char v[kStages][kStageBytes];
  };

  // Sends for an item's queries. By one thread.
  __device__ static void CopyQueries(const Params& p, const ItemPlace& place, int, char* slot, uint64_t* full) {
    cute::SM90_TMA_LOAD_4D::copy(&p.q, full, static_cast<uint64_t>(cute::TMA::CacheHintSm90::EVICT_FIRST), slot, 0,
                                 place.tile * WideTraits::kRows, place.head, place.sequence);
  }
};

}  // namespace headscope::kernels::hopper
