// SPDX-License-Identifier: Apache-2.0
// Rows of fp32, bf16 or fp16 as fp32, and the packing of panels. Per-target header.
#include <hwy/highway.h>

#if defined(HEADSCOPE_KERNELS_CPU_CONVERT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADSCOPE_KERNELS_CPU_CONVERT_INL_H_
#undef HEADSCOPE_KERNELS_CPU_CONVERT_INL_H_
#else
#define HEADSCOPE_KERNELS_CPU_CONVERT_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/attention_problem.h"
#include "panel.h"
#include "problem_view.h"
#include "vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headscope::kernels::HWY_NAMESPACE {

template <class Half>
HWY_INLINE void WidenRow(const Half* HWY_RESTRICT source, int64_t length, float* HWY_RESTRICT target) {
  const FloatTag df;
  const hn::Rebind<Half, FloatTag> dh;
  const int64_t step = static_cast<int64_t>(hn::Lanes(df));
  int64_t i = 0;
  for (; i + step <= length; i += step) hn::StoreU(hn::PromoteTo(df, hn::LoadU(dh, source + i)), df, target + i);
  if (i < length) {
    HWY_ALIGN Half in[HWY_LANES(float)] = {};
    HWY_ALIGN float out[HWY_LANES(float)];
    std::memcpy(in, source + i, static_cast<size_t>(length - i) * sizeof(Half));
    hn::Store(hn::PromoteTo(df, hn::Load(dh, in)), df, out);
    std::memcpy(target + i, out, static_cast<size_t>(length - i) * sizeof(float));
  }
}

// target[i] = source[i] as fp32, i < length. `source` points at elements of `dtype`; element_offset counts them.
HWY_INLINE void RowAsFloat(const void* source, int64_t element_offset, DType dtype, int64_t length,
                           float* HWY_RESTRICT target) {
  switch (dtype) {
    case DType::kFloat32:
      std::memcpy(target, static_cast<const float*>(source) + element_offset,
                  static_cast<size_t>(length) * sizeof(float));
      return;
    case DType::kBFloat16:
      WidenRow(static_cast<const hwy::bfloat16_t*>(source) + element_offset, length, target);
      return;
    case DType::kFloat16:
      WidenRow(static_cast<const hwy::float16_t*>(source) + element_offset, length, target);
      return;
  }
}

#if HWY_TARGET != HWY_SCALAR
// Four floats from each of as many rows as a vector has blocks of 128 bits, `step` apart.
HWY_INLINE hn::Vec<hn::Full128<float>> LoadBlocks(hn::Full128<float> df, const float* HWY_RESTRICT source, int64_t) {
  return hn::LoadU(df, source);
}
#if HWY_CAP_GE256
HWY_INLINE hn::Vec<hn::Full256<float>> LoadBlocks(hn::Full256<float> df, const float* HWY_RESTRICT source,
                                                  int64_t step) {
  const hn::Full128<float> half;
  return hn::Combine(df, hn::LoadU(half, source + step), hn::LoadU(half, source));
}
#endif
#if HWY_CAP_GE512
HWY_INLINE hn::Vec<hn::Full512<float>> LoadBlocks(hn::Full512<float> df, const float* HWY_RESTRICT source,
                                                  int64_t step) {
  const hn::Full256<float> half;
  return hn::Combine(df, LoadBlocks(half, source + 2 * step, step), LoadBlocks(half, source, step));
}
#endif

// Four columns of as many rows as `df` has lanes, as Transpose: every 128 bits of a vector hold four rows of their own,
// so that whole vectors are stored. Rows lie far apart and stores of a few lanes each would be what takes the time.
template <class D>
HWY_INLINE void TransposeBlock(D df, const float* HWY_RESTRICT source, int64_t source_step, float factor,
                               float* HWY_RESTRICT target, int64_t target_step) {
  const hn::Repartition<double, D> dd;
  const auto scale = hn::Set(df, factor);
  const auto row0 = LoadBlocks(df, source, 4 * source_step);
  const auto row1 = LoadBlocks(df, source + source_step, 4 * source_step);
  const auto row2 = LoadBlocks(df, source + 2 * source_step, 4 * source_step);
  const auto row3 = LoadBlocks(df, source + 3 * source_step, 4 * source_step);
  // Pairs of elements of one column, then pairs of pairs.
  const auto low01 = hn::BitCast(dd, hn::InterleaveLower(df, row0, row1));
  const auto low23 = hn::BitCast(dd, hn::InterleaveLower(df, row2, row3));
  const auto high01 = hn::BitCast(dd, hn::InterleaveUpper(df, row0, row1));
  const auto high23 = hn::BitCast(dd, hn::InterleaveUpper(df, row2, row3));
  hn::StoreU(hn::Mul(scale, hn::BitCast(df, hn::InterleaveLower(dd, low01, low23))), df, target);
  hn::StoreU(hn::Mul(scale, hn::BitCast(df, hn::InterleaveUpper(dd, low01, low23))), df, target + target_step);
  hn::StoreU(hn::Mul(scale, hn::BitCast(df, hn::InterleaveLower(dd, high01, high23))), df, target + 2 * target_step);
  hn::StoreU(hn::Mul(scale, hn::BitCast(df, hn::InterleaveUpper(dd, high01, high23))), df, target + 3 * target_step);
}
#endif

// target[j * target_step + i] = factor * source[i * source_step + j] for i < rows and j < columns. rows: a multiple
// of 4.
HWY_INLINE void Transpose(const float* HWY_RESTRICT source, int64_t source_step, int32_t rows, int32_t columns,
                          float factor, float* HWY_RESTRICT target, int64_t target_step) {
  constexpr int32_t kWide = HWY_LANES(float) > 4 ? HWY_LANES(float) : 4;
  for (int32_t i = 0, step = 4; i < rows; i += step) {
    step = rows - i >= kWide ? kWide : 4;
    int32_t j = 0;
#if HWY_TARGET != HWY_SCALAR
    for (; j + 4 <= columns; j += 4) {
      const float* const block = source + i * source_step + j;
      float* const to = target + j * target_step + i;
      if (step == kWide) {
        TransposeBlock(hn::CappedTag<float, kWide>(), block, source_step, factor, to, target_step);
      } else {
        TransposeBlock(hn::Full128<float>(), block, source_step, factor, to, target_step);
      }
    }
#endif
    for (; j < columns; ++j) {
      for (int32_t row = i; row < i + step; ++row)
        target[j * target_step + row] = factor * source[row * source_step + j];
    }
  }
}

// Packs `rows` (<= kPanelLanes) rows of [rows, depth] into one panel, each element times `factor`; missing lanes are 0.
// staging: kPanelLanes * depth floats of scratch.
HWY_INLINE void PackPanel(const RowsView& source, int32_t first_row, DType dtype, int32_t rows, int32_t depth,
                          float factor, float* HWY_RESTRICT staging, float* HWY_RESTRICT panel) {
  const int64_t offset = source.offset + first_row * source.row_stride;
  if (dtype == DType::kFloat32 && rows == kPanelLanes) {
    Transpose(static_cast<const float*>(source.data) + offset, source.row_stride, rows, depth, factor, panel,
              kPanelLanes);
    return;
  }
  for (int32_t i = 0; i < rows; ++i)
    RowAsFloat(source.data, offset + i * source.row_stride, dtype, depth, staging + int64_t{i} * depth);
  std::fill(staging + int64_t{rows} * depth, staging + int64_t{kPanelLanes} * depth, 0.0f);
  Transpose(staging, depth, kPanelLanes, depth, factor, panel, kPanelLanes);
}

}  // namespace headscope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // HEADSCOPE_KERNELS_CPU_CONVERT_INL_H_
