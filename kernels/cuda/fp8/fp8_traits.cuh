// SPDX-License-Identifier: Apache-2.0
// Shapes and shared memory of the FP8 kernels: head_dim 128, tiles of 128 keys.
#pragma once

#include <cutlass/float8.h>

#include <cute/arch/copy_sm90_tma.hpp>

#include "fp8/fp8_params.h"
#include "hopper/traits.cuh"
#include "hopper/wide_steps.cuh"

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

// What both kernels have in common: tiles of 128 keys, and how O leaves.
template <class Shape>
struct CommonTraits : Shape, hopper::OneLength {
  using Element = cutlass::float_e4m3_t;
  using Params = Fp8Params;
  static constexpr bool kAlignedSegments = true;  // images come in pieces of 32 tokens
  static constexpr int kTileColumns = 128;
  static constexpr int kSegments = kTileColumns / kSegmentRows;
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
  // Products of an item with so many keys at a time.
  template <int kKeys>
  using MmaQkOf = decltype(cute::make_tiled_mma(
      cute::GMMA::rs_op_selector<Element, Element, float, cute::Shape<Rows, cute::Int<kKeys>, Dim>>(), GroupLayout{}));
  template <int kKeys>
  using MmaPvOf = decltype(cute::make_tiled_mma(
      cute::GMMA::rs_op_selector<Element, Element, float, cute::Shape<Rows, Dim, cute::Int<kKeys>>>(), GroupLayout{}));

  // Sends for an item's queries. By one thread. Where an item passes the last of a head's whole tiles, what comes is
  // whatever lies behind them, and nobody stores the rows.
  __device__ static void CopyQueries(const Params& p, const hopper::ItemPlace& place, int, char* slot, uint64_t* full) {
    const int64_t head = static_cast<int64_t>(place.sequence) * p.index.num_qo_heads + place.head;
    BulkCopy(p.q_image + (head * p.q_pieces + place.tile * (Shape::kRows / kPieceTokens)) * kPieceBytes, slot,
             kQueryBytes, full);
  }
};

// The kernel for any lists: items of 128 rows.
struct Traits : CommonTraits<hopper::TwoGroups> {
  static constexpr bool kGathers = true;
  static constexpr int kQuerySlots = 2;
  using LayoutK = decltype(cute::tile_to_shape(
      RowAtom{}, cute::Shape<cute::Int<kTileColumns>, cute::Int<kHeadDim>, cute::Int<kStages>>{}));
  using LayoutVt = decltype(cute::tile_to_shape(
      ColumnAtom{}, cute::Shape<cute::Int<kHeadDim>, cute::Int<kTileColumns>, cute::Int<kStages>>{}));
  using MmaQk = MmaQkOf<kTileColumns / 2>;
  using MmaPv = MmaPvOf<kTileColumns>;

  struct Tensors {
    alignas(1024) char q[kQuerySlots][kQueryBytes];
    alignas(1024) char k[kStages][kStageBytes];
    alignas(1024) char v[kStages][kStageBytes];
    alignas(1024) char o[kWarps][2][kOutputRows * hopper::kSlabBytes];
    alignas(1024) char gathered[kStageBytes];  // rows of V on their way into columns
    float scale_log2[kWarps];                  // each its own, of its item
  };
};

// How far an item of 192 rows may pass whole tiles of 128, so that what LayOutFp8 puts behind the queries has to be
// there.
static_assert(kZeroPieces >= 4);

// The wide kernel, for heads that keep everything (hopper/wide_consumer.cuh): items of 192 rows, pieces of 64 keys.
struct WideTraits : CommonTraits<hopper::WideShape> {
  static constexpr bool kGathers = false;
  // Queries are in registers from an item's first product on, so that their slot is free all the while.
  static constexpr int kQuerySlots = 1;
  static constexpr int kValueDim = fp8::kHeadDim;
  using Columns = cute::Int<kPieceColumns>;
  using PieceStages = cute::Int<kPieces * kStages>;
  using LayoutK = decltype(cute::tile_to_shape(RowAtom{}, cute::Shape<Columns, Dim, PieceStages>{}));
  using LayoutVt = decltype(cute::tile_to_shape(ColumnAtom{}, cute::Shape<Dim, Columns, PieceStages>{}));
  using MmaQk = MmaQkOf<kPieceColumns>;
  using MmaPv = MmaPvOf<kPieceColumns>;

  struct Tensors {
    alignas(1024) char q[kQuerySlots][kQueryBytes];
    alignas(1024) char k[kStages][kStageBytes];
    alignas(1024) char v[kStages][kStageBytes];
    alignas(1024) char o[kWarps][2][kOutputRows * hopper::kSlabBytes];
    float scale_log2[kWarps];
  };
};

}  // namespace headscope::kernels::fp8
