// SPDX-License-Identifier: Apache-2.0
// Shapes, shared memory and barriers of the kernel of attention over chosen tokens.
//
// A block has two consumer warpgroups. Each makes the scores of every other tile of 64 tokens, and half of O: group 0
// even tiles and components 0 to 255, group 1 odd tiles and the rest. So each multiplies its own weights, which lie in
// its registers, and the other's, which come through shared memory, with its half of the values.
//
// Shared memory holds the item's queries and one tile for each group, all as TMA's 128-byte swizzle would leave them:
// slabs of 64 components, in a slab one row per 128 bytes. A tile's first eight slabs are its values as well. Its
// halves (slabs 0 to 3; 4 to 8) come and go by themselves: what is last read of a half is its values, by one group.
#pragma once

#include <cutlass/arch/barrier.h>
#include <cutlass/bfloat16.h>

#include <cute/atom/mma_traits_sm90_gmma.hpp>
#include <cute/tensor.hpp>

#include "hopper/pipeline.cuh"
#include "kernels/cuda_tokens.h"
#include "tokens/token_params.h"

namespace headscope::kernels::tokens {

using Element = cutlass::bfloat16_t;
using hopper::kAllLanes;
using hopper::Mbarrier;

constexpr int kGroups = 2;
constexpr int kThreads = 128 * (1 + kGroups);
constexpr int kProducerRegisters = 72;
constexpr int kConsumerRegisters = 216;
constexpr int kTileTokens = 64;
constexpr int kSlabs = kLatentKeyDim / 64;
constexpr int kHalfSlabs = kLatentValueDim / 64 / 2;  // of values
constexpr int kHalfDim = kLatentValueDim / 2;
constexpr int kSlabBytes = kTileTokens * 128;  // of 64 rows: of a tile and of the queries
constexpr int kTileBytes = kSlabs * kSlabBytes;
static_assert(kTileTokens == kHeadRows, "the weights of a tile fill one slab");

using KAtom = cute::GMMA::Layout_K_SW128_Atom<Element>;
using MnAtom = cute::GMMA::Layout_MN_SW128_Atom<Element>;
using Rows = cute::Int<kHeadRows>;
using Tokens = cute::Int<kTileTokens>;
using KeyDim = cute::Int<kLatentKeyDim>;
using LayoutQ = decltype(cute::tile_to_shape(KAtom{}, cute::Shape<Rows, KeyDim>{}));
using LayoutK = decltype(cute::tile_to_shape(KAtom{}, cute::Shape<Tokens, KeyDim>{}));
using LayoutWeights = decltype(cute::tile_to_shape(KAtom{}, cute::Shape<Rows, Tokens>{}));
using LayoutVt = decltype(cute::tile_to_shape(MnAtom{}, cute::Shape<cute::Int<kHalfDim>, Tokens>{},
                                              cute::Step<cute::_2, cute::_1>{}));

using ScoreShape = cute::Shape<Rows, Tokens, KeyDim>;
using OutputShape = cute::Shape<Rows, cute::Int<kHalfDim>, Tokens>;
using MmaScores = decltype(cute::make_tiled_mma(cute::GMMA::ss_op_selector<Element, Element, float, ScoreShape>()));
// With queries in registers.
using MmaLastScores = decltype(cute::make_tiled_mma(cute::GMMA::rs_op_selector<Element, Element, float, ScoreShape>()));
// Of weights in registers, and of those that come through shared memory.
using MmaOwn = decltype(cute::make_tiled_mma(
    cute::GMMA::rs_op_selector<Element, Element, float, OutputShape, cute::GMMA::Major::K, cute::GMMA::Major::MN>()));
using MmaOther = decltype(cute::make_tiled_mma(
    cute::GMMA::ss_op_selector<Element, Element, float, OutputShape, cute::GMMA::Major::K, cute::GMMA::Major::MN>()));

struct SharedStorage {
  // Where the last slab of the queries was, group 0 leaves its weights once both groups have it in registers.
  alignas(1024) char q[kTileBytes];
  alignas(1024) char tile[kGroups][kTileBytes];
  alignas(1024) char weights_of_group_1[kSlabBytes];
  // Whether a tile's token counts, in the order of the accumulators: that of column 8 j + 2 i + c is at [i][2 j + c].
  alignas(16) uint8_t counts[kGroups][4][kTileTokens / 4];
  float first_max[kGroups][kHeadRows];  // of the rows in the item's first two tiles
  float row_max[kGroups][kHeadRows];    // over the group's tiles
  float row_sum[kGroups][kHeadRows];
  int32_t again;  // whether the item has a row that must be done once more
  alignas(8) uint64_t q_full;
  alignas(8) uint64_t full[kGroups][2];   // [tile][half]
  alignas(8) uint64_t empty[kGroups][2];  // that of the half which came with `counts` by all who read them
  alignas(8) uint64_t weights_full[kGroups];
  alignas(8) uint64_t weights_empty[kGroups];
  alignas(8) uint64_t met;  // of both groups

  __device__ char* Weights(int group) { return group == 0 ? q + (kSlabs - 1) * kSlabBytes : weights_of_group_1; }
};
constexpr int kSharedBytes = sizeof(SharedStorage) + 1024;
static_assert(kSharedBytes <= 227 * 1024);

// An item's list.
struct ItemList {
  int query;
  int first_head;
  int length;
  int pairs;  // of tiles; at least one, so that every item runs through the same stations
};
__device__ inline ItemList ListOf(const TokenParams& p, int item) {
  ItemList list;
  list.query = Quotient(item, p.by_head_blocks);
  list.first_head = (item - list.query * p.head_blocks) * kHeadRows;
  list.length = p.counts == nullptr ? p.list_length : max(0, min(p.counts[list.query], p.list_length));
  list.pairs = max(1, (list.length + 2 * kTileTokens - 1) / (2 * kTileTokens));
  return list;
}

// The items of a block: every so many-th of all, or of those that are done once more.
template <bool kAgain>
class Items {
 public:
  __device__ explicit Items(const TokenParams& params)
      : p_(params), end_(kAgain ? params.again[0] : params.num_items), next_(static_cast<int>(blockIdx.x)) {}
  // False: there is none left.
  __device__ bool Take(int* item) {
    if (next_ >= end_) return false;
    *item = kAgain ? p_.again[1 + next_] : next_;
    next_ += static_cast<int>(gridDim.x);
    return true;
  }

 private:
  const TokenParams& p_;
  const int end_;
  int next_;
};

}  // namespace headscope::kernels::tokens
