// SPDX-License-Identifier: Apache-2.0
// exp2, tanh and the larger of two in a few instructions each, for kernels that take one of them per score.
#pragma once

namespace headscope::kernels::cuda {

// 2^x to 2 ulp; 0 for -inf and below 2^-126.
__device__ __forceinline__ float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// The larger one; NaN where either is, which fmaxf passes over.
__device__ __forceinline__ float MaxOrNan(float a, float b) {
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
  return larger;
}

// tanh(x) to 1e-6 of itself, saturating; NaN stays NaN. The hardware's own tanh is off by 5e-4 of its range, and
// tanhf takes seven times the code.
//
// 1 - 2 / (e^2x + 1) errs by 2e-7 however small x is. A soft cap multiplies by the cap, so that scores far below a high
// one would err by 2e-7 of the cap: below 0.3 an odd polynomial takes over, fitted for relative error (1.3e-8) by
// Lawson's iteration in float64.
__device__ __forceinline__ float Tanh(float x) {
  constexpr float kTwoLog2E = 2.885390081777926815f;
  const float large = 1.0f - __fdividef(2.0f, 1.0f + Exp2(kTwoLog2E * x));
  const float square = x * x;
  const float p = fmaf(fmaf(square, -0.0503660813f, 0.133148298f), square, -0.333330601f);
  const float small = fmaf(p * square, x, x);
  return fabsf(x) < 0.3f ? small : large;
}

}  // namespace headscope::kernels::cuda
