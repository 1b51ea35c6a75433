// SPDX-License-Identifier: Apache-2.0
// One online-softmax step on a block of scores [key][query lane], base 2. Per-target header.
//
// Scores are in base 2 (log2(e) is folded into the queries), so a weight is one exp2. Lanes are query rows: maximum and
// sum run down the keys.
#include <hwy/highway.h>

#if defined(HEADSCOPE_KERNELS_CPU_ONLINE_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADSCOPE_KERNELS_CPU_ONLINE_SOFTMAX_INL_H_
#undef HEADSCOPE_KERNELS_CPU_ONLINE_SOFTMAX_INL_H_
#else
#define HEADSCOPE_KERNELS_CPU_ONLINE_SOFTMAX_INL_H_
#endif

#include <cstdint>
#include <limits>

#include "kernels/sparse_index.h"
#include "micro_kernel-inl.h"
#include "panel.h"
#include "vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headscope::kernels::HWY_NAMESPACE {

// scores = cap * tanh(scores), `keys` rows of the panel, lanes [lane_begin, lane_end).
HWY_INLINE void CapScores(float* scores, int32_t keys, int32_t lane_begin, int32_t lane_end, float cap) {
  const FloatTag df;
  const auto factor = hn::Set(df, cap);
  for (int32_t key = 0; key < keys; ++key) {
    float* row = scores + int64_t{key} * kPanelLanes;
    for (int32_t lane = lane_begin; lane < lane_end; lane += kLanes)
      hn::Store(hn::Mul(factor, Tanh(hn::Load(df, row + lane))), df, row + lane);
  }
}

// scores = -inf where the rule drops (position of the lane, column of the key). Lane 0 stands at first_position, key 0
// is column first_column.
HWY_INLINE void MaskScores(float* scores, int32_t keys, int32_t lane_begin, int32_t lane_end, const ElementRule& rule,
                           int32_t first_position, int32_t first_column) {
  const FloatTag df;
  const IntTag di;
  const auto minus_infinity = hn::Set(df, -std::numeric_limits<float>::infinity());
  for (int32_t key = 0; key < keys; ++key) {
    const int32_t column = first_column + key;
    const bool windowed = rule.kind == MaskKind::kCausalWindow && column >= rule.num_sinks;
    float* row = scores + int64_t{key} * kPanelLanes;
    for (int32_t lane = lane_begin; lane < lane_end; lane += kLanes) {
      // Positions are at most 2^30 (CheckCpuLimits), so their differences fit 32 bits.
      const auto distance = hn::Iota(di, first_position + lane - column);
      auto dropped = hn::Lt(distance, hn::Zero(di));
      if (windowed) dropped = hn::Or(dropped, hn::Gt(distance, hn::Set(di, rule.window - 1)));
      hn::Store(hn::IfThenElse(hn::RebindMask(df, dropped), minus_infinity, hn::Load(df, row + lane)), df, row + lane);
    }
  }
}

// Turns scores into weights 2^(score - maximum) in place and updates maximum, sum and decay of the lanes.
struct SoftmaxStep {
  float* scores;  // [keys][kPanelLanes]
  int32_t keys;
  float* maximum;  // [kPanelLanes], as are sum and decay
  float* sum;
  float* decay;

  template <int kVectors>
  HWY_INLINE void operator()(int32_t lane) const {
    const FloatTag df;
    float* HWY_RESTRICT const first = scores + lane;
    FloatVec shift[kVectors], total[kVectors];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) shift[j] = hn::Load(df, maximum + lane + j * kLanes);
    for (int32_t key = 0; key < keys; ++key) {
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j)
        shift[j] = hn::Max(shift[j], hn::Load(df, first + key * kPanelLanes + j * kLanes));
    }
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      float* const row_maximum = maximum + lane + j * kLanes;
      const auto before = hn::Load(df, row_maximum);
      hn::Store(shift[j], df, row_maximum);
      // A row with nothing but -inf so far: -inf - (-inf) would be NaN. Any finite shift gives weights and decay of 0.
      const auto empty = hn::Eq(shift[j], hn::Set(df, -std::numeric_limits<float>::infinity()));
      shift[j] = hn::IfThenZeroElse(empty, shift[j]);
      hn::Store(Exp2NonPositive(hn::Sub(before, shift[j])), df, decay + lane + j * kLanes);
      total[j] = hn::Zero(df);
    }
    for (int32_t key = 0; key < keys; ++key) {
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) {
        float* const score = first + key * kPanelLanes + j * kLanes;
        const auto weight = Exp2NonPositive(hn::Sub(hn::Load(df, score), shift[j]));
        hn::Store(weight, df, score);
        total[j] = hn::Add(total[j], weight);
      }
    }
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      float* const row_sum = sum + lane + j * kLanes;
      hn::Store(hn::MulAdd(hn::Load(df, row_sum), hn::Load(df, decay + lane + j * kLanes), total[j]), df, row_sum);
    }
  }
};

}  // namespace headscope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // HEADSCOPE_KERNELS_CPU_ONLINE_SOFTMAX_INL_H_
