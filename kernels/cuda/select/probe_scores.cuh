// SPDX-License-Identifier: Apache-2.0
// The probe's products. S^T = K Q^T by mma.m16n8k16 with keys as rows and the unit's 64 query rows as columns. A warp
// brings its own keys through a ring of tiles in shared memory; the queries are the thread block's.
#pragma once

#include <cuda_runtime.h>

#include "async_copy.cuh"
#include "fast_math.cuh"
#include "mma.cuh"
#include "select/probe_sums.cuh"
#include "shared_memory.cuh"

namespace headscope::kernels::selection {

constexpr int kProbeThreads = 32 * kProbeWarps;
constexpr int kTileKeys = 16;  // keys of one step of a warp
constexpr int kStages = 2;     // tiles of keys of a warp in shared memory
constexpr uint32_t kPieceBytes = sizeof(uint4);
constexpr int kRowGroups = 8;  // 64 query rows in groups of 8
constexpr unsigned kFullWarp = 0xffffffffu;

using cuda::CopyAsync;
using cuda::Exp2;
using cuda::LoadMatrices;
using cuda::Mma;
using cuda::SharedAddress;

// Shared memory in pieces of 16 bytes: the unit's queries, then each warp's ring of key tiles. Both are made of groups
// of 8 rows and 32 components, 4 pieces a row; piece j of row r lies at GroupPiece(r, j), so that the same piece of
// eight rows lies in eight different groups of banks.
__device__ __forceinline__ int GroupPiece(int row, int piece) {
  return row * 4 + (piece ^ row / 2);
}
constexpr int kGroupPieces = 32;
__host__ __device__ constexpr int QueryPieces(int head_dim) {
  return head_dim / 32 * kRowGroups * kGroupPieces;
}
__host__ __device__ constexpr int TilePieces(int head_dim) {
  return head_dim / 32 * 2 * kGroupPieces;
}
__host__ __device__ constexpr int RingPieces(int head_dim) {
  return kStages * TilePieces(head_dim);
}

// One warp's place in the work. The lane holds key lane / 4 of each group of 8 keys and query rows 8 n + 2 (lane % 4)
// and the next of each group n.
template <bool kBf16, int kHeadDim, bool kBackward>
class ProbeWarp {
 public:
  // Scores in base 2, before the factor Factor(), of keys [key, key + kTileKeys): scores[n][2 h + e] is key 8 h +
  // lane / 4, query row 8 n + 2 (lane % 4) + e.
  using Scores = float[kRowGroups][4];

  // Keys [begin, end) in tiles from `begin` on, the last one first where kBackward; end is not behind the last visible
  // key. The first tiles are on their way from here on.
  __device__ ProbeWarp(const ProbeParams& params, uint4* shared, const UnitRows& rows, int64_t k_offset, int32_t begin,
                       int32_t end)
      : p_(params),
        // Of the four matrices of a group of 8 query rows, matrix lane / 8 has components 8 (lane / 8) on.
        q_(SharedAddress(shared + GroupPiece(Lane() % 8, Lane() / 8))),
        ring_(SharedAddress(shared + QueryPieces(kHeadDim) + threadIdx.x / 32 * RingPieces(kHeadDim))),
        position_(rows.position),
        next_key_(kBackward && begin < end ? begin + (end - begin - 1) / kTileKeys * kTileKeys : begin),
        next_row_(static_cast<const uint16_t*>(params.k.data) + k_offset +
                  (next_key_ + Lane() / 4) * params.k.row_stride + Lane() % 4 * 8),
        begin_(begin),
        end_(end) {
#pragma unroll
    for (int stage = 0; stage + 1 < kStages; ++stage) Request(stage);
  }

  // Tiles are scored in order, each once.
  __device__ __forceinline__ void Score(int32_t key, Scores& scores) {
    cuda::AwaitCopyGroups<kStages - 2>();
    __syncwarp();  // what other lanes have copied; and the stage that is filled now was used up by the call before
    Request(stage_ == 0 ? kStages - 1 : stage_ - 1);
    // A lane's row of the four matrices of a step: of key group lane / 8 % 2, components 8 (lane / 16) on.
    const int piece = Lane() / 8 % 2 * kGroupPieces + GroupPiece(Lane() % 8, Lane() / 16);
    const uint32_t tile = ring_ + static_cast<uint32_t>(stage_ * TilePieces(kHeadDim) + piece) * kPieceBytes;
    const uint32_t second_step = tile ^ (2 * kPieceBytes);
    stage_ = stage_ + 1 == kStages ? 0 : stage_ + 1;
#pragma unroll
    for (int n = 0; n < kRowGroups; ++n) {
#pragma unroll
      for (int c = 0; c < 4; ++c) scores[n][c] = 0;
    }
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      uint32_t k[2][4];  // of two steps
      LoadMatrices(k[0], tile + static_cast<uint32_t>(block) * kBlockBytes);
      LoadMatrices(k[1], second_step + static_cast<uint32_t>(block) * kBlockBytes);
#pragma unroll
      for (int n = 0; n < kRowGroups; ++n) {
        uint32_t q[4];  // of two steps, too
        LoadMatrices(q, q_ + static_cast<uint32_t>((block * kRowGroups + n) * kGroupPieces) * kPieceBytes);
        Mma<kBf16>(scores[n], k[0], q[0], q[1]);
        Mma<kBf16>(scores[n], k[1], q[2], q[3]);
      }
    }
    if (p_.cap > 0) {
#pragma unroll
      for (int n = 0; n < kRowGroups; ++n) {
#pragma unroll
        for (int c = 0; c < 4; ++c) scores[n][c] = Capped(scores[n][c]);
      }
    }
    if (key + kTileKeys - 1 > position_) Mask(key, scores);
  }

  __device__ __forceinline__ float Factor() const {
    return p_.cap > 0 ? 1.0f : p_.score_scale;
  }

 private:
  static constexpr int kBlocks = kHeadDim / 32;                            // of components
  static constexpr uint32_t kBlockBytes = 2 * kGroupPieces * kPieceBytes;  // of a tile

  __device__ static int Lane() {
    return static_cast<int>(threadIdx.x) % 32;
  }

  // The next tile. Keys behind the last are not touched, what lies there may be nobody's: the last stands in for them.
  __device__ __forceinline__ void Request(int stage) {
    if (kBackward ? next_key_ >= begin_ && next_key_ < end_ : next_key_ < end_) {
      const int piece = stage * TilePieces(kHeadDim) + GroupPiece(Lane() / 4, Lane() % 4);
      const uint32_t tile = ring_ + static_cast<uint32_t>(piece) * kPieceBytes;
      const uint16_t* low = next_row_;
      const uint16_t* high = low + 8 * p_.k.row_stride;
      if (next_key_ + kTileKeys > end_) {
        const int behind = next_key_ + Lane() / 4 - (end_ - 1);
        if (behind > 0) low -= behind * p_.k.row_stride;
        if (behind + 8 > 0) high -= (behind + 8) * p_.k.row_stride;
      }
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        CopyAsync(tile + static_cast<uint32_t>(block) * kBlockBytes, low + 32 * block);
        CopyAsync(tile + static_cast<uint32_t>(block) * kBlockBytes + kBlockBytes / 2, high + 32 * block);
      }
      next_row_ += (kBackward ? -kTileKeys : kTileKeys) * p_.k.row_stride;
      next_key_ += kBackward ? -kTileKeys : kTileKeys;
    }
    cuda::EndCopyGroup();
  }

  __device__ __forceinline__ float Capped(float dot) const {
    return p_.cap * cuda::Tanh(dot * p_.score_scale);
  }

  __device__ __forceinline__ void Mask(int32_t key, Scores& scores) const {
    const int32_t ahead = key + Lane() / 4 - (position_ + Lane() % 4 * 2);  // of the lane's first row
    // The factor is positive or, with a negative scale, turns the sign: the mask must come out as -inf either way.
    const float masked = Factor() < 0 ? __int_as_float(0x7f800000) : -__int_as_float(0x7f800000);
#pragma unroll
    for (int n = 0; n < kRowGroups; ++n) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        scores[n][c] = ahead <= 8 * n + c % 2 - 8 * (c / 2) ? scores[n][c] : masked;
      }
    }
  }

  const ProbeParams& p_;
  const uint32_t q_;  // shared memory addresses
  const uint32_t ring_;
  const int32_t position_;
  int32_t next_key_;
  const uint16_t* next_row_;  // the lane's 8 components of the first key group of the tile to be copied next
  const int32_t begin_;
  const int32_t end_;
  int stage_ = 0;
};

// Copies the unit's queries to shared memory; rows that the unit does not have are zero.
template <int kHeadDim>
__device__ __forceinline__ void RequestQueries(const ProbeParams& p, const UnitRows& rows, int64_t q_offset,
                                               uint4* queries) {
  constexpr int kRowPieces = kHeadDim / 8;
  const auto* const q = static_cast<const uint16_t*>(p.q.data) + q_offset + rows.first_row * p.q.row_stride;
  for (int at = static_cast<int>(threadIdx.x); at < kUnitRows * kRowPieces; at += kProbeThreads) {
    const int row = at / kRowPieces;
    const int piece = at % kRowPieces;
    uint4* const to = queries + (piece / 4 * kRowGroups + row / 8) * kGroupPieces + GroupPiece(row % 8, piece % 4);
    if (row < rows.num_rows) {
      CopyAsync(SharedAddress(to), q + row * p.q.row_stride + piece * 8);
    } else {
      *to = {0, 0, 0, 0};
    }
  }
  cuda::EndCopyGroup();
}

}  // namespace headscope::kernels::selection
