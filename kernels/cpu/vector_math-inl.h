// SPDX-License-Identifier: Apache-2.0
// exp, exp2 and tanh on vectors of float. Per-target header (see Highway's quick reference on foreach_target).
//
// Method: range reduction to |f| <= 1/2 (base 2) or |r| <= ln(2)/2 (base e), a minimax polynomial, and an exact
// multiplication by 2^n. The coefficients were fitted by Lawson's iteration in float64 and rounded to float; the
// polynomials' own relative errors are 3e-9 (Exp), 9e-8 (Exp2NonPositive) and 3e-9 (Tanh below 0.6), to which rounding
// adds about 1e-7. Exp is swept over its whole range in tests/kernels/cpu_scores_test.cpp (bound 4e-7,
// measured 8.3e-8); the other two are tested through scores and attention against float64.
#include <hwy/highway.h>

#if defined(HEADSCOPE_KERNELS_CPU_VECTOR_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADSCOPE_KERNELS_CPU_VECTOR_MATH_INL_H_
#undef HEADSCOPE_KERNELS_CPU_VECTOR_MATH_INL_H_
#else
#define HEADSCOPE_KERNELS_CPU_VECTOR_MATH_INL_H_
#endif

#include <limits>

HWY_BEFORE_NAMESPACE();
namespace headscope::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using IntTag = hn::RebindToSigned<FloatTag>;
using FloatVec = hn::Vec<FloatTag>;

// Adding this to a float of magnitude below 2^21 rounds it to an integer n and leaves n + 127 in the low mantissa bits:
// one addition instead of a rounding and a conversion, and a shift by 23 of the sum's bits is 2^n.
constexpr float kRoundingShift = 12582912.0f + 127.0f;  // 1.5 * 2^23, and the exponent's bias

// e^x. Results below 2.5e-38 (x < -86.6) are flushed to 0, so that 2^n never leaves the normal range; x > 88.37 gives
// infinity; NaN stays NaN.
HWY_INLINE FloatVec Exp(FloatVec x) {
  const FloatTag df;
  const IntTag di;
  const auto rounding = hn::Set(df, kRoundingShift);
  const auto shifted = hn::MulAdd(x, hn::Set(df, 1.44269504f), rounding);
  const auto n = hn::Sub(shifted, rounding);
  // ln(2) in two parts: the high one has 9 significant bits, so n * high is exact.
  auto r = hn::NegMulAdd(n, hn::Set(df, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(df, -2.12194440e-4f), r);
  auto p = hn::MulAdd(r, hn::Set(df, 0.00138146127f), hn::Set(df, 0.00836871006f));
  p = hn::MulAdd(p, r, hn::Set(df, 0.041668389f));
  p = hn::MulAdd(p, r, hn::Set(df, 0.166665211f));
  p = hn::MulAdd(p, r, hn::Set(df, 0.49999994f));
  p = hn::MulAdd(hn::Mul(p, r), r, r);
  p = hn::Add(p, hn::Set(df, 1.0f));
  const auto power = hn::BitCast(df, hn::ShiftLeft<23>(hn::BitCast(di, shifted)));
  // Beyond the bounds 2^n is meaningless, and so is the product; both selections replace it.
  const auto result = hn::IfThenZeroElse(hn::Lt(x, hn::Set(df, -86.6f)), hn::Mul(p, power));
  return hn::IfThenElse(hn::Gt(x, hn::Set(df, 88.37f)), hn::Set(df, std::numeric_limits<float>::infinity()), result);
}

// 2^x for x <= 0: the softmax weight. Results below 2^-126 are 0, so -infinity gives 0; NaN stays NaN, so that a NaN
// score shows in the output.
HWY_INLINE FloatVec Exp2NonPositive(FloatVec x) {
  const FloatTag df;
  const IntTag di;
  const auto rounding = hn::Set(df, kRoundingShift);
  const auto shifted = hn::Add(x, rounding);
  const auto f = hn::Sub(x, hn::Sub(shifted, rounding));
  auto p = hn::MulAdd(f, hn::Set(df, 0.00132647273f), hn::Set(df, 0.00967151299f));
  p = hn::MulAdd(p, f, hn::Set(df, 0.0555073358f));
  p = hn::MulAdd(p, f, hn::Set(df, 0.240222424f));
  p = hn::MulAdd(p, f, hn::Set(df, 0.693147004f));
  p = hn::MulAdd(p, f, hn::Set(df, 1.0f));
  const auto power = hn::BitCast(df, hn::ShiftLeft<23>(hn::BitCast(di, shifted)));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(df, -126.0f)), hn::Mul(p, power));
}

// tanh(x), relative error kept for small x, where 1 - 2 / (e^2x + 1) would cancel; NaN stays NaN. For large x the
// quotient is 0: its infinite divisor needs no bound on the argument, and a bound by Min would take a NaN for it.
HWY_INLINE FloatVec Tanh(FloatVec x) {
  const FloatTag df;
  const auto magnitude = hn::Abs(x);
  const auto one = hn::Set(df, 1.0f);
  const auto large = hn::Sub(one, hn::Div(hn::Set(df, 2.0f), hn::Add(Exp(hn::Add(magnitude, magnitude)), one)));
  const auto square = hn::Mul(x, x);
  auto p = hn::MulAdd(square, hn::Set(df, -0.00589515781f), hn::Set(df, 0.0207959712f));
  p = hn::MulAdd(p, square, hn::Set(df, -0.0537838303f));
  p = hn::MulAdd(p, square, hn::Set(df, 0.133319244f));
  p = hn::MulAdd(p, square, hn::Set(df, -0.333332986f));
  const auto small = hn::MulAdd(hn::Mul(p, square), magnitude, magnitude);
  return hn::CopySignToAbs(hn::IfThenElse(hn::Lt(magnitude, hn::Set(df, 0.6f)), small, large), x);
}

}  // namespace headscope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // HEADSCOPE_KERNELS_CPU_VECTOR_MATH_INL_H_
