// SPDX-License-Identifier: Apache-2.0
// Shapes and shared memory of the FP8 kernel: one instance, head_dim 128, tiles of 128 keys.
#pragma once

#include <cutlass/float8.h>

#include <cute/arch/copy_sm90_tma.hpp>

#include "fp8/fp8_params.h"
#include "hopper/traits.cuh"

namespace headscope::kernels::fp8 {

using hopper::kAllLanes;
using hopper::kConsumerGroups;
using hopper::kConsumerWarps;
using hopper::kItemRows;
using hopper::kLoaderWarps;
using hopper::kOutputRows;
using hopper::kSegmentRows;
using hopper::Mbarrier;

// All 32 bytes at `from` and behind it, to shared memory, counted by `full`. By one thread.
__device__ inline void BulkCopy(const void* from, char* to, int bytes, uint64_t* full) {
  cute::SM90_BULK_COPY_G2S::copy(from, full, to, bytes);
}

struct Traits : hopper::TwoGroups, hopper::OneLength {
  using Element = cutlass::float_e4m3_t;
  using Params = Fp8Params;
  static constexpr bool kAlignedSegments = true;  // images come in pieces of 32 tokens
  static constexpr int kTileColumns = 128;
  static constexpr int kSegments = kTileColumns / kSegmentRows;
  static constexpr int kQuerySlots = 2;
  static constexpr int kQueryParts = 1;
  static constexpr uint32_t kStepRing = 16;
  static constexpr uint32_t kStages = 4;
  static constexpr int kStageBytes = kTileColumns * kHeadDim;
  static constexpr int kQueryBytes = kItemRows * kHeadDim;

  using RowAtom = cute::GMMA::Layout_K_SW128_Atom<Element>;
  using ColumnAtom = cute::GMMA::Layout_K_SW32_Atom<Element>;
  using LayoutK = decltype(cute::tile_to_shape(
      RowAtom{}, cute::Shape<cute::Int<kTileColumns>, cute::Int<kHeadDim>, cute::Int<kStages>>{}));
  using LayoutVt = decltype(cute::tile_to_shape(
      ColumnAtom{}, cute::Shape<cute::Int<kHeadDim>, cute::Int<kTileColumns>, cute::Int<kStages>>{}));
  using GroupLayout = cute::Layout<cute::Shape<cute::Int<kConsumerGroups>, cute::_1, cute::_1>>;
  using MmaQk = decltype(cute::make_tiled_mma(
      cute::GMMA::rs_op_selector<Element, Element, float,
                                 cute::Shape<cute::Int<kItemRows>, cute::Int<kTileColumns / 2>, cute::Int<kHeadDim>>>(),
      GroupLayout{}));
  using MmaPv = decltype(cute::make_tiled_mma(
      cute::GMMA::rs_op_selector<Element, Element, float,
                                 cute::Shape<cute::Int<kItemRows>, cute::Int<kHeadDim>, cute::Int<kTileColumns>>>(),
      GroupLayout{}));

  struct Tensors {
    alignas(1024) char q[kQuerySlots][kQueryBytes];
    alignas(1024) char k[kStages][kStageBytes];
    alignas(1024) char v[kStages][kStageBytes];
    alignas(1024) char o[kConsumerWarps][2][kOutputRows * hopper::kSlabBytes];
    alignas(1024) char gathered[kStageBytes];  // rows of V on their way into columns
    float scale_log2[kConsumerWarps];          // each its own, of its item
  };

  // Sends for an item's queries. By one thread.
  __device__ static void CopyQueries(const Params& p, const hopper::ItemPlace& place, int, char* slot, uint64_t* full) {
    const int64_t head = static_cast<int64_t>(place.sequence) * p.index.num_qo_heads + place.head;
    BulkCopy(p.q_image + (head * p.q_pieces + place.tile * (kItemRows / kPieceTokens)) * kPieceBytes, slot, kQueryBytes,
             full);
  }
};

using Storage = hopper::SharedStorage<Traits>;

}  // namespace headscope::kernels::fp8
