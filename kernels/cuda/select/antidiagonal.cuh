// SPDX-License-Identifier: Apache-2.0
// The products of XAttention's estimate. See antidiagonal.h.
//
// Component (s, c) of query group g is component c of row last - s of the group, of key group h component c of key
// first + s. Rows that a last group lacks are zeros.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>

#include "async_copy.cuh"
#include "dependent_launch.cuh"
#include "fast_math.cuh"
#include "mma.cuh"
#include "select/antidiagonal.h"
#include "shared_memory.cuh"
#include "shared_memory.h"

namespace headscope::kernels::selection {

constexpr int kProductThreads = 256;  // 2 x 4 warps with 64 x 64 scores each
constexpr int kWarpGroups = 64;
constexpr int kChunkComponents = 32;  // of both operands, at a time
constexpr int kChunkStages = 4;
constexpr int kRowPieces = 4;   // of 16 bytes, of a row of a chunk
constexpr int kEightRows = 32;  // pieces of 8 rows
constexpr int kQueryChunk = kTileQueryGroups * kRowPieces;
constexpr int kChunkPieces = (kTileQueryGroups + kTileKeyGroups) * kRowPieces;
constexpr int kProductSharedBytes = kChunkStages * kChunkPieces * static_cast<int>(sizeof(uint4));
static_assert(kProductSharedBytes <= 98 * 1024);  // a thread block of compute capability 8.6 has 99 KiB
// The next tile is known from the third chunk on, and its first copies begin kChunkStages - 1 chunks before the end.
constexpr int kLeastChunks = 4 * 64 / kChunkComponents;
static_assert(kLeastChunks - (kChunkStages - 1) > 3);

// The same piece of eight rows lies in eight different groups of banks.
__device__ __forceinline__ int PieceOfEightRows(int row, int piece) {
  return row * kRowPieces + (piece ^ row / 2);
}

struct ProductTile {
  int32_t list;  // negative: none is left
  int32_t query_tile;
  int32_t key_tile;
};

// The place of a ticket in the order of work, list by list, band by band, key tile by key tile; false where no row of
// the tile sees any of its keys.
__device__ inline bool TileOfTicket(const AntidiagonalParams& p, unsigned long long ticket, ProductTile* tile) {
  int64_t per_list = 0;
  const int32_t num_bands = p.NumBands();
  for (int32_t band = 0; band < num_bands; ++band) per_list += int64_t{p.KeyTilesOfBand(band)} * kBandTiles;
  const auto at = static_cast<int64_t>(ticket);
  if (at >= per_list * p.num_lists) {
    *tile = {-1, 0, 0};
    return true;
  }
  int64_t rest = at % per_list;
  int32_t band = 0;
  for (; rest >= int64_t{p.KeyTilesOfBand(band)} * kBandTiles; ++band)
    rest -= int64_t{p.KeyTilesOfBand(band)} * kBandTiles;
  *tile = {static_cast<int32_t>(at / per_list), band * kBandTiles + static_cast<int32_t>(rest % kBandTiles),
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

// Brings the chunks of one tile after the other into shared memory, each thread two pieces of queries and four of keys.
class ChunkLoader {
 public:
  __device__ ChunkLoader(const AntidiagonalParams& params, uint32_t shared)
      : p_(params),
        to_(shared + static_cast<uint32_t>(Row() / 8 * kEightRows + PieceOfEightRows(Row() % 8, Piece())) * 16) {}

  __device__ void Begin(const ProductTile& tile) {
    chunk_ = 0;
    slot_component_ = 0;
    idle_ = tile.list < 0;
    if (idle_) return;
    const int32_t sequence = tile.list / p_.num_qo_heads;
    const int32_t head = tile.list % p_.num_qo_heads;
    const int32_t kv_head = head / (p_.num_qo_heads / p_.num_kv_heads);
    const int32_t stride = 1 << p_.stride_log2;
    query_ = ((tile.query_tile * kTileQueryGroups + Row()) << p_.stride_log2) + stride - 1;
    key_ = (tile.key_tile * kTileKeyGroups + Row()) << p_.stride_log2;
    q_ = static_cast<const uint16_t*>(p_.q.data) + sequence * p_.q.batch_stride + head * p_.q.head_stride +
         query_ * p_.q.row_stride + Piece() * 8;
    k_ = static_cast<const uint16_t*>(p_.k.data) + sequence * p_.k.batch_stride + kv_head * p_.k.head_stride +
         key_ * p_.k.row_stride + Piece() * 8;
  }

  __device__ bool AtEnd(int num_chunks) const { return chunk_ == num_chunks; }

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
        cuda::CopyAsyncOrZero(to + kQueryChunk * 16 + static_cast<uint32_t>(i) * kStepBytes,
                              k_ + int64_t{i} * step * p_.k.row_stride, key_ + i * step < p_.num_visible_keys);
      }
      ++chunk_;
      slot_component_ += kChunkComponents;
      q_ += kChunkComponents;
      k_ += kChunkComponents;
      if (slot_component_ == p_.head_dim) {
        slot_component_ = 0;
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
  const uint16_t* q_ = nullptr;
  const uint16_t* k_ = nullptr;
  int32_t query_ = 0;  // row of the thread's first piece
  int32_t key_ = 0;
  int32_t slot_component_ = 0;  // of the row, where the chunk begins
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

using WarpScores = float[4][8][4];  // of 16 query groups and 8 key groups each, as a product has them

__device__ __forceinline__ void StoreTile(const AntidiagonalParams& p, const ProductTile& tile, WarpScores& scores) {
  constexpr float kInfinity = __builtin_huge_valf();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  float factor = p.score_scale;
  if (p.cap > 0) {
    factor = 1;
#pragma unroll
    for (int m = 0; m < 4; ++m) {
#pragma unroll
      for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int c = 0; c < 4; ++c) scores[m][n][c] = p.cap * cuda::Tanh(scores[m][n][c] * p.score_scale);
      }
    }
  }
  const int32_t first_group = tile.query_tile * kTileQueryGroups + warp / 4 * kWarpGroups + lane / 4;
  const int32_t first_key = tile.key_tile * kTileKeyGroups + warp % 4 * kWarpGroups;
  const int32_t num_groups = p.NumQueryGroups();
  const int32_t groups = p.GroupsPerBlock();
  const int groups_log2 = 7 - p.stride_log2;
  float* const list = p.partials + tile.list * p.PartialsPerList();
#pragma unroll
  for (int m = 0; m < 4; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int32_t group = first_group + 16 * m + 8 * h;
      // Key groups of the lane's two columns that the row sees.
      const int32_t seen = (group < num_groups ? p.SeenGroups(group) : 0) - first_key - lane % 4 * 2;
      float best = -kInfinity;
#pragma unroll
      for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float& score = scores[m][n][2 * h + e];
          score = 8 * n + e < seen ? score * factor : -kInfinity;
          best = fmaxf(best, score);
        }
      }
      best = fmaxf(best, __shfl_xor_sync(0xffffffffu, best, 1));
      best = fmaxf(best, __shfl_xor_sync(0xffffffffu, best, 2));
      const float reference = best == -kInfinity ? 0.0f : best;
      float sums[8];
#pragma unroll
      for (int n = 0; n < 8; ++n) {
        sums[n] = cuda::Exp2(scores[m][n][2 * h] - reference) + cuda::Exp2(scores[m][n][2 * h + 1] - reference);
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

template <bool kBf16>
__global__ void __launch_bounds__(kProductThreads, 1) AntidiagonalKernel(const AntidiagonalParams p) {
  extern __shared__ __align__(128) uint4 chunks[];  // places in them are told apart by address bits
  __shared__ ProductTile tiles[2];
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int warp = thread / 32;
  if (thread == 0) tiles[0] = TakeTile(p, atomicAdd(p.progress, 1ull));
  __syncthreads();
  ProductTile tile = tiles[0];
  if (tile.list < 0) return;
  const uint32_t shared = cuda::SharedAddress(chunks);
  const int num_chunks = (p.head_dim << p.stride_log2) / kChunkComponents;
  ChunkLoader loader(p, shared);
  loader.Begin(tile);
#pragma unroll
  for (int stage = 0; stage + 1 < kChunkStages; ++stage) loader.Request(stage);

  // The lane's rows of the matrices: of queries group lane / 8 % 2 of 8, components 8 (lane / 16) on; of keys group
  // lane / 16, components 8 (lane / 8 % 2) on.
  const int query_piece = (warp / 4 * 8 + lane / 8 % 2) * kEightRows + PieceOfEightRows(lane % 8, lane / 16);
  const int key_piece =
      kQueryChunk + (warp % 4 * 8 + lane / 16) * kEightRows + PieceOfEightRows(lane % 8, lane / 8 % 2);
  const uint32_t query_place = shared + static_cast<uint32_t>(query_piece) * 16;
  const uint32_t key_place = shared + static_cast<uint32_t>(key_piece) * 16;
  constexpr uint32_t kTwoGroups = 2 * kEightRows * 16;

  int stage = 0;
  int next = 1;  // the place of the next tile
  unsigned long long ticket = 0;
  while (true) {
    WarpScores scores;
#pragma unroll
    for (int m = 0; m < 4; ++m) {
#pragma unroll
      for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int c = 0; c < 4; ++c) scores[m][n][c] = 0;
      }
    }
#pragma unroll 1
    for (int chunk = 0; chunk < num_chunks; ++chunk) {
      cuda::AwaitCopyGroups<kChunkStages - 2>();
      __syncthreads();  // the chunk is there, and the stage that is filled now was used up
      if (thread == 0) {
        if (chunk == 0) ticket = atomicAdd(p.progress, 1ull);
        if (chunk == 2) tiles[next] = TakeTile(p, ticket);
      }
      if (loader.AtEnd(num_chunks)) loader.Begin(tiles[next]);
      loader.Request(stage == 0 ? kChunkStages - 1 : stage - 1);
      const uint32_t stage_bytes = static_cast<uint32_t>(stage * kChunkPieces) * 16;
      stage = stage + 1 == kChunkStages ? 0 : stage + 1;
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        const uint32_t other_half = step == 0 ? 0 : 2 * 16;
        uint32_t q[4][4];
        uint32_t k[4][4];
#pragma unroll
        for (int m = 0; m < 4; ++m) {
          cuda::LoadMatrices(q[m], ((query_place + stage_bytes) ^ other_half) + static_cast<uint32_t>(m) * kTwoGroups);
        }
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          cuda::LoadMatrices(k[n], ((key_place + stage_bytes) ^ other_half) + static_cast<uint32_t>(n) * kTwoGroups);
        }
#pragma unroll
        for (int m = 0; m < 4; ++m) {
#pragma unroll
          for (int n = 0; n < 4; ++n) {
            cuda::Mma<kBf16>(scores[m][2 * n], q[m], k[n][0], k[n][1]);
            cuda::Mma<kBf16>(scores[m][2 * n + 1], q[m], k[n][2], k[n][3]);
          }
        }
      }
    }
    StoreTile(p, tile, scores);
    tile = tiles[next];
    next ^= 1;
    if (tile.list < 0) break;
  }
  cuda::LetNextKernelStart();
}

template <bool kBf16>
cudaError_t LaunchAntidiagonal(const AntidiagonalParams& params, int num_multiprocessors, cudaStream_t stream) {
  cudaError_t error = cudaMemsetAsync(params.progress, 0, sizeof(*params.progress), stream);
  if (error == cudaSuccess) error = AllowSharedMemory(AntidiagonalKernel<kBf16>);
  if (error != cudaSuccess) return error;
  AntidiagonalKernel<kBf16>
      <<<static_cast<unsigned>(num_multiprocessors), kProductThreads, kProductSharedBytes, stream>>>(params);
  return cudaGetLastError();
}

}  // namespace headscope::kernels::selection
