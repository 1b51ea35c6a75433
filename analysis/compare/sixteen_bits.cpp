// SPDX-License-Identifier: Apache-2.0
#include "compare/sixteen_bits.h"

#include <algorithm>

#include "base/element_type.h"
#include "data/trace_reader.h"
#include "kernels/narrow_floats.h"

namespace headscope::analysis {
namespace {

using kernels::DType;

bool NarrowExactly(float value, DType dtype, uint16_t* narrow) {
  const bool bf16 = dtype == DType::kBFloat16;
  *narrow = bf16 ? kernels::RoundToBFloat16(value) : kernels::RoundToFloat16(value);
  return (bf16 ? kernels::FloatFromBFloat16(*narrow) : kernels::FloatFromFloat16(*narrow)) == value;
}

std::vector<uint16_t> RoundToBFloat16(std::span<const float> values) {
  std::vector<uint16_t> rounded(values.size());
  std::ranges::transform(values, rounded.begin(), &kernels::RoundToBFloat16);
  return rounded;
}

}  // namespace

bool NarrowExactly(std::span<const float> values, DType dtype, std::vector<uint16_t>* narrow) {
  narrow->resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (!NarrowExactly(values[i], dtype, &(*narrow)[i])) return false;
  }
  return true;
}

kernels::AttentionProblem SixteenBits::Of(kernels::AttentionProblem problem) const {
  problem.dtype = dtype;
  problem.q.data = q.data();
  problem.k.data = k.data();
  problem.v.data = v.data();
  return problem;
}

SixteenBits ToSixteenBits(std::span<const float> q, std::span<const float> k, std::span<const float> v) {
  SixteenBits narrow;
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    narrow.dtype = dtype;
    narrow.exact =
        NarrowExactly(q, dtype, &narrow.q) && NarrowExactly(k, dtype, &narrow.k) && NarrowExactly(v, dtype, &narrow.v);
    if (narrow.exact) return narrow;
  }
  narrow.dtype = DType::kBFloat16;
  narrow.q = RoundToBFloat16(q);
  narrow.k = RoundToBFloat16(k);
  narrow.v = RoundToBFloat16(v);
  return narrow;
}

std::vector<float> Widen(const std::vector<uint16_t>& values, DType dtype) {
  std::vector<float> wide(values.size());
  data::DecodeToFloat(values.data(), ElementTypeOf(dtype), static_cast<int64_t>(values.size()), wide.data());
  return wide;
}

}  // namespace headscope::analysis
