// SPDX-License-Identifier: Apache-2.0
#include "internal/sparq_scores.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "aligned_floats.h"
#include "highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sparq_scores.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "four_keys-inl.h"
#include "vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headscope::kernels::HWY_NAMESPACE {

using internal::EstimateKeys;
using internal::EstimateQueries;

// Four components at a time pass over the tokens: four streams, and the scores, which stay in L1, are read and written
// once for all four.
template <class T>
void ScoreByComponent(const EstimateKeys& keys, const EstimateQueries& queries, int64_t first, int64_t count,
                      float* HWY_RESTRICT scores, int64_t score_stride) {
  const FloatTag df;
  constexpr int32_t kStreams = 4;
  const T* const base = static_cast<const T*>(keys.data) + first;
  // A component that is not there is the last one again, times 0.
  const auto stream = [&](int32_t i) {
    return base + keys.components[std::min(i, keys.num_components - 1)] * keys.stride;
  };
  for (int32_t c = 0; c < keys.num_components; c += kStreams) {
    const T* const streams[kStreams] = {stream(c), stream(c + 1), stream(c + 2), stream(c + 3)};
    const T* const coming[kStreams] = {stream(c + 4), stream(c + 5), stream(c + 6), stream(c + 7)};
    const auto factor = [&](int32_t row, int32_t j) {
      return c + j < keys.num_components ? queries.data[row * queries.row_floats + c + j] : 0.0f;
    };
    int64_t i = 0;
    for (; i + kSliceLanes <= count; i += kSliceLanes) {
      FloatVec key[kStreams];
#pragma GCC unroll 4
      for (int32_t j = 0; j < kStreams; ++j) {
        key[j] = LoadWide(streams[j] + i);
        __builtin_prefetch(coming[j] + i, 0, 2);
      }
      for (int32_t row = 0; row < queries.num_rows; ++row) {
        float* const score = scores + row * score_stride + i;
        auto sum = c == 0 ? hn::Zero(df) : hn::LoadU(df, score);
#pragma GCC unroll 4
        for (int32_t j = 0; j < kStreams; ++j) sum = hn::MulAdd(hn::Set(df, factor(row, j)), key[j], sum);
        hn::StoreU(sum, df, score);
      }
    }
    for (; i < count; ++i) {
      for (int32_t row = 0; row < queries.num_rows; ++row) {
        float* const score = scores + row * score_stride + i;
        float sum = c == 0 ? 0.0f : *score;
        for (int32_t j = 0; j < kStreams; ++j) sum = std::fma(factor(row, j), ToFloat(streams[j][i]), sum);
        *score = sum;
      }
    }
  }
}

// Whole rows, four keys at a time, as in a dense step.
template <class T>
void ScoreByRow(const EstimateKeys& keys, const EstimateQueries& queries, int64_t first, int64_t count, float* scores,
                int64_t score_stride) {
  const T* const base = static_cast<const T*>(keys.data);
  const float* q = queries.data;
  AlignedFloats split;
  if constexpr (kSplitsPairs<T>) {
    split = AllocateFloats(int64_t{queries.num_rows} * queries.row_floats);
    std::copy_n(q, int64_t{queries.num_rows} * queries.row_floats, split.get());
    for (int32_t row = 0; row < queries.num_rows; ++row)
      SplitPairs<T>(keys.head_dim, split.get() + row * queries.row_floats);
    q = split.get();
  }
  for (int64_t i = 0; i < count; i += 4) {
    const T* rows[4];
    for (int64_t j = 0; j < 4; ++j) rows[j] = base + (first + std::min(i + j, count - 1)) * keys.stride;
    ScoreFourKeys(rows, q, queries.row_floats, queries.num_rows, keys.head_dim, scores + i, score_stride);
  }
}

template <class T>
void EstimateOf(const EstimateKeys& keys, const EstimateQueries& queries, int64_t first, int64_t count, float* scores,
                int64_t score_stride) {
  if (keys.by_component) return ScoreByComponent<T>(keys, queries, first, count, scores, score_stride);
  ScoreByRow<T>(keys, queries, first, count, scores, score_stride);
}

void EstimateScoresImpl(const EstimateKeys& keys, const EstimateQueries& queries, float soft_cap, int64_t first,
                        int64_t count, float* scores, int64_t score_stride) {
  switch (keys.dtype) {
    case DType::kFloat32:
      EstimateOf<float>(keys, queries, first, count, scores, score_stride);
      break;
    case DType::kBFloat16:
      EstimateOf<hwy::bfloat16_t>(keys, queries, first, count, scores, score_stride);
      break;
    case DType::kFloat16:
      EstimateOf<hwy::float16_t>(keys, queries, first, count, scores, score_stride);
      break;
  }
  if (soft_cap <= 0) return;
  const FloatTag df;
  for (int32_t row = 0; row < queries.num_rows; ++row) {
    float* const score = scores + row * score_stride;
    int64_t i = 0;
    for (; i + kSliceLanes <= count; i += kSliceLanes) {
      const auto x = hn::Mul(hn::LoadU(df, score + i), hn::Set(df, 1.0f / soft_cap));
      hn::StoreU(hn::Mul(hn::Set(df, soft_cap), Tanh(x)), df, score + i);
    }
    for (; i < count; ++i) score[i] = soft_cap * std::tanh(score[i] / soft_cap);
  }
}

void WeightedSumImpl(const float* HWY_RESTRICT rows, int64_t stride, const float* factors, int32_t num_rows,
                     int64_t count, float* HWY_RESTRICT sums) {
  const FloatTag df;
  int64_t i = 0;
  for (; i + kSliceLanes <= count; i += kSliceLanes) {
    auto sum = hn::Zero(df);
    for (int32_t row = 0; row < num_rows; ++row)
      sum = hn::MulAdd(hn::Set(df, factors[row]), hn::LoadU(df, rows + row * stride + i), sum);
    hn::StoreU(sum, df, sums + i);
  }
  for (; i < count; ++i) {
    float sum = 0;
    for (int32_t row = 0; row < num_rows; ++row) sum = std::fma(factors[row], rows[row * stride + i], sum);
    sums[i] = sum;
  }
}

// maxima[g]: the largest of a group of `vectors` scores, -inf where none is a number. A group is one lane of so many
// vectors in a row; what is left at the end is in no group. Returns how many there are.
int64_t GroupMaxima(const float* scores, int64_t count, int64_t vectors, float* maxima) {
  const FloatTag df;
  int64_t groups = 0;
  for (int64_t i = 0; i + vectors * kSliceLanes <= count; groups += kSliceLanes) {
    auto largest = hn::Set(df, -std::numeric_limits<float>::infinity());
    for (int64_t v = 0; v < vectors; ++v, i += kSliceLanes) {
      const auto score = hn::LoadU(df, scores + i);
      largest = hn::IfThenElse(hn::Gt(score, largest), score, largest);  // a NaN is never larger
    }
    hn::StoreU(largest, df, maxima + groups);
  }
  return groups;
}

void IndicesFrom(const float* scores, int64_t count, float threshold, std::vector<int32_t>* indices) {
  const FloatTag df;
  const auto least = hn::Set(df, threshold);
  int64_t i = 0;
  const auto scan = [&](int64_t end) {
    for (; i < end; ++i) {
      if (scores[i] >= threshold) indices->push_back(static_cast<int32_t>(i));
    }
  };
  while (i + kSliceLanes <= count) {
    if (hn::AllFalse(df, hn::Ge(hn::LoadU(df, scores + i), least))) {
      i += kSliceLanes;
    } else {
      scan(i + kSliceLanes);
    }
  }
  scan(count);
}

}  // namespace headscope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headscope::kernels {

HWY_EXPORT(EstimateScoresImpl);
HWY_EXPORT(WeightedSumImpl);
HWY_EXPORT(GroupMaxima);
HWY_EXPORT(IndicesFrom);

namespace internal {

void EstimateScores(const EstimateKeys& keys, const EstimateQueries& queries, float soft_cap, int64_t first,
                    int64_t count, float* scores, int64_t score_stride) {
  HWY_DYNAMIC_DISPATCH(EstimateScoresImpl)(keys, queries, soft_cap, first, count, scores, score_stride);
}

void WeightedSum(const float* rows, int64_t stride, const float* factors, int32_t num_rows, int64_t count,
                 float* sums) {
  HWY_DYNAMIC_DISPATCH(WeightedSumImpl)(rows, stride, factors, num_rows, count, sums);
}

void CandidatesOfBest(const float* scores, int64_t count, int64_t k, std::vector<int32_t>* indices) {
  indices->clear();
  constexpr int64_t kGroupsPerPick = 4, kLeastGroup = 2;
  if (k < 1 || count / (kGroupsPerPick * k) < kLeastGroup) return;
  const int64_t vectors = count / (kGroupsPerPick * k);
  std::vector<float> maxima(static_cast<size_t>(count / vectors + 64));
  const int64_t groups = HWY_DYNAMIC_DISPATCH(GroupMaxima)(scores, count, vectors, maxima.data());
  if (groups <= k) return;
  maxima.resize(static_cast<size_t>(groups));
  const auto kth = maxima.begin() + (k - 1);
  std::nth_element(maxima.begin(), kth, maxima.end(), std::greater<>());
  HWY_DYNAMIC_DISPATCH(IndicesFrom)(scores, count, *kth, indices);
  if (static_cast<int64_t>(indices->size()) < k) indices->clear();
}

}  // namespace internal
}  // namespace headscope::kernels
#endif  // HWY_ONCE
