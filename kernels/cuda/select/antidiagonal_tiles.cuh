// SPDX-License-Identifier: Apache-2.0
// What the products of XAttention's estimate have in common, whatever multiplies: the order of work, the way of
// operands to shared memory, and what becomes of a tile of scores. See antidiagonal.h.
//
// Component (s, c) of query group g is component c of row last - s of the group, of key group h component c of key
// first + s. Rows that a last group lacks are zeros.
#pragma once

#include <cuda_runtime.h>

#include "async_copy.cuh"
#include "fast_math.cuh"
#include "select/antidiagonal.h"

namespace headscope::kernels::selection {

constexpr int kProductThreads = 256;
constexpr int kPieceComponents = 8;  // 16 bytes

struct ProductTile {
  int32_t list;  // negative: none is left
  int32_t query_tile;
  int32_t key_tile;
};

// The place of a ticket in the order of work, list by list, band by band, key tile by key tile; false where no row of
// the tile sees any of its keys.
__device__ inline bool TileOfTicket(const AntidiagonalParams& p, unsigned long long ticket, ProductTile* tile) {
  const auto at = static_cast<int64_t>(ticket);
  if (at >= p.tickets_per_list * p.num_lists) {
    *tile = {-1, 0, 0};
    return true;
  }
  int64_t rest = at % p.tickets_per_list;
  int32_t band = 0;
  for (; rest >= int64_t{p.KeyTilesOfBand(band)} * kBandTiles; ++band)
    rest -= int64_t{p.KeyTilesOfBand(band)} * kBandTiles;
  *tile = {static_cast<int32_t>(at / p.tickets_per_list), band * kBandTiles + static_cast<int32_t>(rest % kBandTiles),
           static_cast<int32_t>(rest / kBandTiles)};
  const int32_t first = tile->query_tile * kTileQueryGroups;
  if (first >= p.NumQueryGroups()) return false;
  const int32_t last = min(first + kTileQueryGroups, p.NumQueryGroups()) - 1;
  return tile->key_tile * kTileKeyGroups < p.SeenGroups(last);
}

__device__ inline ProductTile TakeTile(const AntidiagonalParams& p, unsigned long long ticket) {
  ProductTile tile;
  while (!TileOfTicket(p, ticket, &tile)) ticket = atomicAdd(p.progress, 1ull);
  return tile;
}

// Brings the chunks of one tile after the other into shared memory, first the queries' rows of a chunk, then the keys'.
// A row of a chunk is kRowPieces pieces, 4 or 8; in each eight rows these change places so that the same piece of all
// of them lies in eight different groups of banks. With 8 that is the 128-byte swizzle of the tensor cores' own reads.
template <int kRowPieces>
class ChunkLoader {
 public:
  static constexpr int kComponents = kRowPieces * kPieceComponents;
  static constexpr int kEightRows = 8 * kRowPieces;  // pieces
  static constexpr int kQueryPieces = kTileQueryGroups * kRowPieces;
  static constexpr int kChunkPieces = (kTileQueryGroups + kTileKeyGroups) * kRowPieces;

  __device__ static int PieceOfEightRows(int row, int piece) {
    return row * kRowPieces + (piece ^ (kRowPieces == 4 ? row / 2 : row));
  }

  __device__ ChunkLoader(const AntidiagonalParams& params, uint32_t shared)
      : p_(params),
        to_(shared + static_cast<uint32_t>(Row() / 8 * kEightRows + PieceOfEightRows(Row() % 8, Piece())) * 16),
        num_chunks_((params.head_dim << params.stride_log2) / kComponents) {}

  __device__ int num_chunks() const { return num_chunks_; }

  __device__ void Begin(const ProductTile& tile) {
    chunk_ = 0;
    component_ = Piece() * kPieceComponents;
    idle_ = tile.list < 0;
    if (idle_) return;
    const int32_t sequence = tile.list / p_.num_qo_heads;
    const int32_t head = tile.list % p_.num_qo_heads;
    const int32_t kv_head = head / (p_.num_qo_heads / p_.num_kv_heads);
    const int32_t stride = 1 << p_.stride_log2;
    query_ = ((tile.query_tile * kTileQueryGroups + Row()) << p_.stride_log2) + stride - 1;
    key_ = (tile.key_tile * kTileKeyGroups + Row()) << p_.stride_log2;
    q_ = static_cast<const uint16_t*>(p_.q.data) + sequence * p_.q.batch_stride + head * p_.q.head_stride +
         query_ * p_.q.row_stride + component_;
    k_ = static_cast<const uint16_t*>(p_.k.data) + sequence * p_.k.batch_stride + kv_head * p_.k.head_stride +
         key_ * p_.k.row_stride + component_;
  }

  // Whether all chunks of the tile are on their way.
  __device__ bool AtEnd() const { return chunk_ == num_chunks_; }

  __device__ __forceinline__ void Request(int stage) {
    if (!idle_) {
      const uint32_t to = to_ + static_cast<uint32_t>(stage * kChunkPieces) * 16;
      constexpr int kRowsAtOnce = kProductThreads / kRowPieces;
      constexpr uint32_t kStepBytes = kRowsAtOnce / 8 * kEightRows * 16;
      const int32_t step = kRowsAtOnce << p_.stride_log2;
#pragma unroll
      for (int i = 0; i < kTileQueryGroups / kRowsAtOnce; ++i) {
        cuda::CopyAsyncOrZero(to + static_cast<uint32_t>(i) * kStepBytes, q_ + int64_t{i} * step * p_.q.row_stride,
                              query_ + i * step < p_.seq_q);
      }
#pragma unroll
      for (int i = 0; i < kTileKeyGroups / kRowsAtOnce; ++i) {
        cuda::CopyAsyncOrZero(to + kQueryPieces * 16 + static_cast<uint32_t>(i) * kStepBytes,
                              k_ + int64_t{i} * step * p_.k.row_stride, key_ + i * step < p_.num_visible_keys);
      }
      ++chunk_;
      component_ += kComponents;
      q_ += kComponents;
      k_ += kComponents;
      if (component_ >= p_.head_dim) {  // on to the next row of the groups
        component_ -= p_.head_dim;
        q_ -= p_.q.row_stride + p_.head_dim;
        k_ += p_.k.row_stride - p_.head_dim;
        --query_;
        ++key_;
      }
    }
    cuda::EndCopyGroup();
  }

 private:
  __device__ static int Row() {
    return static_cast<int>(threadIdx.x) / kRowPieces;
  }
  __device__ static int Piece() {
    return static_cast<int>(threadIdx.x) % kRowPieces;
  }

  const AntidiagonalParams& p_;
  const uint32_t to_;  // shared memory address
  const int num_chunks_;
  const uint16_t* q_ = nullptr;
  const uint16_t* k_ = nullptr;
  int32_t query_ = 0;  // row of the thread's first piece
  int32_t key_ = 0;
  int32_t component_ = 0;  // of that row, of the thread's piece
  int32_t chunk_ = 0;
  bool idle_ = false;
};

// Sums of four values over the four lanes of a row: lane j of them gets value j's.
__device__ __forceinline__ float SpreadSums(const float (&w)[4]) {
  constexpr unsigned kAllLanes = 0xffffffffu;
  const bool high = (threadIdx.x & 2) != 0;
  const bool odd = (threadIdx.x & 1) != 0;
  const float even_sum = (high ? w[2] : w[0]) + __shfl_xor_sync(kAllLanes, high ? w[0] : w[2], 2);
  const float odd_sum = (high ? w[3] : w[1]) + __shfl_xor_sync(kAllLanes, high ? w[1] : w[3], 2);
  return (odd ? odd_sum : even_sum) + __shfl_xor_sync(kAllLanes, odd ? even_sum : odd_sum, 1);
}

// Where a row's values go: of the warp's key block b to to[b * groups], for b below num_blocks.
struct PartialRow {
  float* to;
  int32_t num_blocks;
  float reference;

  __device__ __forceinline__ void Store(int32_t block, int32_t groups, float sum) const {
    if (block < num_blocks) to[int64_t{block} * groups] = reference + __log2f(sum);
  }
};

// Sums of a row's exponentials by key blocks of kGroups groups. sums[n]: the lane's two key groups of the warp's
// n-th 8.
template <int kGroups>
__device__ __forceinline__ void StoreByBlocks(const float (&sums)[8], const PartialRow& row) {
  const int j = static_cast<int>(threadIdx.x) % 4;
  if constexpr (kGroups == 32) {
    const float first = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    const float second = (sums[4] + sums[5]) + (sums[6] + sums[7]);
    const float sum = SpreadSums({first, second, first, second});
    if (j < 2) row.Store(j, kGroups, sum);
  } else if constexpr (kGroups == 16) {
    row.Store(j, kGroups, SpreadSums({sums[0] + sums[1], sums[2] + sums[3], sums[4] + sums[5], sums[6] + sums[7]}));
  } else if constexpr (kGroups == 8) {
    row.Store(j, kGroups, SpreadSums({sums[0], sums[1], sums[2], sums[3]}));
    row.Store(4 + j, kGroups, SpreadSums({sums[4], sums[5], sums[6], sums[7]}));
  } else if constexpr (kGroups == 4) {
    const bool odd = j % 2 != 0;
#pragma unroll
    for (int n = 0; n < 8; n += 2) {
      const float given = odd ? sums[n] : sums[n + 1];
      const float sum = (odd ? sums[n + 1] : sums[n]) + __shfl_xor_sync(0xffffffffu, given, 1);
      row.Store((n + (odd ? 1 : 0)) * 2 + j / 2, kGroups, sum);
    }
  } else {
    static_assert(kGroups == 2);
#pragma unroll
    for (int n = 0; n < 8; ++n) row.Store(n * 4 + j, kGroups, sums[n]);
  }
}

// A warp's scores, [part][8 key groups][element], as products have them: of part m elements 2 h and 2 h + 1 of 8 key
// groups n belong to query group `group_begin` + kGroupStep m + 8 h + lane / 4 and key group `key_begin` + kKeyStep m +
// 8 n + 2 (lane % 4) and the next.
using WarpScores = float[4][8][4];

template <class Use>
__device__ __forceinline__ void ForEachScore(WarpScores& scores, Use&& use) {
#pragma unroll
  for (int m = 0; m < 4; ++m) {
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
      for (int c = 0; c < 4; ++c) use(scores[m][n][c]);
    }
  }
}

template <int kGroupStep, int kKeyStep>
__device__ __forceinline__ void StoreTile(const AntidiagonalParams& p, int32_t list_number, int32_t group_begin,
                                          int32_t key_begin, WarpScores& scores) {
  constexpr float kInfinity = __builtin_huge_valf();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float factor = p.score_scale;
  if (p.cap > 0) {
    factor = 1;
    ForEachScore(scores, [&](float& score) { score = p.cap * cuda::Tanh(score * p.score_scale); });
  } else if (factor < 0) {
    factor = -factor;
    ForEachScore(scores, [&](float& score) { score = -score; });
  }
  const int32_t num_groups = p.NumQueryGroups();
  const int32_t groups = p.GroupsPerBlock();
  const int groups_log2 = 7 - p.stride_log2;
  // Key groups that a query group sees, of those from the lane's first column of part 0 on.
  auto seen_from_here = [&](int32_t group) {
    return (group < num_groups ? p.SeenGroups(group) : 0) - key_begin - lane % 4 * 2;
  };
  if (group_begin + 64 > num_groups || p.SeenGroups(group_begin) < key_begin + kTileKeyGroups) {
#pragma unroll
    for (int m = 0; m < 4; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int32_t seen = seen_from_here(group_begin + kGroupStep * m + 8 * h + lane / 4) - kKeyStep * m;
#pragma unroll
        for (int n = 0; n < 8; ++n) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            if (8 * n + e >= seen) scores[m][n][2 * h + e] = -kInfinity;
          }
        }
      }
    }
  }
  float* const list = p.partials + list_number * p.PartialsPerList();
#pragma unroll
  for (int m = 0; m < 4; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int32_t group = group_begin + kGroupStep * m + 8 * h + lane / 4;
      const int32_t first_key = key_begin + kKeyStep * m;
      float best = -kInfinity;
#pragma unroll
      for (int n = 0; n < 8; ++n) best = fmaxf(best, fmaxf(scores[m][n][2 * h], scores[m][n][2 * h + 1]));
      best = fmaxf(best, __shfl_xor_sync(0xffffffffu, best, 1));
      best = fmaxf(best, __shfl_xor_sync(0xffffffffu, best, 2));
      const float reference = best == -kInfinity ? 0.0f : best * factor;
      float sums[8];
#pragma unroll
      for (int n = 0; n < 8; ++n) {
        sums[n] = cuda::Exp2(fmaf(scores[m][n][2 * h], factor, -reference)) +
                  cuda::Exp2(fmaf(scores[m][n][2 * h + 1], factor, -reference));
      }
      const int32_t row_block = group >> groups_log2;
      const int32_t first_block = first_key >> groups_log2;
      const bool there = row_block < p.NumRowBlocks();
      const PartialRow row = {
          list + (there ? p.PartialsBefore(row_block) + int64_t{first_block} * groups + (group & (groups - 1)) : 0),
          there ? p.RoomOf(row_block) - first_block : 0, reference};
      switch (groups) {
        case 32:
          StoreByBlocks<32>(sums, row);
          break;
        case 16:
          StoreByBlocks<16>(sums, row);
          break;
        case 8:
          StoreByBlocks<8>(sums, row);
          break;
        case 4:
          StoreByBlocks<4>(sums, row);
          break;
        default:
          StoreByBlocks<2>(sums, row);
      }
    }
  }
}

}  // namespace headscope::kernels::selection
