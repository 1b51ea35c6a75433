// SPDX-License-Identifier: Apache-2.0
// The product of micro_kernel-inl.h with pairs of 16 bits in the place of floats, on AVX-512. Highway as distributions
// ship it has no name for the instructions that multiply such pairs and add both products to a sum, so those say them
// themselves who use it: whole numbers in integer_scores.cpp, bfloat16 in bfloat16_scores.cpp.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__)
#define HEADSCOPE_PAIR_TILES 1

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "panel.h"

namespace headscope::kernels {

// Assemblers ask for all that is said in a function.
#define HEADSCOPE_PAIR_TARGET target("avx512f,avx512vnni,avx512bf16")
#define HEADSCOPE_PAIR_TILE __attribute__((HEADSCOPE_PAIR_TARGET))
#define HEADSCOPE_IN_PAIR_TILE __attribute__((HEADSCOPE_PAIR_TARGET, always_inline)) inline

// 6 rows by 4 vectors of sums, 4 vectors of columns and a broadcast fit the 32 registers.
inline constexpr int kPairRows = 6, kPairVectors = 4;
static_assert(kPanelLanes == 16 * kPairVectors);

// kRows rows, row_step numbers apart, by kVectors vectors of a panel's columns, [pair of components][column][2]. Pairs
// has the Number, the Sum of 16 columns and how they begin (Zero), take a pair (Add) and end (Store at a target).
// scores: ld apart.
template <class Pairs, int kRows, int kVectors>
HEADSCOPE_PAIR_TILE void MultiplyPairTile(const typename Pairs::Number* rows, int64_t row_step,
                                          const typename Pairs::Number* panel, int32_t components, Pairs pairs,
                                          float* scores, int64_t ld) {
  typename Pairs::Sum sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) sum[i][j] = Pairs::Zero();
  }
  for (int32_t d = 0; d < components; d += 2, panel += kPairStep) {
    __m512i columns[kVectors];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) columns[j] = _mm512_loadu_si512(panel + 32 * j);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      int32_t pair;
      std::memcpy(&pair, rows + i * row_step + d, sizeof(pair));
      const __m512i own = _mm512_set1_epi32(pair);
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) Pairs::Add(own, columns[j], &sum[i][j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) pairs.Store(sum[i][j], scores + i * ld + 16 * j);
  }
}

// The same of any number of rows.
template <class Pairs, int kVectors, int kRows = kPairRows>
void MultiplyPairRows(int32_t num_rows, const typename Pairs::Number* rows, int64_t row_step,
                      const typename Pairs::Number* panel, int32_t components, Pairs pairs, float* scores, int64_t ld) {
  if constexpr (kRows > 1) {
    if (num_rows < kRows)
      return MultiplyPairRows<Pairs, kVectors, kRows - 1>(num_rows, rows, row_step, panel, components, pairs, scores,
                                                          ld);
  }
  for (; num_rows >= kRows; num_rows -= kRows, rows += kRows * row_step, scores += kRows * ld)
    MultiplyPairTile<Pairs, kRows, kVectors>(rows, row_step, panel, components, pairs, scores, ld);
  if constexpr (kRows > 1) {
    if (num_rows > 0)
      MultiplyPairRows<Pairs, kVectors, kRows - 1>(num_rows, rows, row_step, panel, components, pairs, scores, ld);
  }
}

}  // namespace headscope::kernels

#else
#define HEADSCOPE_PAIR_TILES 0
#endif
