// SPDX-License-Identifier: Apache-2.0
// The products of XAttention's estimate by one warpgroup: 64 query groups against 256 key groups.
#pragma once

#include <cuda_runtime.h>

#include "select/antidiagonal_tiles.cuh"
#include "statistics/wgmma.cuh"

namespace headscope::kernels::selection {

// clang-format off
#define HEADSCOPE_FOUR(m, n) "+f"(d[m][n][0]), "+f"(d[m][n][1]), "+f"(d[m][n][2]), "+f"(d[m][n][3])
#define HEADSCOPE_PART(m)                                                                                      \
  HEADSCOPE_FOUR(m, 0), HEADSCOPE_FOUR(m, 1), HEADSCOPE_FOUR(m, 2), HEADSCOPE_FOUR(m, 3), HEADSCOPE_FOUR(m, 4), \
      HEADSCOPE_FOUR(m, 5), HEADSCOPE_FOUR(m, 6), HEADSCOPE_FOUR(m, 7)
#define HEADSCOPE_WGMMA(type)                                                                               \
  asm volatile(                                                                                             \
      "{\n"                                                                                                 \
      ".reg .pred accumulate;\n"                                                                            \
      "setp.ne.b32 accumulate, %130, 0;\n"                                                                  \
      "wgmma.mma_async.sync.aligned.m64n256k16.f32." type "." type " {"                                     \
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,"    \
      "%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,"      \
      "%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,"      \
      "%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,"      \
      "%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,"   \
      "%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"                                  \
      "}, %128, %129, accumulate, 1, 1, 0, 0;\n"                                                            \
      "}\n"                                                                                                 \
      : HEADSCOPE_PART(0), HEADSCOPE_PART(1), HEADSCOPE_PART(2), HEADSCOPE_PART(3)                          \
      : "l"(a), "l"(b), "r"(accumulate))
// clang-format on

// d = a b^T or, where accumulate is not 0, d += a b^T: 64 rows of a by 256 of b, 16 components. Element [m][n][2 h + c]
// of a thread is row lane / 4 + 8 h of its warp's 16 and row 64 m + 8 n + 2 (lane % 4) + c of b.
template <bool kBf16>
__device__ __forceinline__ void Multiply64x256(WarpScores& d, uint64_t a, uint64_t b, int accumulate) {
  if constexpr (kBf16) {
    HEADSCOPE_WGMMA("bf16");
  } else {
    HEADSCOPE_WGMMA("f16");
  }
}

#undef HEADSCOPE_WGMMA
#undef HEADSCOPE_PART
#undef HEADSCOPE_FOUR

__device__ __forceinline__ void FenceScores(WarpScores& scores) {
  statistics::FenceAccumulators<128>(reinterpret_cast<float(&)[128]>(scores));
}

// Until at most the newest group of products is still under way.
__device__ __forceinline__ void WaitForProductsBeforeLast() {
  asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
}

}  // namespace headscope::kernels::selection
