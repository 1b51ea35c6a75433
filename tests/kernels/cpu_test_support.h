// Shared by the CPU kernel tests: seeded random tensors in any dtype, owned problems, and the choice of instruction
// set.
#pragma once

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/attention_problem.h"

namespace headscope::kernels::test {

inline constexpr float kSentinel = -12345.5f;  // what guard regions hold

// Fresh data in every run; HEADSCOPE_TEST_SEED repeats one.
inline std::mt19937 SeededRandom() {
  const char* fixed = std::getenv("HEADSCOPE_TEST_SEED");
  const uint32_t seed =
      fixed != nullptr ? static_cast<uint32_t>(std::strtoul(fixed, nullptr, 10)) : std::random_device{}();
  std::cout << "HEADSCOPE_TEST_SEED=" << seed << "\n";
  return std::mt19937(seed);
}

inline std::vector<float> RandomFloats(std::mt19937& random, int64_t count) {
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

// Scalar rounding to the nearest, ties to even, written apart from the kernels' vector conversions.
inline uint16_t ToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
inline float FromBFloat16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

inline float FromFloat16(uint16_t bits) {
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  const float sign = (bits & 0x8000u) != 0 ? -1.0f : 1.0f;
  if (exponent == 31)
    return mantissa != 0 ? std::numeric_limits<float>::quiet_NaN() : sign * std::numeric_limits<float>::infinity();
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  return sign * std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
}
// For |value| < 65504, as random test data is; NaN and infinity keep their meaning.
inline uint16_t ToFloat16(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000u : 0u;
  const float magnitude = std::abs(value);
  if (std::isnan(value)) return 0x7e00;
  if (magnitude > 65504.0f) return static_cast<uint16_t>(sign | 0x7c00u);
  const int exponent = std::max(magnitude == 0.0f ? -14 : std::ilogb(magnitude), -14);
  const int mantissa = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));  // 0 .. 2048
  // A subnormal has mantissa < 1024 and exponent field 0; a mantissa of 2048 carries into the exponent by itself.
  return static_cast<uint16_t>(sign | static_cast<uint16_t>(((exponent + 14) << 10) + mantissa));
}

// A tensor as stored and the fp32 values that its elements really have.
struct StoredTensor {
  std::vector<float> values;
  std::vector<uint16_t> halves;  // empty for fp32
  const void* data() const { return halves.empty() ? static_cast<const void*>(values.data()) : halves.data(); }
};

inline StoredTensor Store(std::vector<float> values, DType dtype) {
  StoredTensor stored;
  if (dtype != DType::kFloat32) {
    for (float& value : values) {
      stored.halves.push_back(dtype == DType::kBFloat16 ? ToBFloat16(value) : ToFloat16(value));
      value = dtype == DType::kBFloat16 ? FromBFloat16(stored.halves.back()) : FromFloat16(stored.halves.back());
    }
  }
  stored.values = std::move(values);
  return stored;
}

struct ProblemShape {
  int32_t batch = 1;
  int32_t num_qo_heads = 1;
  int32_t num_kv_heads = 1;
  int32_t head_dim = 64;
  int32_t seq_q = 0;
  int32_t seq_k = 0;
  int32_t first_position = 0;
  DType dtype = DType::kFloat32;
  float scale = 0;
  float soft_cap = 0;
  int64_t row_padding = 0;  // elements between rows
};

// A problem with its own random Q, K and V; strides come from the shape and the padding.
struct OwnedProblem {
  AttentionProblem problem;
  StoredTensor q, k, v;

  const float* Q(int64_t b, int64_t h, int64_t row) const { return At(q, problem.q, b, h, row); }
  const float* K(int64_t b, int64_t h, int64_t row) const { return At(k, problem.k, b, h, row); }
  const float* V(int64_t b, int64_t h, int64_t row) const { return At(v, problem.v, b, h, row); }
  // After a change of q, k or v (their vectors may have moved).
  void Rebind() {
    problem.q.data = q.data();
    problem.k.data = k.data();
    problem.v.data = v.data();
  }

 private:
  static const float* At(const StoredTensor& tensor, const StridedTensor<const void>& strides, int64_t b, int64_t h,
                         int64_t row) {
    return &tensor.values[static_cast<size_t>(b * strides.batch_stride + h * strides.head_stride +
                                              row * strides.row_stride)];
  }
};

inline OwnedProblem MakeProblem(std::mt19937& random, const ProblemShape& shape) {
  OwnedProblem owned;
  AttentionProblem& p = owned.problem;
  p.batch = shape.batch;
  p.num_qo_heads = shape.num_qo_heads;
  p.num_kv_heads = shape.num_kv_heads;
  p.head_dim = shape.head_dim;
  p.seq_q = shape.seq_q;
  p.seq_k = shape.seq_k;
  p.first_position = shape.first_position;
  p.dtype = shape.dtype;
  p.scale = shape.scale;
  p.soft_cap = shape.soft_cap;
  const int64_t row = shape.head_dim + shape.row_padding;
  const auto fill = [&](StridedTensor<const void>& strides, int64_t heads, int64_t rows) {
    strides.row_stride = row;
    strides.head_stride = row * rows;
    strides.batch_stride = row * rows * heads;
    return Store(RandomFloats(random, shape.batch * strides.batch_stride), shape.dtype);
  };
  owned.q = fill(p.q, shape.num_qo_heads, shape.seq_q);
  owned.k = fill(p.k, shape.num_kv_heads, shape.seq_k);
  owned.v = fill(p.v, shape.num_kv_heads, shape.seq_k);
  owned.Rebind();
  return owned;
}

// Highway targets that this machine can run and the kernels are compiled for.
inline std::vector<int64_t> MachineTargets() {
  std::vector<int64_t> targets;
  for (const int64_t target :
       {int64_t{HWY_AVX3}, int64_t{HWY_AVX2}, int64_t{HWY_SSE4}, int64_t{HWY_SCALAR}, int64_t{HWY_NEON}}) {
    if ((hwy::SupportedTargets() & target) != 0) targets.push_back(target);
  }
  return targets;
}
inline std::string TargetName(const testing::TestParamInfo<int64_t>& info) {
  return hwy::TargetName(info.param);
}

inline void UseOnlyTarget(int64_t target) {
  hwy::SetSupportedTargetsForTest(target);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}
inline void UseAllTargets() {
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace headscope::kernels::test
