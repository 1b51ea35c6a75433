// SPDX-License-Identifier: Apache-2.0
// The register-blocked matrix product under scores and attention. Per-target header.
//
// C[i][lane] = sum_k A[i][k] * B[k][lane]: A is read one scalar at a time and broadcast, with any two strides, so that
// it needs no packing; B is a *panel*, kPanelLanes floats per k, contiguous and aligned. The accumulators (kMicroRows x
// kMicroVectors vectors) stay in registers over all of k.
//   scores (analysis)  A = query rows, B = panel of keys                       -> C row-major in columns
//   Q K^T (attention)  A = key rows,   B = panel of query rows                 -> C[key][query lane]
//   P V   (attention)  A = V read down its columns, B = weights [key][query lane] -> C[dim][query lane]
// With query rows in the lanes, softmax needs no sum or maximum across lanes, and K and V are used as they lie in
// memory.
#include <hwy/highway.h>

#if defined(HEADSCOPE_KERNELS_CPU_MICRO_KERNEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADSCOPE_KERNELS_CPU_MICRO_KERNEL_INL_H_
#undef HEADSCOPE_KERNELS_CPU_MICRO_KERNEL_INL_H_
#else
#define HEADSCOPE_KERNELS_CPU_MICRO_KERNEL_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "panel.h"
#include "vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headscope::kernels::HWY_NAMESPACE {

constexpr int32_t kLanes = HWY_LANES(float);
// 6 x 4 accumulators, 4 panel vectors and a broadcast fit the 32 registers of AVX-512 and NEON; the others have 16.
constexpr int32_t kMicroRows = 6;
constexpr int32_t kMicroVectors = (kLanes == 16 || HWY_TARGET == HWY_NEON) ? 4 : 2;
static_assert(kPanelLanes % (kMicroVectors * kLanes) == 0);

// The operand that is read element by element.
struct ScalarOperand {
  const float* data;
  int64_t row_step;    // from A[i][k] to A[i + 1][k]
  int64_t depth_step;  // from A[i][k] to A[i][k + 1]
};

// What becomes of a finished sum: C = factor * sum.
struct Overwrite {
  float factor;
  HWY_INLINE FloatVec operator()(FloatVec sum, const float*, int32_t) const {
    return hn::Mul(hn::Set(FloatTag(), factor), sum);
  }
};
// C = decay[lane] * C + sum: the online softmax's rescaling. Summing a block apart from C keeps long sums accurate.
struct DecayAndAdd {
  const float* decay;  // [kPanelLanes], aligned
  HWY_INLINE FloatVec operator()(FloatVec sum, const float* c, int32_t lane) const {
    return hn::MulAdd(hn::LoadU(FloatTag(), c), hn::Load(FloatTag(), decay + lane), sum);
  }
};

// kRows rows and kVectors vectors of C from `lane` on. b: the panel; c: C[0][lane]; C's rows are c_step apart.
template <int kRows, int kVectors, class Finish>
HWY_NOINLINE void MultiplyTile(ScalarOperand a, const float* HWY_RESTRICT b, int32_t lane, int32_t depth, Finish finish,
                               float* HWY_RESTRICT c, int64_t c_step) {
  const FloatTag df;
  FloatVec sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) sum[i][j] = hn::Zero(df);
  }
  const float* HWY_RESTRICT scalars = a.data;
  const float* HWY_RESTRICT vectors = b + lane;
  for (int32_t k = 0; k < depth; ++k, scalars += a.depth_step, vectors += kPanelLanes) {
    FloatVec row[kVectors];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) row[j] = hn::Load(df, vectors + j * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const auto scalar = hn::Set(df, scalars[i * a.row_step]);
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) sum[i][j] = hn::MulAdd(scalar, row[j], sum[i][j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      float* target = c + i * c_step + j * kLanes;
      hn::StoreU(finish(sum[i][j], target, lane + j * kLanes), df, target);
    }
  }
}

// The same for a number of rows known only at run time, at most kRows.
template <int kRows, int kVectors, class Finish>
HWY_INLINE void MultiplyRows(int32_t rows, ScalarOperand a, const float* b, int32_t lane, int32_t depth, Finish finish,
                             float* c, int64_t c_step) {
  if constexpr (kRows > 1) {
    if (rows != kRows) return MultiplyRows<kRows - 1, kVectors>(rows, a, b, lane, depth, finish, c, c_step);
  }
  MultiplyTile<kRows, kVectors>(a, b, lane, depth, finish, c, c_step);
}

// Calls body(first lane, number of vectors as a compile-time constant) over the lanes [begin, end) of a panel, in the
// widest steps. begin is a multiple of kLanes; end is rounded up to one.
template <int kVectors = kMicroVectors, class Body>
HWY_INLINE void ForLanes(int32_t begin, int32_t end, const Body& body) {
  for (; begin + (kVectors - 1) * kLanes < end; begin += kVectors * kLanes) body.template operator()<kVectors>(begin);
  if constexpr (kVectors > 1) ForLanes<kVectors / 2>(begin, end, body);
}

// C[i][lane] for all i < rows and the lanes [lane_begin, lane_end). c: C[0][lane_begin].
template <class Finish>
struct MultiplyPanelBody {
  ScalarOperand a;
  int32_t rows;
  const float* b;
  int32_t lane_begin;
  int32_t depth;
  Finish finish;
  float* c;
  int64_t c_step;

  template <int kVectors>
  HWY_INLINE void operator()(int32_t lane) const {
    for (int32_t i = 0; i < rows; i += kMicroRows) {
      const ScalarOperand rest{a.data + i * a.row_step, a.row_step, a.depth_step};
      MultiplyRows<kMicroRows, kVectors>(std::min(kMicroRows, rows - i), rest, b, lane, depth, finish,
                                         c + i * c_step + (lane - lane_begin), c_step);
    }
  }
};
template <class Finish>
HWY_INLINE void MultiplyPanel(ScalarOperand a, int32_t rows, const float* b, int32_t lane_begin, int32_t lane_end,
                              int32_t depth, Finish finish, float* c, int64_t c_step) {
  ForLanes(lane_begin, lane_end, MultiplyPanelBody<Finish>{a, rows, b, lane_begin, depth, finish, c, c_step});
}

}  // namespace headscope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // HEADSCOPE_KERNELS_CPU_MICRO_KERNEL_INL_H_
