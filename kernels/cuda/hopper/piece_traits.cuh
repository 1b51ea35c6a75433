// SPDX-License-Identifier: Apache-2.0
// Shapes and shared memory of the dense kernel at 16 bits with head_dim 64: items of 192 rows, three consumer
// warpgroups.
//
// A step brings 128 keys, as elsewhere, and is worked on in two pieces of 64.
#pragma once

#include "hopper/traits.cuh"

namespace headscope::kernels::hopper {

template <class Element_, bool kHasRowMax_ = false>
struct PieceTraits : ThreeGroups, OneLength {
  static constexpr bool kReadsLists = false;
  static constexpr bool kHasRowMax = kHasRowMax_;
  static constexpr uint32_t kStepReaders = kLoaderWarps;  // consumers know the steps for themselves
  using Element = Element_;
  using Params = KernelParams;
  static constexpr int kTileColumns = 128;
  static constexpr int kPieceColumns = 64;
  static constexpr int kHeadDim = 64;
  static constexpr int kValueDim = kHeadDim;
  static constexpr int kQuerySlabs = 1;
  static constexpr int kValueSlabs = 1;
  static constexpr int kSegments = kTileColumns / kSegmentRows;
  static constexpr uint32_t kStages = 4;
  static constexpr uint32_t kStepRing = 16;
  static constexpr int kQuerySlots = 2;
  static constexpr int kQueryParts = 1;
  static constexpr bool kOutputApart = false;
  static constexpr bool kQueriesInRegisters = true;
  static constexpr int kStageBytes = kTileColumns * kHeadDim * 2;
  static constexpr int kQueryBytes = PieceTraits::kRows * kHeadDim * 2;

  using KAtom = cute::GMMA::Layout_K_SW128_Atom<Element>;
  using MnAtom = cute::GMMA::Layout_MN_SW128_Atom<Element>;
  using Rows = cute::Int<PieceTraits::kRows>;
  using Columns = cute::Int<kPieceColumns>;
  using Dim = cute::Int<kHeadDim>;
  using TileColumns = cute::Int<kTileColumns>;
  using Stages = cute::Int<kStages>;
  using LayoutK = decltype(cute::tile_to_shape(KAtom{}, cute::Shape<TileColumns, Dim, Stages>{}));
  using LayoutVt = decltype(cute::tile_to_shape(MnAtom{}, cute::Shape<Dim, TileColumns, Stages>{},
                                                cute::Step<cute::_2, cute::_1, cute::_3>{}));
  using GroupLayout = cute::Layout<cute::Shape<cute::Int<PieceTraits::kGroups>, cute::_1, cute::_1>>;
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
                                 place.tile * PieceTraits::kRows, place.head, place.sequence);
  }
};

}  // namespace headscope::kernels::hopper
