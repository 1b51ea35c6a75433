// SPDX-License-Identifier: Apache-2.0
// What each thread of SparQ's upkeep does between two barriers: a tile of keys, transposed through shared memory, and
// the sum of a part of the values. It is plain code, which the host runs thread by thread as well, so that its places
// are tested without a GPU.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>

#include "decode/sparq_upkeep.h"

// Of loops of a length that is not known: their loads are under way together. Others are unrolled without a word.
#ifdef __CUDA_ARCH__
#define HEADSCOPE_PRAGMA(text) _Pragma(#text)
#define HEADSCOPE_UNROLL(times) HEADSCOPE_PRAGMA(unroll times)
#else
#define HEADSCOPE_UNROLL(times)
#endif

namespace headscope::kernels::decode {

// 16 bytes at a time; the host may not read elements of one type as those of another.
__host__ __device__ inline uint4 Load16(const void* from) {
#ifdef __CUDA_ARCH__
  return *static_cast<const uint4*>(from);
#else
  uint4 value;
  std::memcpy(&value, from, sizeof value);
  return value;
#endif
}
__host__ __device__ inline void Store16(const uint4& value, void* to) {
#ifdef __CUDA_ARCH__
  __stwb(static_cast<uint4*>(to), value);  // which an assignment in a loop would cut in four
#else
  std::memcpy(to, &value, sizeof value);
#endif
}
// Of 16 bytes, 2.
__host__ __device__ inline uint32_t ElementOf(const uint4& vector, int i) {
#ifdef __CUDA_ARCH__
  return reinterpret_cast<const uint16_t*>(&vector)[i];
#else
  uint16_t element;
  std::memcpy(&element, reinterpret_cast<const char*>(&vector) + 2 * i, sizeof element);
  return element;
#endif
}

// Where a tile has 8 components of a token. Rows of 128 and 256 bytes begin in one bank; what is shifted from 8 tokens
// to the next are their pieces, so that a warp writes pieces of rows, and reads components of tokens 8 apart, without a
// conflict.
template <int D>
__host__ __device__ constexpr int TilePlace(int token, int piece) {
  return token * (D / kVectorElements) + (piece ^ (token / kVectorElements % kVectorElements));
}

// The keys of a list, as the tiles see them.
struct ListKeys {
  const uint16_t* k;
  uint16_t* kt;
  int64_t k_row, kt_component;
  int32_t first_token, seq_k;
};

__host__ __device__ inline ListKeys KeysOfList(const UpkeepParams& p, int list) {
  const int64_t sequence = list / p.num_kv_heads, head = list % p.num_kv_heads;
  return {static_cast<const uint16_t*>(p.k) + sequence * p.k_batch + head * p.k_head,
          static_cast<uint16_t*>(p.kt) + sequence * p.kt_batch + head * p.kt_head,
          p.k_row,
          p.kt_component,
          p.first_token,
          p.seq_k};
}

// First, of every thread: rows of tokens come in, whole. In the place of those that are not new stands another one's
// row, which nobody looks at: so all loads are under way together.
template <int D>
__host__ __device__ inline void ReadTile(const ListKeys& keys, int64_t tile, int thread, uint4* shared) {
  constexpr int kPieces = D / kVectorElements, kRows = kUpkeepThreads / kPieces, kTurns = kTileKeys / kRows;
  static_assert(kTileKeys % kRows == 0);
  const int piece = thread % kPieces;
  uint4 read[kTurns];
  for (int turn = 0; turn < kTurns; ++turn) {
    int64_t token = tile * kTileKeys + turn * kRows + thread / kPieces;
    if (token < keys.first_token) token = keys.first_token;
    if (token >= keys.seq_k) token = keys.seq_k - 1;
    read[turn] = Load16(keys.k + token * keys.k_row + piece * kVectorElements);
  }
  for (int turn = 0; turn < kTurns; ++turn) shared[TilePlace<D>(turn * kRows + thread / kPieces, piece)] = read[turn];
}

// Behind a barrier, of every thread: 8 tokens of a component go out. Of tokens that are not new nothing is written.
template <int D>
__host__ __device__ inline void WriteTile(const ListKeys& keys, int64_t tile, int thread, const uint4* shared) {
  constexpr int kGroups = kTileKeys / kVectorElements, kComponents = kUpkeepThreads / kGroups;
  static_assert(D % kComponents == 0);
  const int group = thread % kGroups;
  const int64_t token = tile * kTileKeys + group * kVectorElements;
  const auto element = [&](int d, int i) {
    return ElementOf(shared[TilePlace<D>(group * kVectorElements + i, d / kVectorElements)], d % kVectorElements);
  };
  if (token >= keys.first_token && token + kVectorElements <= keys.seq_k) {
    HEADSCOPE_UNROLL(4)
    for (int d = thread / kGroups; d < D; d += kComponents) {
      uint4 written;
      written.x = element(d, 0) | element(d, 1) << 16;
      written.y = element(d, 2) | element(d, 3) << 16;
      written.z = element(d, 4) | element(d, 5) << 16;
      written.w = element(d, 6) | element(d, 7) << 16;
      Store16(written, keys.kt + d * keys.kt_component + token);
    }
    return;
  }
  const auto first = static_cast<int>(keys.first_token > token ? keys.first_token - token : 0);
  const auto end = static_cast<int>(keys.seq_k - token < kVectorElements ? keys.seq_k - token : kVectorElements);
  for (int d = thread / kGroups; d < D; d += kComponents) {
    HEADSCOPE_UNROLL(1)
    for (int i = first; i < end; ++i) keys.kt[d * keys.kt_component + token + i] = static_cast<uint16_t>(element(d, i));
  }
}

__host__ __device__ inline float FromBits(uint32_t bits, __nv_bfloat16) {
  return __bfloat162float(__nv_bfloat16(__nv_bfloat16_raw{static_cast<unsigned short>(bits)}));
}
__host__ __device__ inline float FromBits(uint32_t bits, __half) {
  return __half2float(__half(__half_raw{static_cast<unsigned short>(bits)}));
}

// A part's values, first, of every thread: 8 components of every kRows-th token, summed into sums [kRows, D].
template <typename T, int D>
__host__ __device__ inline void SumRows(const UpkeepParams& p, int list, int part, int thread, float* sums) {
  constexpr int kPieces = D / kVectorElements, kRows = kUpkeepThreads / kPieces;
  const int piece = thread % kPieces, row = thread / kPieces;
  const int64_t sequence = list / p.num_kv_heads, head = list % p.num_kv_heads;
  const uint16_t* const v =
      static_cast<const uint16_t*>(p.v) + sequence * p.v_batch + head * p.v_head + piece * kVectorElements;
  const int64_t begin = p.first_token + int64_t{part} * p.part_tokens, behind = begin + p.part_tokens;
  const int64_t end = behind < p.seq_k ? behind : p.seq_k;
  float sum[kVectorElements] = {};
  HEADSCOPE_UNROLL(4)
  for (int64_t token = begin + row; token < end; token += kRows) {
    const uint4 read = Load16(v + token * p.v_row);
    const uint32_t words[] = {read.x, read.y, read.z, read.w};
    for (int i = 0; i < 4; ++i) {
      sum[2 * i] += FromBits(words[i] & 0xffffu, T());
      sum[2 * i + 1] += FromBits(words[i] >> 16, T());
    }
  }
  for (int i = 0; i < kVectorElements; ++i) sums[row * D + piece * kVectorElements + i] = sum[i];
}

// Behind a barrier, of the first D threads: the rows' sums, in their order.
template <int D>
__host__ __device__ inline void AddRows(const UpkeepParams& p, int list, int part, int thread, const float* sums) {
  constexpr int kRows = kUpkeepThreads * kVectorElements / D;
  float sum = 0;
  for (int row = 0; row < kRows; ++row) sum += sums[row * D + thread];
  p.partial[(int64_t{list} * p.parts + part) * D + thread] = sum;
}

// Then, of a component of every list: the parts' sums, in their order, and how they move the mean.
__host__ __device__ inline void MoveMean(const UpkeepParams& p, int list, int d) {
  const float* const partial = p.partial + int64_t{list} * p.parts * p.head_dim + d;
  double sum = 0;
  HEADSCOPE_UNROLL(8)
  for (int part = 0; part < p.parts; ++part) sum += static_cast<double>(partial[int64_t{part} * p.head_dim]);
  float* const mean = p.mean + int64_t{list} * p.head_dim + d;
  if (p.first_token == 0) {  // whatever stands there
    *mean = static_cast<float>(sum / p.seq_k);
  } else {
    const double before = static_cast<double>(*mean);
    *mean = static_cast<float>(before + (sum - (p.seq_k - p.first_token) * before) / p.seq_k);
  }
}

// A tile, and the sums of a part's rows.
constexpr int UpkeepSharedBytes(int head_dim) {
  return kTileKeys * head_dim * 2 > kUpkeepThreads * kVectorElements * 4 ? kTileKeys * head_dim * 2
                                                                         : kUpkeepThreads * kVectorElements * 4;
}

}  // namespace headscope::kernels::decode

#undef HEADSCOPE_UNROLL
#undef HEADSCOPE_PRAGMA
