// SPDX-License-Identifier: Apache-2.0
// The warpgroup product that row LSE takes, without CuTe, whose headers and templates are two thirds of a unit's time.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace headscope::kernels::statistics {

// Shared memory as TMA's 128-byte swizzle leaves it: slabs of 64 components, in a slab one row per 128 bytes. The
// pattern counts from multiples of kSwizzleBytes, eight rows.
constexpr int kSlabComponents = 64;
constexpr int kSlabRowBytes = 128;
constexpr int kSwizzleBytes = 1024;

// wgmma's description of a K-major operand in that form (PTX ISA, "Matrix Descriptor Format"): address and distance of
// groups of eight rows in units of 16 bytes, and the swizzle's kind.
__device__ __forceinline__ uint64_t DescribeOperand(uint32_t shared_address) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  constexpr uint64_t kGroupDistance = uint64_t{kSwizzleBytes / 16} << 32;
  return kSwizzle128 | kGroupDistance | 1u << 16 | (shared_address >> 4 & 0x3fffu);
}
// What is added to the description for components [16 step, 16 step + 16); kRows: of a slab.
template <int kRows>
constexpr int StepOffset(int step) {
  constexpr int kStepsPerSlab = kSlabComponents / 16;
  return (step / kStepsPerSlab * kRows * kSlabRowBytes + step % kStepsPerSlab * 32) / 16;
}

__device__ __forceinline__ void BeginProducts() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void CommitProducts() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void WaitForProducts() {
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}
// Keeps the compiler from moving accesses to accumulators over what starts or ends products.
template <int kCount>
__device__ __forceinline__ void FenceAccumulators(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// clang-format off
#define HEADSCOPE_ACCUMULATORS8(i)                                                                            \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
#define HEADSCOPE_WGMMA(type)                                                                              \
  asm volatile(                                                                                            \
      "{\n"                                                                                                \
      ".reg .pred accumulate;\n"                                                                           \
      ".reg .b64 a, b;\n"                                                                                  \
      "add.s64 a, %64, %67;\n"                                                                             \
      "add.s64 b, %65, %68;\n"                                                                             \
      "setp.ne.b32 accumulate, %66, 0;\n"                                                                  \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {"                                    \
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26," \
      "%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,"   \
      "%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, a, b, accumulate, 1, 1, 0, 0;\n"              \
      "}\n"                                                                                                \
      : HEADSCOPE_ACCUMULATORS8(0), HEADSCOPE_ACCUMULATORS8(8), HEADSCOPE_ACCUMULATORS8(16),               \
        HEADSCOPE_ACCUMULATORS8(24), HEADSCOPE_ACCUMULATORS8(32), HEADSCOPE_ACCUMULATORS8(40),             \
        HEADSCOPE_ACCUMULATORS8(48), HEADSCOPE_ACCUMULATORS8(56)                                           \
      : "l"(a), "l"(b), "n"(kStep > 0), "n"(StepOffset<64>(kStep)), "n"(StepOffset<128>(kStep)))
// clang-format on

// d = a b^T (step 0) or d += a b^T, 64 rows of a by 128 of b, the 16 components of the step. a, b: descriptions of the
// whole operands. Element 4 g + 2 r + c of a thread is row lane / 4 + 8 r of its warp's 16 and row 8 g + 2 (lane % 4) +
// c of b.
//
// The step's offsets are added in the instruction's own block: the compiler would keep one operand's sums in registers
// over the whole loop, and then move them for every product.
template <bool kBFloat16, int kStep>
__device__ __forceinline__ void Multiply64x128(float (&d)[64], uint64_t a, uint64_t b) {
  if constexpr (kBFloat16) {
    HEADSCOPE_WGMMA("bf16");
  } else {
    HEADSCOPE_WGMMA("f16");
  }
}

#undef HEADSCOPE_WGMMA
#undef HEADSCOPE_ACCUMULATORS8

}  // namespace headscope::kernels::statistics
