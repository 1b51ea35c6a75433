// SPDX-License-Identifier: Apache-2.0
#include "bfloat16_tiles.h"

#include "panel.h"

#if defined(__x86_64__) && defined(__GNUC__) && defined(__linux__)
#define HEADSCOPE_BFLOAT16_TILES 1
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#else
#define HEADSCOPE_BFLOAT16_TILES 0
#endif

namespace headscope::kernels::internal {

#if HEADSCOPE_BFLOAT16_TILES

namespace {

// Eight tiles of 16 rows of 64 bytes each.
struct alignas(64) TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileShapes) == 64);

bool AskForTiles() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!__builtin_cpu_supports("avx512f") || __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  constexpr unsigned kProducts = 1u << 22, kTiles = 1u << 24;
  if ((edx & kProducts) == 0 || (edx & kTiles) == 0) return false;
  // The tiles' eight kilobytes are part of a process's state from here on; the system may refuse.
  constexpr long kRequestState = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestState, kTileData) == 0;
}

constexpr int64_t kPairWords = int64_t{2} * kPanelLanes;  // of one pair of components in a panel
constexpr int32_t kColumnsAtOnce = 32;

__attribute__((target("avx512f"))) void ScaleRows(float* scores, int32_t num_rows, int64_t ld, float scale) {
  const __m512 factor = _mm512_set1_ps(scale);
  for (int32_t row = 0; row < num_rows; ++row, scores += ld) {
    for (int32_t at = 0; at < kColumnsAtOnce; at += 16)
      _mm512_storeu_ps(scores + at, _mm512_mul_ps(_mm512_loadu_ps(scores + at), factor));
  }
}

// Tiles 0 to 3 are sums, 4 and 5 rows, 6 and 7 columns.
__attribute__((target("amx-tile,amx-bf16"))) void ScoreTwoByTwo(const uint16_t* q, const uint16_t* columns,
                                                                int32_t width, float* scores, int64_t ld) {
  const int64_t row_bytes = int64_t{2} * width, pair_bytes = 2 * kPairWords, ld_bytes = 4 * ld;
  const int64_t below = int64_t{kTileRowsOfProduct} * width;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int32_t d = 0; d < width; d += kTileComponents, columns += kTileComponents / 2 * kPairWords) {
    _tile_loadd(4, q + d, row_bytes);
    _tile_loadd(6, columns, pair_bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, columns + 2 * 16, pair_bytes);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, q + below + d, row_bytes);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, scores, ld_bytes);
  _tile_stored(1, scores + 16, ld_bytes);
  _tile_stored(2, scores + kTileRowsOfProduct * ld, ld_bytes);
  _tile_stored(3, scores + kTileRowsOfProduct * ld + 16, ld_bytes);
}

__attribute__((target("amx-tile,amx-bf16"))) void ScoreOneByTwo(const uint16_t* q, const uint16_t* columns,
                                                                int32_t width, float* scores, int64_t ld) {
  const int64_t row_bytes = int64_t{2} * width, pair_bytes = 2 * kPairWords, ld_bytes = 4 * ld;
  _tile_zero(0);
  _tile_zero(1);
  for (int32_t d = 0; d < width; d += kTileComponents, columns += kTileComponents / 2 * kPairWords) {
    _tile_loadd(4, q + d, row_bytes);
    _tile_loadd(6, columns, pair_bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, columns + 2 * 16, pair_bytes);
    _tile_dpbf16ps(1, 4, 7);
  }
  _tile_stored(0, scores, ld_bytes);
  _tile_stored(1, scores + 16, ld_bytes);
}

__attribute__((target("amx-tile"))) void ShapeTiles() {
  static const TileShapes shapes;
  _tile_loadconfig(&shapes);
}

// Without it the tiles would be saved and restored with every switch of threads.
__attribute__((target("amx-tile"))) void ReleaseTiles() {
  _tile_release();
}

}  // namespace

bool HasBFloat16Tiles() {
  static const bool has = AskForTiles();
  return has;
}

void ScorePanelByTiles(const uint16_t* q, int32_t num_rows, const uint16_t* panel, int32_t width, float scale,
                       float* scores, int64_t ld) {
  ShapeTiles();
  for (int32_t column = 0; column < kPanelLanes; column += kColumnsAtOnce) {
    for (int32_t row = 0; row < num_rows; row += 2 * kTileRowsOfProduct) {
      const bool both = num_rows - row > kTileRowsOfProduct;
      const uint16_t* const own = q + int64_t{row} * width;
      float* const out = scores + row * ld + column;
      (both ? ScoreTwoByTwo : ScoreOneByTwo)(own, panel + int64_t{2} * column, width, out, ld);
      ScaleRows(out, both ? 2 * kTileRowsOfProduct : kTileRowsOfProduct, ld, scale);
    }
  }
  ReleaseTiles();
}

#else

bool HasBFloat16Tiles() {
  return false;
}

void ScorePanelByTiles(const uint16_t*, int32_t, const uint16_t*, int32_t, float, float*, int64_t) {}

#endif

}  // namespace headscope::kernels::internal
