// SPDX-License-Identifier: Apache-2.0
// A tile of scores on the tensor cores: what all statistics share.
//
// A block of four warps holds 128 query rows in shared memory and walks over tiles of 64 keys, the next of which is
// under way (cp.async) while one is multiplied. A warp multiplies its 32 rows by all 64 keys with mma.m16n8k16. Rows in
// shared memory are padded by 16 bytes, so the eight rows of an ldmatrix start in eight different groups of banks for
// every head_dim that is a multiple of 16; head_dim and element type are therefore run-time values, and a statistic
// compiles once.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "async_copy.cuh"
#include "fast_math.cuh"
#include "mma.cuh"
#include "shared_memory.cuh"
#include "statistics/score_params.h"

namespace headscope::kernels::statistics {

inline constexpr int kThreads = 128;
inline constexpr int kWarps = kThreads / 32;
inline constexpr int kWarpRows = kTileRows / kWarps;

// Scores of a thread: value (mt, nt, e) belongs to row Row(mt, e / 2) of the block and key KeyOf(nt, e % 2) of the
// tile.
struct ScoreFragment {
  float value[2][8][4];
};
// Row of the block for half h of the 16-row product mt; every quad of lanes shares its four rows.
__device__ __forceinline__ int RowOf(int mt, int half) {
  return static_cast<int>(threadIdx.x) / 32 * kWarpRows + mt * 16 + half * 8 + static_cast<int>(threadIdx.x) % 32 / 4;
}
__device__ __forceinline__ int KeyOf(int nt, int e) {
  return nt * 8 + static_cast<int>(threadIdx.x) % 4 * 2 + e;
}

using cuda::AwaitCopyGroups;
using cuda::CopyAsyncOrZero;
using cuda::EndCopyGroup;
using cuda::Exp2;
using cuda::LoadMatrices;
using cuda::Mma;
using cuda::SharedAddress;
using cuda::Tanh;

// Copies `count` rows of head_dim elements; row i comes from source(i), a pointer, or null for zeros. The caller
// ends the group.
template <typename Source>
__device__ __forceinline__ void CopyRows(uint32_t to, int count, int head_dim, Source&& source) {
  const int pitch = RowBytes(head_dim);
  for (int row = static_cast<int>(threadIdx.x) / 8; row < count; row += kThreads / 8) {
    const uint16_t* const from = source(row);
    for (int chunk = static_cast<int>(threadIdx.x) % 8; chunk < head_dim / 8; chunk += 8) {
      CopyAsyncOrZero(to + row * pitch + chunk * 16, from == nullptr ? nullptr : from + chunk * 8, from != nullptr);
    }
  }
}

// Adds steps [0, steps) of 16 components to the fragment. queries, keys: shared addresses of the block's and the tile's
// first row.
template <bool kBFloat16>
__device__ __forceinline__ void MultiplySteps(ScoreFragment* scores, uint32_t queries, uint32_t keys, int head_dim) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int pitch = RowBytes(head_dim);
  const uint32_t a_address =
      queries + (static_cast<int>(threadIdx.x) / 32 * kWarpRows + lane % 16) * pitch + lane / 16 * 16;
  const uint32_t b_address = keys + (lane % 8 + lane / 16 * 8) * pitch + lane / 8 % 2 * 16;
#pragma unroll 2
  for (int step = 0; step < head_dim / 16; ++step) {
    uint32_t a[2][4], b[4][4];
#pragma unroll
    for (int mt = 0; mt < 2; ++mt) LoadMatrices(a[mt], a_address + mt * 16 * pitch + step * 32);
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) LoadMatrices(b[pair], b_address + pair * 16 * pitch + step * 32);
#pragma unroll
    for (int mt = 0; mt < 2; ++mt) {
#pragma unroll
      for (int nt = 0; nt < 8; ++nt) {
        Mma<kBFloat16>(scores->value[mt][nt], a[mt], b[nt / 2][nt % 2 * 2], b[nt / 2][nt % 2 * 2 + 1]);
      }
    }
  }
}

// Scores times log2(e), capped, unmasked: what exp2 takes.
__device__ __forceinline__ void MultiplyTile(const ScoreParams& params, uint32_t queries, uint32_t keys,
                                             ScoreFragment* scores) {
#pragma unroll
  for (int mt = 0; mt < 2; ++mt) {
#pragma unroll
    for (int nt = 0; nt < 8; ++nt) {
#pragma unroll
      for (int e = 0; e < 4; ++e) scores->value[mt][nt][e] = 0.0f;
    }
  }
  if (params.bfloat16) {
    MultiplySteps<true>(scores, queries, keys, params.head_dim);
  } else {
    MultiplySteps<false>(scores, queries, keys, params.head_dim);
  }
  const float factor = params.factor;
#pragma unroll
  for (int mt = 0; mt < 2; ++mt) {
#pragma unroll
    for (int nt = 0; nt < 8; ++nt) {
#pragma unroll
      for (int e = 0; e < 4; ++e) scores->value[mt][nt][e] *= factor;
    }
  }
  if (params.cap > 0) {
#pragma unroll
    for (int mt = 0; mt < 2; ++mt) {
#pragma unroll
      for (int nt = 0; nt < 8; ++nt) {
#pragma unroll
        for (int e = 0; e < 4; ++e) scores->value[mt][nt][e] = params.cap * Tanh(scores->value[mt][nt][e]);
      }
    }
  }
}

// Where a block stands: one (sequence, head) and its rows [row_begin, row_begin + 128).
struct BlockHead {
  const uint16_t* q;
  const uint16_t* k;
  int64_t row_slot;  // of row 0 in [batch, num_qo_heads, seq_q]

  __device__ BlockHead(const ScoreParams& params, int sequence_head) {
    const int head = sequence_head % params.num_qo_heads;
    const int sequence = sequence_head / params.num_qo_heads;
    q = params.q + sequence * params.q_batch_stride + head * params.q_head_stride;
    k = params.k + sequence * params.k_batch_stride + head / params.group_size * params.k_head_stride;
    row_slot = static_cast<int64_t>(sequence_head) * params.seq_q;
  }
};

// Columns that rows [row_begin, row_end) attend to: any of them [begin, end), all of them [common_begin, common_end).
struct AttendedColumns {
  int begin, end, common_begin, common_end;

  __device__ AttendedColumns(const ScoreParams& params, int64_t row_begin, int64_t row_end) {
    const int64_t first = params.first_position + row_begin;
    const int64_t last = params.first_position + row_end - 1;
    begin = params.window > 0 ? static_cast<int>(max(first - params.window + 1, int64_t{0})) : 0;
    end = static_cast<int>(min(last + 1, int64_t{params.seq_k}));
    begin = min(begin, end);
    common_begin = params.window > 0 ? static_cast<int>(max(last - params.window + 1, int64_t{0})) : 0;
    common_end = static_cast<int>(min(first + 1, int64_t{params.seq_k}));
  }
  __device__ bool Whole(int column_begin, int column_end) const {
    return column_begin >= common_begin && column_end <= common_end;
  }
};

// Attended columns of one row, relative to `column_begin`.
struct RowColumns {
  int begin, end;

  __device__ RowColumns(const ScoreParams& params, int row, int column_begin) {
    const int position = params.first_position + row;
    begin = (params.window > 0 ? max(position - params.window + 1, 0) : 0) - column_begin;
    end = min(position + 1, params.seq_k) - column_begin;
  }
  __device__ bool Attends(int column) const { return (column >= begin) & (column < end); }
};

// Scores of pairs that rows [row_begin, row_end) do not attend to, and of rows past row_end, become -inf. column_begin:
// of the tile.
__device__ __forceinline__ void MaskUnattended(const ScoreParams& params, int64_t row_begin, int64_t row_end,
                                               int column_begin, ScoreFragment* scores) {
#pragma unroll
  for (int mt = 0; mt < 2; ++mt) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      RowColumns row(params, static_cast<int>(row_begin) + RowOf(mt, half), column_begin);
      if (row_begin + RowOf(mt, half) >= row_end) row.end = row.begin;
#pragma unroll
      for (int nt = 0; nt < 8; ++nt) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          if (!row.Attends(KeyOf(nt, e))) scores->value[mt][nt][half * 2 + e] = -INFINITY;
        }
      }
    }
  }
}

// LSE of the thread's rows in base 2. A row that attends to nothing (-inf) and a row past the end get +inf: p is then 0
// wherever they are looked at, and -inf - -inf never comes up.
struct RowLseValues {
  float value[2][2];

  __device__ RowLseValues(const float* lse, int64_t row_slot, int64_t row_begin, int64_t row_end) {
    constexpr float kLog2E = 1.442695040888963407f;
#pragma unroll
    for (int mt = 0; mt < 2; ++mt) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int64_t row = row_begin + RowOf(mt, half);
        const float natural = row < row_end ? lse[row_slot + row] : -INFINITY;
        value[mt][half] = natural == -INFINITY ? INFINITY : natural * kLog2E;
      }
    }
  }
};

// The block's rows of Q, zeros below the last one. The caller commits.
__device__ __forceinline__ void CopyQueries(const ScoreParams& params, const BlockHead& head, int64_t row_begin,
                                            int64_t row_end, uint32_t to) {
  CopyRows(to, kTileRows, params.head_dim, [&](int i) -> const uint16_t* {
    return row_begin + i < row_end ? head.q + (row_begin + i) * params.q_row_stride : nullptr;
  });
}
// Keys [begin, begin + 64), zeros from seq_k on. The caller commits.
__device__ __forceinline__ void CopyKeys(const ScoreParams& params, const BlockHead& head, int64_t begin, uint32_t to) {
  CopyRows(to, kTileKeys, params.head_dim, [&](int i) -> const uint16_t* {
    return begin + i < params.seq_k ? head.k + (begin + i) * params.k_row_stride : nullptr;
  });
}

// Walks over `count` tiles of keys: load(tile, address) copies one, use(tile, address) gets it in shared memory. Q must
// have been copied but not waited for. With one stage (head_dim 256 on a GPU with little shared memory) loads and
// products take turns.
template <typename Load, typename Use>
__device__ __forceinline__ void WalkTiles(const ScoreParams& params, uint32_t keys, int count, Load&& load, Use&& use) {
  const uint32_t stage_bytes = static_cast<uint32_t>(kTileKeys * RowBytes(params.head_dim));
  const bool one_stage = params.key_stages == 1;
  if (count > 0) load(0, keys);
  EndCopyGroup();
  for (int tile = 0; tile < count; ++tile) {
    AwaitCopyGroups<0>();
    __syncthreads();  // this tile has arrived for all, and nobody reads the one before any more
    const uint32_t stage = one_stage ? keys : keys + tile % 2 * stage_bytes;
    if (!one_stage && tile + 1 < count) {
      load(tile + 1, keys + (tile + 1) % 2 * stage_bytes);
      EndCopyGroup();
    }
    use(tile, stage);
    if (one_stage && tile + 1 < count) {
      __syncthreads();
      load(tile + 1, keys);
      EndCopyGroup();
    }
  }
  if (count == 0) AwaitCopyGroups<0>();
}

// Sum and maximum over the four lanes that share a row.
__device__ __forceinline__ float QuadSum(float x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}
__device__ __forceinline__ float QuadMax(float x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

}  // namespace headscope::kernels::statistics
