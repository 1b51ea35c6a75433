// The register-blocked matrix product under scores and attention. Per-target header.
//
// C[i][lane] = sum_k A[i][k] * B[k][lane]: A is read one scalar at a time and broadcast, with any two strides, so that
// it needs no packing; B is a *panel*, kPanelLanes floats per k, contiguous and aligned. The accumulators (kMicroRows x
// kMicroVectors vectors) stay in registers over all of k.
//   scores   (analysis): A = query rows, B = panel of 32 keys  -> C row-major in columns
//   Q K^T (attention): A = key rows,   B = panel of 32 query rows -> C[key][query lane]
//   P V   (attention): A = V transposed by strides, B = the weights [key][query lane] -> O[dim][query lane]
// With query rows in the lanes, softmax has no sum or maximum across lanes, and K and V are used as they lie in memory.
#include <hwy/highway.h>

#if defined(HEADSCOPE_KERNELS_CPU_MICRO_KERNEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADSCOPE_KERNELS_CPU_MICRO_KERNEL_INL_H_
#undef HEADSCOPE_KERNELS_CPU_MICRO_KERNEL_INL_H_
#else
#define HEADSCOPE_KERNELS_CPU_MICRO_KERNEL_INL_H_
#endif

#include <cstdint>

#include "panel.h"
#include "vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headscope::kernels::HWY_NAMESPACE {

constexpr int kLanes = HWY_LANES(float);
// 12 x 2 accumulators, 2 panel vectors and a broadcast fill AVX-512's 32 registers; AVX2 and SSE2 have 16, NEON 32
// small ones.
constexpr int kMicroRows = kLanes == 16 ? 12 : 6;
constexpr int kMicroVectors = 2;
constexpr int kMicroLanes = kMicroVectors * kLanes;
static_assert(kPanelLanes % kMicroLanes == 0);

// One operand of the product that is read element by element.
struct ScalarOperand {
  const float* data;
  int64_t row_step;    // from A[i][k] to A[i + 1][k]
  int64_t depth_step;  // from A[i][k] to A[i][k + 1]
};

// C = factor * (A B) for kRows rows and kMicroLanes lanes; C's rows are c_step apart.
template <int kRows>
HWY_NOINLINE void MultiplyTile(ScalarOperand a, const float* HWY_RESTRICT b, int32_t depth, float factor,
                               float* HWY_RESTRICT c, int64_t c_step) {
  const FloatTag df;
  FloatVec sum[kRows][kMicroVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < kMicroVectors; ++j) sum[i][j] = hn::Zero(df);
  }
  const float* HWY_RESTRICT a_column = a.data;
  for (int32_t k = 0; k < depth; ++k, a_column += a.depth_step, b += kPanelLanes) {
    FloatVec lanes[kMicroVectors];
#pragma GCC unroll 16
    for (int j = 0; j < kMicroVectors; ++j) lanes[j] = hn::Load(df, b + j * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const auto scalar = hn::Set(df, a_column[i * a.row_step]);
#pragma GCC unroll 16
      for (int j = 0; j < kMicroVectors; ++j) sum[i][j] = hn::MulAdd(scalar, lanes[j], sum[i][j]);
    }
  }
  const auto scale = hn::Set(df, factor);
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < kMicroVectors; ++j) hn::StoreU(hn::Mul(scale, sum[i][j]), df, c + i * c_step + j * kLanes);
  }
}

// The same for any number of rows up to kMicroRows.
template <int kRows = kMicroRows>
HWY_INLINE void MultiplyTileOf(int rows, ScalarOperand a, const float* b, int32_t depth, float factor, float* c,
                               int64_t c_step) {
  if constexpr (kRows > 0) {
    if (rows == kRows) {
      MultiplyTile<kRows>(a, b, depth, factor, c, c_step);
    } else {
      MultiplyTileOf<kRows - 1>(rows, a, b, depth, factor, c, c_step);
    }
  }
}

}  // namespace headscope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // HEADSCOPE_KERNELS_CPU_MICRO_KERNEL_INL_H_
