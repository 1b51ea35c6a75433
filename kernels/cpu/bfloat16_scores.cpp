// SPDX-License-Identifier: Apache-2.0
#include "internal/bfloat16_scores.h"

#include <algorithm>
#include <atomic>

#include "bfloat16_tiles.h"
#include "kernels/narrow_floats.h"
#include "pair_tile.h"
#include "panel.h"

namespace headscope::kernels::internal {
namespace {

std::atomic<BFloat16Unit> most_used{BFloat16Unit::kTiles};

// Of one panel: the order of additions is the instruction's, the pair's second product before its first.
void ScorePanelPlainly(const uint16_t* q, int32_t num_rows, const uint16_t* panel, int32_t width, float scale,
                       float* scores, int64_t ld) {
  for (int32_t row = 0; row < num_rows; ++row) {
    for (int64_t lane = 0; lane < kPanelLanes; ++lane) {
      float sum = 0;
      for (int32_t d = 0; d < width; d += 2) {
        const uint16_t* const pair = panel + d / 2 * kPairStep + 2 * lane;
        const uint16_t* const own = q + int64_t{row} * width + d;
        sum += FloatFromBFloat16(own[1]) * FloatFromBFloat16(pair[1]);
        sum += FloatFromBFloat16(own[0]) * FloatFromBFloat16(pair[0]);
      }
      scores[row * ld + lane] = scale * sum;
    }
  }
}

#if HEADSCOPE_PAIR_TILES

struct BFloat16Pairs {
  using Number = uint16_t;
  using Sum = __m512;
  float scale;
  HEADSCOPE_IN_PAIR_TILE static Sum Zero() { return _mm512_setzero_ps(); }
  HEADSCOPE_IN_PAIR_TILE static void Add(__m512i own, __m512i columns, Sum* sum) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(*sum) : "v"(own), "v"(columns));  // NOLINT(hicpp-no-assembler)
  }
  HEADSCOPE_IN_PAIR_TILE void Store(Sum sum, float* target) const {
    _mm512_storeu_ps(target, _mm512_mul_ps(sum, _mm512_set1_ps(scale)));
  }
};

#endif

}  // namespace

BFloat16Unit BestBFloat16Unit() {
#if HEADSCOPE_PAIR_TILES
  static const bool has_vectors = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bf16");
#else
  constexpr bool has_vectors = false;
#endif
  const BFloat16Unit best = !has_vectors          ? BFloat16Unit::kNone
                            : !HasBFloat16Tiles() ? BFloat16Unit::kVectors
                                                  : BFloat16Unit::kTiles;
  return std::min(best, most_used.load(std::memory_order_relaxed));
}

void LimitBFloat16(BFloat16Unit most) {
  most_used.store(most, std::memory_order_relaxed);
}

bool HasBFloat16Products() {
  return BestBFloat16Unit() != BFloat16Unit::kNone;
}

bool BFloat16ProductsPay() {
  const BFloat16Unit unit = BestBFloat16Unit();
#if HEADSCOPE_PAIR_TILES
  if (unit == BFloat16Unit::kVectors) return __builtin_cpu_is("amd") != 0;
#endif
  return unit == BFloat16Unit::kTiles;
}

BFloat16Keys::BFloat16Keys(const uint16_t* rows, int32_t num_rows, int32_t width)
    : num_rows_(num_rows), width_(width), pairs_(static_cast<size_t>(PanelFloats(num_rows, width))) {
  for (int32_t begin = 0; begin < num_rows; begin += kPanelLanes) {
    PackPairs(rows + int64_t{begin} * width, width, std::min(kPanelLanes, num_rows - begin), width,
              pairs_.data() + int64_t{begin} * width);
  }
}

void ScoreBFloat16(const uint16_t* q, int32_t num_rows, const BFloat16Keys& keys, int32_t num_keys, float scale,
                   float* scores, int64_t ld) {
  const int32_t width = keys.width();
  const int32_t by_tiles = width % kTileComponents == 0 && BestBFloat16Unit() == BFloat16Unit::kTiles
                               ? num_rows / kTileRowsOfProduct * kTileRowsOfProduct
                               : 0;
  for (int32_t begin = 0; begin < num_keys; begin += kPanelLanes) {
    const uint16_t* const panel = keys.data() + int64_t{begin} * width;
    if (by_tiles > 0) ScorePanelByTiles(q, by_tiles, panel, width, scale, scores + begin, ld);
#if HEADSCOPE_PAIR_TILES
    if (HasBFloat16Products()) {
      MultiplyPairRows<BFloat16Pairs, kPairVectors>(num_rows - by_tiles, q + int64_t{by_tiles} * width, width, panel,
                                                    width, BFloat16Pairs{scale}, scores + by_tiles * ld + begin, ld);
      continue;
    }
#endif
    ScorePanelPlainly(q + int64_t{by_tiles} * width, num_rows - by_tiles, panel, width, scale,
                      scores + by_tiles * ld + begin, ld);
  }
}

}  // namespace headscope::kernels::internal
