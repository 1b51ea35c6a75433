// SPDX-License-Identifier: Apache-2.0
// Shapes and shared memory of the FP8 kernels: head_dim 128, tiles of 128 keys.
#pragma once

#include <cutlass/float8.h>

#include <cute/arch/copy_sm90_tma.hpp>

#include "fp8/fp8_params.h"
#include "hopper/traits.cuh"

namespace headscope::kernels::fp8 {

using hopper::kAllLanes;
using hopper::kItemRows;
using hopper::kLoaderWarps;
using hopper::kOutputRows;
using hopper::kSegmentRows;
using hopper::Mbarrier;

// All 32 bytes at `from` and behind it, to shared memory, counted by `full`. By one thread.
__device__ inline void BulkCopy(const void* from, char* to, int bytes, uint64_t* full) {
  cute::SM90_BULK_COPY_G2S::copy(from, full, to, bytes);
}

// What both kernels have in common: steps of 128 keys, worked on in pieces of 64, and how O leaves. Shape: BlockShape.
template <class Shape>
struct CommonTraits : Shape, hopper::OneLength {
  using Element = cutlass::float_e4m3_t;
  using Params = Fp8Params;
  static constexpr bool kHasRowMax = false;
  static constexpr bool kAlignedSegments = true;  // images come in pieces of 32 tokens
  static constexpr int kTileColumns = 128;
  static constexpr int kPieceColumns = 64;
  static constexpr int kSegments = kTileColumns / kSegmentRows;
  static constexpr int kValueDim = kHeadDim;
  // Queries are in registers from an item's first product on, so that their slot is free all the while.
  static constexpr int kQuerySlots = 1;
  static constexpr int kQueryParts = 1;
  static constexpr uint32_t kQueryArrivals = 128 * Shape::kGroups;  // each consumer thread, behind its own reads
  static constexpr uint32_t kStepRing = 16;
  static constexpr uint32_t kStages = 4;
  static constexpr int kStageBytes = kTileColumns * kHeadDim;
  static constexpr int kQueryBytes = Shape::kRows * kHeadDim;
  static constexpr int kWarps = 4 * Shape::kGroups;

  using RowAtom = cute::GMMA::Layout_K_SW128_Atom<Element>;
  using ColumnAtom = cute::GMMA::Layout_K_SW32_Atom<Element>;
  using Rows = cute::Int<Shape::kRows>;
  using Dim = cute::Int<kHeadDim>;
  using GroupLayout = cute::Layout<cute::Shape<cute::Int<Shape::kGroups>, cute::_1, cute::_1>>;
  using Piece = cute::Int<kPieceColumns>;
  using Columns = cute::Int<kTileColumns>;
  using Stages = cute::Int<kStages>;
  using LayoutK = decltype(cute::tile_to_shape(RowAtom{}, cute::Shape<Columns, Dim, Stages>{}));
  using LayoutVt = decltype(cute::tile_to_shape(ColumnAtom{}, cute::Shape<Dim, Columns, Stages>{}));
  using MmaQk = decltype(cute::make_tiled_mma(
      cute::GMMA::rs_op_selector<Element, Element, float, cute::Shape<Rows, Piece, Dim>>(), GroupLayout{}));
  using MmaPv = decltype(cute::make_tiled_mma(
      cute::GMMA::rs_op_selector<Element, Element, float, cute::Shape<Rows, Dim, Piece>>(), GroupLayout{}));

  struct Tensors {
    alignas(1024) char q[kQuerySlots][kQueryBytes];
    alignas(1024) char k[kStages][kStageBytes];
    alignas(1024) char v[kStages][kStageBytes];
    alignas(1024) char o[kWarps][2][kOutputRows * hopper::kSlabBytes];
  };

  // Sends for an item's queries. By one thread. Where an item passes the last of a head's whole tiles, what comes is
  // whatever lies behind them, and nobody stores the rows.
  __device__ static void CopyQueries(const Params& p, const hopper::ItemPlace& place, int, char* slot, uint64_t* full) {
    const int64_t head = static_cast<int64_t>(place.sequence) * p.index.num_qo_heads + place.head;
    BulkCopy(p.q_image + (head * p.q_pieces + place.tile * (Shape::kRows / kPieceTokens)) * kPieceBytes, slot,
             kQueryBytes, full);
  }
};

// The kernel for any lists: items of 128 rows.
struct ListTraits : CommonTraits<hopper::TwoGroups> {
  struct Tensors : CommonTraits::Tensors {
    alignas(1024) char gathered[kStageBytes];  // rows of V on their way into columns
  };
};

// The same where the rows' largest scores are asked for.
struct RareListTraits : ListTraits {
  static constexpr bool kHasRowMax = true;
};

// The kernel for heads that keep everything: items of 192 rows.
struct DenseTraits : CommonTraits<hopper::ThreeGroups> {
  static constexpr bool kReadsLists = false;
  static constexpr uint32_t kStepReaders = kLoaderWarps;  // consumers know the steps for themselves
};
// An item of 192 rows may pass a head's whole tiles of 128 by 128 rows, four pieces. Behind the last head's lie the
// keys' pieces, of which there are at least as many.
static_assert(kZeroPieces >= 4);

}  // namespace headscope::kernels::fp8
