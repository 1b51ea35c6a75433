// SPDX-License-Identifier: Apache-2.0
// Shared by the CPU kernel tests: seeded random tensors in any dtype, owned problems, and the choice of instruction
// set.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "float_codes.h"
#include "kernels/attention_problem.h"
#include "problem_shape.h"
#include "run_seed.h"
#ifdef HEADSCOPE_HAVE_HWY
#include <hwy/targets.h>
#endif

namespace headscope::kernels::test {

inline constexpr float kSentinel = -12345.5f;  // what guard regions hold

// Fresh data in every run; HEADSCOPE_TEST_SEED repeats one.
inline std::mt19937 SeededRandom() {
  return std::mt19937(testing::FreshSeed());
}

inline std::vector<float> RandomFloats(std::mt19937& random, int64_t count) {
  // Normal as the sum of two of many normal numbers, which one draw picks: a draw with its logarithms for each of a
  // hundred million numbers would take half of the tests' time.
  static const std::vector<float> normal = [] {
    std::mt19937 own(1);
    std::normal_distribution<float> distribution(0.0f, std::sqrt(0.5f));
    std::vector<float> many(0x10000);
    for (float& one : many) one = distribution(own);
    return many;
  }();
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) {
    const auto bits = static_cast<uint32_t>(random());
    value = normal[bits >> 16] + normal[bits & 0xFFFF];
  }
  return values;
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
      stored.halves.push_back(ToCode(value, dtype));
      value = FromCode(stored.halves.back(), dtype);
    }
  }
  stored.values = std::move(values);
  return stored;
}

// A problem with its own random Q, K and V; strides come from the shape and a padding.
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

// `row_padding`: elements between rows.
inline OwnedProblem MakeProblem(std::mt19937& random, const ProblemShape& shape, int64_t row_padding = 0) {
  OwnedProblem owned;
  AttentionProblem& p = owned.problem;
  p = ProblemOf(shape);
  const int64_t row = shape.head_dim + row_padding;
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

#ifdef HEADSCOPE_HAVE_HWY

// Highway targets that this machine can run and the kernels are compiled for.
inline std::vector<int64_t> MachineTargets() {
  std::vector<int64_t> all = {HWY_AVX3, HWY_AVX2, HWY_SSE4, HWY_SCALAR, HWY_NEON};
#ifdef HWY_EMU128
  all.push_back(HWY_EMU128);  // the lowest of newer compilers
#endif
#ifdef HWY_SSE2
  all.push_back(HWY_SSE2);  // and of newer versions of Highway
#endif
  std::erase_if(all, [](int64_t target) { return (hwy::SupportedTargets() & target) == 0; });
  return all;
}
inline std::string TargetName(const ::testing::TestParamInfo<int64_t>& info) {
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

#else

// The plain code (kernels/cpu/plain) is compiled once.
inline std::vector<int64_t> MachineTargets() {
  return {0};
}
inline std::string TargetName(const ::testing::TestParamInfo<int64_t>& /*info*/) {
  return "Plain";
}
inline void UseOnlyTarget(int64_t /*target*/) {}
inline void UseAllTargets() {}

#endif

}  // namespace headscope::kernels::test
