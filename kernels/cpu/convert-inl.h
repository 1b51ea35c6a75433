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

// Packs `rows` (<= kPanelLanes) rows of [rows, depth] into one panel, each element times `factor`; missing lanes are 0.
// staging: kPanelLanes * depth floats of scratch.
HWY_INLINE void PackPanel(const void* source, int64_t element_offset, int64_t row_stride, DType dtype, int32_t rows,
                          int32_t depth, float factor, float* HWY_RESTRICT staging, float* HWY_RESTRICT panel) {
  for (int32_t i = 0; i < rows; ++i)
    RowAsFloat(source, element_offset + i * row_stride, dtype, depth, staging + int64_t{i} * depth);
  std::fill(staging + int64_t{rows} * depth, staging + int64_t{kPanelLanes} * depth, 0.0f);
  for (int32_t k = 0; k < depth; ++k) {
    for (int32_t i = 0; i < kPanelLanes; ++i)
      panel[int64_t{k} * kPanelLanes + i] = factor * staging[int64_t{i} * depth + k];
  }
}

}  // namespace headscope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // HEADSCOPE_KERNELS_CPU_CONVERT_INL_H_
