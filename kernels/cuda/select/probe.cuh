// The probe's two kernels. S^T = K Q^T by mma.m16n8k16 with keys as rows and the unit's 64 query rows as columns, so
// that a column's mass is a sum inside a thread and its row of four lanes, and a diagonal's mass is a sum inside a
// thread whose register moves on by one place per 8 keys.
#pragma once

#include <cuda_runtime.h>

#include <limits>

#include "fast_math.cuh"
#include "mma.cuh"
#include "select/probe_sums.cuh"
#include "shared_memory.cuh"
#include "shared_memory.h"

namespace headscope::kernels::selection {

constexpr int kProbeThreads = 32 * kProbeWarps;
constexpr int kTileFragments = 1;               // of 16 keys
constexpr int kTileKeys = 16 * kTileFragments;  // keys of one step of a warp
constexpr int kStages = 2;                      // tiles of keys of a warp in shared memory
constexpr uint32_t kPieceBytes = sizeof(uint4);
constexpr int kRowGroups = 8;  // 64 query rows in groups of 8
constexpr int kMaxStripeSlots = 1024 / kStripe + 2;
constexpr unsigned kFullWarp = 0xffffffffu;

using cuda::Exp2;
using cuda::LoadMatrices;
using cuda::Mma;
using cuda::SharedAddress;

__device__ __forceinline__ void CopyAsync(uint32_t to, const uint16_t* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// Shared memory in pieces of 16 bytes: the unit's queries, then each warp's ring of key tiles. A tile has, for each 32
// components and 8 keys, 4 pieces a key; piece j of key r lies at 4 r + (j ^ r / 2), so that the same piece of eight
// keys lies in eight different groups of banks.
__host__ __device__ constexpr int QueryPieces(int head_dim) {
  return head_dim / 32 * kRowGroups * 32;
}
__host__ __device__ constexpr int TilePieces(int head_dim) {
  return head_dim / 32 * 2 * kTileFragments * 32;
}
__host__ __device__ constexpr int RingPieces(int head_dim) {
  return kStages * TilePieces(head_dim);
}

// With the queries and rings of head_dim 256 this just fits into the 99 KiB of a block on compute capability 8.6.
struct ProbeShared {
  union {
    float2 rows[kProbeWarps][kUnitRows];           // reference and sum, as in RowStatistics
    float slots[kProbeWarps][kMaxStripeSlots][8];  // diagonal stripes of each warp strip, once the rows are merged
  };
  float row_lse[kUnitRows];  // in base 2
};
static_assert((QueryPieces(256) + kProbeWarps * RingPieces(256)) * sizeof(uint4) + sizeof(ProbeShared) <= 99 * 1024);

// One warp's place in the work. The lane holds key lane / 4 of each group of 8 keys and query rows 8 n + 2 (lane % 4)
// and the next of each group n.
template <bool kBf16>
class ProbeWarp {
 public:
  // Scores in base 2, before the factor Factor(), of keys [key, key + kTileKeys): scores[m][n][2 h + e] is key 16 m + 8
  // h + lane / 4, query row 8 n + 2 (lane % 4) + e.
  using Scores = float[kTileFragments][kRowGroups][4];

  // Keys [begin, end); end is not behind the last visible key.
  __device__ ProbeWarp(const ProbeParams& params, uint4* shared, const UnitRows& rows, int64_t k_offset, int32_t begin,
                       int32_t end)
      : p_(params),
        q_(shared + threadIdx.x % 32),
        ring_(SharedAddress(shared + QueryPieces(params.head_dim) + threadIdx.x / 32 * RingPieces(params.head_dim))),
        rows_(rows),
        k_(static_cast<const uint16_t*>(params.k.data) + k_offset + threadIdx.x % 4 * 8),
        end_(end),
        num_blocks_(params.head_dim / 32),
        group_lane_(static_cast<int>(threadIdx.x) % 32 / 4) {
#pragma unroll
    for (int stage = 0; stage + 1 < kStages; ++stage) Request(begin + stage * kTileKeys, stage);
  }

  // Tiles are scored in order, each once.
  __device__ __forceinline__ void Score(int32_t key, Scores& scores) {
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2) : "memory");
    __syncwarp();  // what other lanes have copied; and the stage that is filled now was used up by the call before
    Request(key + (kStages - 1) * kTileKeys, stage_ == 0 ? kStages - 1 : stage_ - 1);
    // A lane's row of the four matrices of a step: of key group lane / 8 % 2, components 8 (lane / 16) on.
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int piece = lane / 8 % 2 * 32 + lane % 8 * 4 + (lane / 16 ^ lane % 8 / 2);
    uint32_t tile = ring_ + static_cast<uint32_t>(stage_ * TilePieces(p_.head_dim) + piece) * kPieceBytes;
    const uint4* q = q_;
    stage_ = stage_ + 1 == kStages ? 0 : stage_ + 1;
#pragma unroll
    for (int m = 0; m < kTileFragments; ++m) {
#pragma unroll
      for (int n = 0; n < kRowGroups; ++n) {
#pragma unroll
        for (int c = 0; c < 4; ++c) scores[m][n][c] = 0;
      }
    }
#pragma unroll 2
    for (int block = 0; block < num_blocks_; ++block) {
#pragma unroll
      for (int m = 0; m < kTileFragments; ++m) {
        uint32_t k[2][4];  // of two steps
        LoadMatrices(k[0], tile);
        LoadMatrices(k[1], tile ^ (2 * kPieceBytes));
        tile += 2 * 32 * kPieceBytes;
#pragma unroll
        for (int n = 0; n < kRowGroups; ++n) {
          const uint4 row = q[n * 32];
          Mma<kBf16>(scores[m][n], k[0], row.x, row.y);
          Mma<kBf16>(scores[m][n], k[1], row.z, row.w);
        }
      }
      q += kRowGroups * 32;
    }
    if (p_.cap > 0) {
#pragma unroll
      for (int m = 0; m < kTileFragments; ++m) {
#pragma unroll
        for (int n = 0; n < kRowGroups; ++n) {
#pragma unroll
          for (int c = 0; c < 4; ++c) scores[m][n][c] = Capped(scores[m][n][c]);
        }
      }
    }
    if (key + kTileKeys - 1 > rows_.position) Mask(key, scores);
  }

  __device__ __forceinline__ float Factor() const {
    return p_.cap > 0 ? 1.0f : p_.score_scale;
  }

 private:
  // Keys behind the last are not touched: what lies there may be nobody's.
  __device__ __forceinline__ void Request(int32_t key, int stage) {
    if (key < end_) {
      const int lane = static_cast<int>(threadIdx.x) % 32;
      const int piece = lane / 4 * 4 + (lane % 4 ^ lane / 8);
      const uint32_t tile = ring_ + static_cast<uint32_t>(stage * TilePieces(p_.head_dim) + piece) * kPieceBytes;
#pragma unroll
      for (int g = 0; g < 2 * kTileFragments; ++g) {
        const uint16_t* from = k_ + min(key + 8 * g + group_lane_, end_ - 1) * p_.k.row_stride;
        uint32_t to = tile + static_cast<uint32_t>(g * 32) * kPieceBytes;
#pragma unroll 4
        for (int block = 0; block < num_blocks_; ++block) {
          CopyAsync(to, from);
          from += 32;
          to += 2 * kTileFragments * 32 * kPieceBytes;
        }
      }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  }

  __device__ __forceinline__ float Capped(float dot) const {
    return p_.cap * cuda::Tanh(dot * p_.score_scale);
  }

  __device__ __forceinline__ void Mask(int32_t key, Scores& scores) const {
    const int32_t first_row = rows_.position + static_cast<int>(threadIdx.x) % 4 * 2;
    // The factor is positive or, with a negative scale, turns the sign: the mask must come out as -inf either way.
    const float masked = Factor() < 0 ? __int_as_float(0x7f800000) : -__int_as_float(0x7f800000);
#pragma unroll
    for (int m = 0; m < kTileFragments; ++m) {
#pragma unroll
      for (int n = 0; n < kRowGroups; ++n) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          const bool seen = key + 16 * m + 8 * (c / 2) + group_lane_ <= first_row + 8 * n + c % 2;
          scores[m][n][c] = seen ? scores[m][n][c] : masked;
        }
      }
    }
  }

  const ProbeParams& p_;
  const uint4* const q_;
  const uint32_t ring_;  // shared memory address
  const UnitRows rows_;
  const uint16_t* const k_;
  const int32_t end_;
  const int num_blocks_;
  const int group_lane_;
  int stage_ = 0;
};

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Adds what b stands for, the mass b.y * 2^b.x, to a.
__device__ __forceinline__ void MergeRow(float2& a, float2 b) {
  const float best = fmaxf(a.x, b.x);
  const float shift = best == -kInfinity ? 0.0f : best;
  a.y = a.y * Exp2(a.x - shift) + b.y * Exp2(b.x - shift);
  a.x = best;
}

// Sums of exponentials of the lane's 16 query rows over its keys, each against a reference of its own. The reference is
// a maximum of the row so far, and raised only where scores have outgrown it: any will do that keeps the sum in range.
class RowStatistics {
 public:
  __device__ RowStatistics() {
#pragma unroll
    for (int n = 0; n < kRowGroups; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) row_[n][e] = {-kInfinity, 0.0f};
    }
  }

  __device__ __forceinline__ void Add(const float (&scores)[kTileFragments][kRowGroups][4], float factor) {
    float sums[kRowGroups][2];
    float total = 0;
#pragma unroll
    for (int n = 0; n < kRowGroups; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        sums[n][e] = SumAgainst(scores, factor, row_[n][e].x, n, e);
        total += sums[n][e];
      }
    }
    // A score is then at most 20 above its reference. Without a reference the sum is infinite or no number.
    constexpr float kMost = 1048576.0f;
    if (!__all_sync(kFullWarp, total < kMost)) {
      AddRaising(scores, factor);
      return;
    }
#pragma unroll
    for (int n = 0; n < kRowGroups; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) row_[n][e].y += sums[n][e];
    }
  }

  // Leaves the warp's result of all 64 rows.
  __device__ __forceinline__ void Store(float2* rows) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int n = 0; n < kRowGroups; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float2& row = row_[n][e];
#pragma unroll
        for (int offset = 4; offset < 32; offset *= 2) {
          const float2 other = {__shfl_xor_sync(kFullWarp, row.x, offset), __shfl_xor_sync(kFullWarp, row.y, offset)};
          MergeRow(row, other);
        }
        if (lane < 4) rows[8 * n + 2 * lane + e] = row;
      }
    }
  }

 private:
  // Of row e of group n.
  __device__ __forceinline__ static float SumAgainst(const float (&scores)[kTileFragments][kRowGroups][4], float factor,
                                                     float reference, int n, int e) {
    float sum = 0;
#pragma unroll
    for (int m = 0; m < kTileFragments; ++m) {
      sum += Exp2(fmaf(scores[m][n][e], factor, -reference)) + Exp2(fmaf(scores[m][n][2 + e], factor, -reference));
    }
    return sum;
  }

  __device__ __forceinline__ void AddRaising(const float (&scores)[kTileFragments][kRowGroups][4], float factor) {
#pragma unroll
    for (int n = 0; n < kRowGroups; ++n) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float2& row = row_[n][e];
        float best = row.x;
#pragma unroll
        for (int m = 0; m < kTileFragments; ++m) {
          best = fmaxf(best, fmaxf(scores[m][n][e] * factor, scores[m][n][2 + e] * factor));
        }
        const float shift = best == -kInfinity ? 0.0f : best;  // no key seen yet: -inf - -inf
        row = {best, row.y * Exp2(row.x - shift) + SumAgainst(scores, factor, shift, n, e)};
      }
    }
  }

  float2 row_[kRowGroups][2];  // reference, sum
};

// Column and diagonal sums of one warp strip.
//
// Diagonals: let key group g be the g-th 8 keys of the strip. A lane's value of row group n and key group g lies on
// diagonal 8 (n - g) + (2 j + e) - i with i = lane / 4, j = lane % 4. Register n collects class n - g: when the next
// key group comes, every register moves up one place, and what leaves at the top is complete. 8 neighbouring diagonals
// 8 b .. 8 b + 7 take their values from class b where 2 j + e >= i and from class b + 1 elsewhere; three exchanges
// along lines of equal (2 j + e - i) mod 8 add up the eight keys.
class LineSums {
 public:
  __device__ LineSums(const ProbeParams& params, const UnitRows& rows, int64_t unit, int32_t warp_strip,
                      float (*slots)[8])
      : p_(params),
        lane_(static_cast<int>(threadIdx.x) % 32),
        columns_(params.columns + unit * params.column_pitch),
        slashes_(params.slashes + (unit * params.NumWarpStrips() + warp_strip) * params.slash_pitch),
        slots_(slots),
        highest_(HighestSlash(rows, warp_strip * params.keys_per_warp)) {
#pragma unroll
    for (int n = 0; n < kRowGroups; ++n) class_[n][0] = class_[n][1] = 0;
    left_[0] = left_[1] = 0;
    if (p_.stripes) {
      for (int i = lane_; i < p_.slash_pitch * 8; i += 32) slots_[i / 8][i % 8] = 0;
      __syncwarp();
    }
  }

  // Probabilities of keys [key, key + kTileKeys).
  __device__ __forceinline__ void Add(int32_t key, const float (&p)[kTileFragments][kRowGroups][4]) {
#pragma unroll
    for (int g = 0; g < 2 * kTileFragments; ++g) {
      float column = 0;
#pragma unroll
      for (int n = 0; n < kRowGroups; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const float value = p[g / 2][n][g % 2 * 2 + e];
          column += value;
          class_[n][e] += value;
        }
      }
      AddColumn(key + 8 * g, column);
      Advance();
    }
    if (p_.stripes && (key / kTileKeys) % (kStripe / kTileKeys) == kStripe / kTileKeys - 1) StoreColumnStripe(key);
  }

  // After the strip's last keys; `key` is one of the last tile's.
  __device__ __forceinline__ void Finish(int32_t key) {
#pragma unroll 1
    for (int g = 0; g < kRowGroups; ++g) Advance();
    if (!p_.stripes) return;
    if (stripe_open_) StoreColumnStripe(key);
    __syncwarp();
    for (int slot = lane_; slot < p_.slash_pitch; slot += 32) {
      float sum = 0;
#pragma unroll
      for (int i = 0; i < 8; ++i) sum += slots_[slot][i];
      slashes_[slot] = sum;
    }
  }

 private:
  __device__ __forceinline__ void AddColumn(int32_t key, float column) {
    if (p_.stripes) {
      column_stripe_ += column;
      stripe_open_ = true;
      return;
    }
    column += __shfl_xor_sync(kFullWarp, column, 1);
    column += __shfl_xor_sync(kFullWarp, column, 2);
    const int32_t at = key + lane_ / 4;
    if (lane_ % 4 == 0 && at < p_.column_pitch) columns_[at] = column;
  }

  __device__ __forceinline__ void StoreColumnStripe(int32_t key) {
    float sum = column_stripe_;
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(kFullWarp, sum, offset);
    if (lane_ == 0) columns_[key / kStripe] = sum;
    column_stripe_ = 0;
    stripe_open_ = false;
  }

  // Ends a key group: its 8 complete diagonals leave, the classes move up.
  __device__ __forceinline__ void Advance() {
    const int i = lane_ / 4;
    const int j = lane_ % 4;
    const bool odd = i % 2 != 0;
    float x = 2 * j >= i ? class_[kRowGroups - 1][0] : left_[0];
    float y = 2 * j + 1 >= i ? class_[kRowGroups - 1][1] : left_[1];
    x += __shfl_xor_sync(kFullWarp, x, 18);  // i ^ 4, j ^ 2
    y += __shfl_xor_sync(kFullWarp, y, 18);
    const int two_on = (i ^ 2) * 4 + ((j + ((i & 2) != 0 ? 3 : 1)) & 3);
    x += __shfl_sync(kFullWarp, x, two_on);
    y += __shfl_sync(kFullWarp, y, two_on);
    // One key on is the other of the lane's two rows, or the first or second row of the neighbour.
    const float near = __shfl_xor_sync(kFullWarp, odd ? y : x, 4);
    const float far = __shfl_sync(kFullWarp, odd ? x : y, (i ^ 1) * 4 + ((j + (odd ? 3 : 1)) & 3));
    StoreSlashes(odd ? x + far : x + near, odd ? y + near : y + far);
    left_[0] = class_[kRowGroups - 1][0];
    left_[1] = class_[kRowGroups - 1][1];
#pragma unroll
    for (int n = kRowGroups - 1; n > 0; --n) {
      class_[n][0] = class_[n - 1][0];
      class_[n][1] = class_[n - 1][1];
    }
    class_[0][0] = class_[0][1] = 0;
    below_highest_ += 8;
  }

  // Lanes 0 .. 3 hold diagonals highest - below - 7 + 2 j and the next.
  __device__ __forceinline__ void StoreSlashes(float x, float y) {
    if (lane_ >= 4) return;
    const int32_t at = below_highest_ + 7 - 2 * lane_;
    if (!p_.stripes) {
      *reinterpret_cast<float2*>(slashes_ + at - 1) = {y, x};
      return;
    }
    const int32_t slash = highest_ - at;
    if (slash >= 0) slots_[highest_ / kStripe - slash / kStripe][2 * lane_] += x;
    if (slash + 1 >= 0) slots_[highest_ / kStripe - (slash + 1) / kStripe][2 * lane_ + 1] += y;
  }

  const ProbeParams& p_;
  const int lane_;
  float* const columns_;
  float* const slashes_;
  float (*const slots_)[8];
  const int32_t highest_;
  int32_t below_highest_ = 0;
  float column_stripe_ = 0;
  bool stripe_open_ = false;  // column_stripe_ holds something that is not stored
  float class_[kRowGroups][2];
  float left_[2];
};

// Copies the unit's queries to shared memory in the order in which the warps' products read them: one 16-byte piece per
// (32 components, group of 8 rows, lane), components 2 j, 2 j + 8, 2 j + 16 and 2 j + 24 and the next of each for j =
// lane % 4. Rows that the unit does not have are zero.
__device__ inline void LoadQueries(const ProbeParams& p, const UnitRows& rows, int64_t q_offset, uint4* fragments) {
  const auto* const q = static_cast<const uint16_t*>(p.q.data) + q_offset;
  const int count = QueryPieces(p.head_dim);
  for (int at = static_cast<int>(threadIdx.x); at < count; at += kProbeThreads) {
    const int lane = at % 32;
    const int row = at / 32 % kRowGroups * 8 + lane / 4;
    const int component = at / (32 * kRowGroups) * 32 + lane % 4 * 2;
    uint4 piece{0, 0, 0, 0};
    if (row < rows.num_rows) {
      const auto* const from =
          reinterpret_cast<const uint32_t*>(q + (rows.first_row + row) * p.q.row_stride + component);
      piece = {from[0], from[4], from[8], from[12]};
    }
    fragments[at] = piece;
  }
}

// The rows' LSE over all strips, in the order of the strips; +inf for a row that the unit does not have, which makes
// all its probabilities 0.
__device__ inline void LoadRowStatistics(const ProbeParams& p, const UnitRows& rows, int64_t unit,
                                         ProbeShared& shared) {
  static_assert(kProbeThreads == 2 * kUnitRows);
  const int row = static_cast<int>(threadIdx.x) % kUnitRows;
  const int half = static_cast<int>(threadIdx.x) / kUnitRows;
  const int32_t keys_per_strip = p.keys_per_warp * kProbeWarps;
  const int32_t num_strips = (rows.VisibleKeys() + keys_per_strip - 1) / keys_per_strip;
  const float2* const partials = p.row_partials + unit * p.num_strips * kUnitRows + row;
  float2 merged = {-kInfinity, 0.0f};
  for (int32_t strip = half; strip < num_strips; strip += 2) MergeRow(merged, partials[int64_t{strip} * kUnitRows]);
  if (half == 1) shared.rows[1][row] = merged;
  __syncthreads();
  if (half == 0) {
    MergeRow(merged, shared.rows[1][row]);
    shared.row_lse[row] = row < rows.num_rows ? merged.x + log2f(merged.y) : kInfinity;
  }
}

// One strip of one unit. kSums == false: row statistics into p.row_partials. kSums == true: column and diagonal sums.
template <bool kBf16, bool kSums>
__global__ void __launch_bounds__(kProbeThreads, 4) ProbeKernel(const ProbeParams p) {
  extern __shared__ __align__(128) uint4 pieces[];  // whole tiles: places in them are told apart by address bits
  __shared__ __align__(16) ProbeShared shared;
  const int units_of_group = p.group_size * p.UnitsPerHead();
  const int unit_of_group = static_cast<int>(blockIdx.x) % units_of_group;
  const int32_t strip = static_cast<int32_t>(blockIdx.x) / units_of_group % p.num_strips;
  const int kv_list = static_cast<int>(blockIdx.x) / units_of_group / p.num_strips;
  const int sequence = kv_list / p.num_kv_heads;
  const int kv_head = kv_list % p.num_kv_heads;
  const int head = kv_head * p.group_size + unit_of_group / p.UnitsPerHead();
  const int unit_of_head = unit_of_group % p.UnitsPerHead();
  const UnitRows rows = RowsOfUnit(p, unit_of_head / p.units_per_chunk, unit_of_head % p.units_per_chunk);
  const int32_t block_key = strip * kProbeWarps * p.keys_per_warp;
  if (block_key >= rows.VisibleKeys()) return;
  const int64_t unit = (int64_t{sequence} * p.num_qo_heads + head) * p.UnitsPerHead() + unit_of_head;

  LoadQueries(p, rows, sequence * p.q.batch_stride + head * p.q.head_stride, pieces);
  if constexpr (kSums) LoadRowStatistics(p, rows, unit, shared);
  __syncthreads();

  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int32_t begin = block_key + warp * p.keys_per_warp;
  const int32_t end = min(begin + p.keys_per_warp, rows.VisibleKeys());
  ProbeWarp<kBf16> probe(p, pieces, rows, sequence * p.k.batch_stride + kv_head * p.k.head_stride, begin, end);
  float scores[kTileFragments][kRowGroups][4];
  if constexpr (!kSums) {
    RowStatistics statistics;
    for (int32_t key = begin; key < end; key += kTileKeys) {
      probe.Score(key, scores);
      statistics.Add(scores, probe.Factor());
    }
    statistics.Store(shared.rows[warp]);
    __syncthreads();
    const int row = static_cast<int>(threadIdx.x);
    if (row < kUnitRows) {
      float2 merged = shared.rows[0][row];
#pragma unroll
      for (int w = 1; w < kProbeWarps; ++w) MergeRow(merged, shared.rows[w][row]);
      p.row_partials[(unit * p.num_strips + strip) * kUnitRows + row] = merged;
    }
  } else if (begin < end) {
    LineSums sums(p, rows, unit, strip * kProbeWarps + warp, shared.slots[warp]);
    int32_t key = begin;
    for (; key < end; key += kTileKeys) {
      probe.Score(key, scores);
#pragma unroll
      for (int n = 0; n < kRowGroups; ++n) {
        const float2 lse = *reinterpret_cast<const float2*>(&shared.row_lse[8 * n + threadIdx.x % 4 * 2]);
#pragma unroll
        for (int m = 0; m < kTileFragments; ++m) {
#pragma unroll
          for (int c = 0; c < 4; ++c) {
            scores[m][n][c] = Exp2(fmaf(scores[m][n][c], probe.Factor(), c % 2 == 0 ? -lse.x : -lse.y));
          }
        }
      }
      sums.Add(key, scores);
    }
    sums.Finish(key - kTileKeys);
  }
}

template <bool kBf16>
cudaError_t LaunchProbeOf(const ProbeParams& params, int32_t batch, cudaStream_t stream) {
  const int64_t num_blocks = int64_t{batch} * params.num_qo_heads * params.UnitsPerHead() * params.num_strips;
  const size_t shared_bytes =
      static_cast<size_t>(QueryPieces(params.head_dim) + kProbeWarps * RingPieces(params.head_dim)) * sizeof(uint4);
  for (const auto kernel : {ProbeKernel<kBf16, false>, ProbeKernel<kBf16, true>}) {
    const cudaError_t error = AllowSharedMemory(kernel);
    if (error != cudaSuccess) return error;
  }
  const dim3 grid(static_cast<unsigned>(num_blocks));
  ProbeKernel<kBf16, false><<<grid, kProbeThreads, shared_bytes, stream>>>(params);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) return error;
  ProbeKernel<kBf16, true><<<grid, kProbeThreads, shared_bytes, stream>>>(params);
  return cudaGetLastError();
}

}  // namespace headscope::kernels::selection
