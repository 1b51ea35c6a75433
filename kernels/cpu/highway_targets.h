// SPDX-License-Identifier: Apache-2.0
// Which instruction sets the CPU kernels are compiled for. Included before any Highway header.
//
// Each target costs compile time and binary size, so only those that change the generated code much are kept: the
// baseline, SSE4, AVX2 with FMA and AVX-512 on x86, NEON on Arm. Vectors of unknown size (SVE, RVV) are left out: the
// micro-kernel keeps arrays of vectors in registers. Under sanitizers, which make minutes of each target, SSE4 is left
// out too: it reads and writes where the baseline does.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HEADSCOPE_NOT_INSTRUMENTED HWY_SSE4
#else
#define HEADSCOPE_NOT_INSTRUMENTED 0
#endif
#define HWY_DISABLED_TARGETS                                                                        \
  (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_WASM | \
   HEADSCOPE_NOT_INSTRUMENTED)
