// SPDX-License-Identifier: Apache-2.0
#include "internal/row_math.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "halved_bound.h"
#include "highway_targets.h"
#include "kernels/cpu_scores.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "row_math.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headscope::kernels::HWY_NAMESPACE {

using Floats = FloatTag;

using internal::kColumns;

constexpr int kChains = 4;  // vectors a step: the latency of one addition is hidden behind the others'

float WeightsOfBase2Impl(float* row, int64_t count) {
  const Floats df;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(df)), step = kChains * lanes;
  const auto maximum = hn::Set(df, MaxOf(row, count));
  FloatVec sum[kChains];
#pragma GCC unroll 8
  for (int c = 0; c < kChains; ++c) sum[c] = hn::Zero(df);
  const auto weigh = [&](float* at, FloatVec* total) HWY_ATTR {
    const auto weight = Exp2NonPositive(hn::Sub(hn::LoadU(df, at), maximum));
    hn::StoreU(weight, df, at);
    *total = hn::Add(*total, weight);
  };
  int64_t i = 0;
  for (; i + step <= count; i += step) {
#pragma GCC unroll 8
    for (int c = 0; c < kChains; ++c) weigh(row + i + c * lanes, &sum[c]);
  }
  for (; i + lanes <= count; i += lanes) weigh(row + i, &sum[0]);
  if (i < count) {
    // Lanes behind the row have no weight.
    HWY_ALIGN float rest[HWY_LANES(float)];
    std::fill_n(rest, lanes, -std::numeric_limits<float>::infinity());
    std::copy(row + i, row + count, rest);
    weigh(rest, &sum[1]);
    std::copy_n(rest, count - i, row + i);
  }
  return hn::GetLane(hn::SumOfLanes(df, hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3]))));
}

void ColumnWeightsImpl(const float* HWY_RESTRICT scores, int64_t num_rows, float* HWY_RESTRICT largest,
                       float* HWY_RESTRICT sums) {
  const Floats df;
  const auto step = static_cast<int64_t>(hn::Lanes(df));
  for (int64_t column = 0; column < kColumns; column += step) {
    const auto score = [&](int64_t row) HWY_ATTR { return hn::LoadU(df, scores + row * kColumns + column); };
    FloatVec best[kChains], sum[kChains];
#pragma GCC unroll 8
    for (int c = 0; c < kChains; ++c) {
      best[c] = hn::Set(df, std::numeric_limits<float>::lowest());
      sum[c] = hn::Zero(df);
    }
    int64_t row = 0;
    for (; row + kChains <= num_rows; row += kChains) {
#pragma GCC unroll 8
      for (int c = 0; c < kChains; ++c) best[c] = hn::Max(best[c], score(row + c));
    }
    for (; row < num_rows; ++row) best[0] = hn::Max(best[0], score(row));
    const auto maximum = hn::Max(hn::Max(best[0], best[1]), hn::Max(best[2], best[3]));
    for (row = 0; row + kChains <= num_rows; row += kChains) {
#pragma GCC unroll 8
      for (int c = 0; c < kChains; ++c) sum[c] = hn::Add(sum[c], Exp2NonPositive(hn::Sub(score(row + c), maximum)));
    }
    for (; row < num_rows; ++row) sum[0] = hn::Add(sum[0], Exp2NonPositive(hn::Sub(score(row), maximum)));
    hn::StoreU(maximum, df, largest + column);
    hn::StoreU(hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3])), df, sums + column);
  }
}

void ColumnSharesImpl(const float* HWY_RESTRICT largest, int64_t num_blocks, float* HWY_RESTRICT sums) {
  const Floats df;
  const auto step = static_cast<int64_t>(hn::Lanes(df));
  for (int64_t column = 0; column < kColumns; column += step) {
    auto maximum = hn::Set(df, std::numeric_limits<float>::lowest());
    for (int64_t block = 0; block < num_blocks; ++block)
      maximum = hn::Max(maximum, hn::LoadU(df, largest + block * kColumns + column));
    auto total = hn::Zero(df);
    for (int64_t block = 0; block < num_blocks; ++block) {
      const int64_t at = block * kColumns + column;
      const auto weight =
          hn::Mul(hn::LoadU(df, sums + at), Exp2NonPositive(hn::Sub(hn::LoadU(df, largest + at), maximum)));
      hn::StoreU(weight, df, sums + at);
      total = hn::Add(total, weight);
    }
    const auto inverse = hn::Div(hn::Set(df, 1.0f), total);
    for (int64_t block = 0; block < num_blocks; ++block) {
      float* const share = sums + block * kColumns + column;
      hn::StoreU(hn::Mul(hn::LoadU(df, share), inverse), df, share);
    }
  }
}

void StoreScaledImpl(const float* HWY_RESTRICT row, int64_t count, float factor, float* HWY_RESTRICT to) {
  const Floats df;
  const auto step = static_cast<int64_t>(hn::Lanes(df));
  int64_t i = 0;
  for (; i + step <= count; i += step) hn::StoreU(hn::Mul(hn::LoadU(df, row + i), hn::Set(df, factor)), df, to + i);
  for (; i < count; ++i) to[i] = row[i] * factor;
}

void AddScaledImpl(const float* HWY_RESTRICT row, int64_t count, float factor, float* HWY_RESTRICT sums) {
  const Floats df;
  const auto step = static_cast<int64_t>(hn::Lanes(df));
  int64_t i = 0;
  for (; i + step <= count; i += step) {
    hn::StoreU(hn::MulAdd(hn::LoadU(df, row + i), hn::Set(df, factor), hn::LoadU(df, sums + i)), df, sums + i);
  }
  for (; i < count; ++i) sums[i] += row[i] * factor;
}

void PoolWindowsImpl(const float* HWY_RESTRICT windows, int64_t count, bool maximum, float* HWY_RESTRICT blocks) {
  const Floats df;
  const auto step = static_cast<int64_t>(hn::Lanes(df));
  HWY_ALIGN float rest[HWY_LANES(float)];
  HWY_ALIGN int32_t lanes[HWY_LANES(float)] = {};
  std::iota(lanes + 1, lanes + step, 0);
  const auto one_before = hn::SetTableIndices(df, lanes);
  for (int64_t block = 0; block < count; block += step) {
    // Window j of each block, whose window before it is j - 1, and of the first the last one of the block before.
    hn::Vec<Floats> own[4];
    hn::LoadInterleaved4(df, windows + 4 * block, own[0], own[1], own[2], own[3]);
    const auto last = hn::Set(df, windows[4 * block - 1]);
    const hn::Vec<Floats> before[4] = {
        hn::IfThenElse(hn::FirstN(df, 1), last, hn::TableLookupLanes(own[3], one_before)), own[0], own[1], own[2]};
    auto pooled = hn::Zero(df);
    if (maximum) {
      const auto raise = [&](hn::Vec<Floats> share) { pooled = hn::IfThenElse(hn::Gt(share, pooled), share, pooled); };
      raise(before[0]);
      for (const auto share : own) raise(share);
    } else {
      for (int part = 0; part < 4; ++part) pooled = hn::Add(pooled, hn::Add(own[part], before[part]));
    }
    if (block + step <= count) {
      hn::StoreU(pooled, df, blocks + block);
    } else {
      hn::Store(pooled, df, rest);
      for (int64_t i = block; i < count; ++i) blocks[i] = rest[i - block];
    }
  }
}

int64_t CountNotBelow(const float* scores, int64_t count, float bound) {
  const Floats df;
  const auto step = static_cast<int64_t>(hn::Lanes(df));
  const auto least = hn::Set(df, bound);
  int64_t found = 0, i = 0;
  for (; i + step <= count; i += step)
    found += static_cast<int64_t>(hn::CountTrue(df, hn::Ge(hn::LoadU(df, scores + i), least)));
  for (; i < count; ++i) found += scores[i] >= bound ? 1 : 0;
  return found;
}

float BoundOfBestImpl(const float* scores, int64_t count, int64_t k, float low) {
  const Floats df;
  const auto step = static_cast<int64_t>(hn::Lanes(df));
  auto largest = hn::Set(df, low);
  int64_t i = 0;
  for (; i + step <= count; i += step) {
    const auto score = hn::LoadU(df, scores + i);
    largest = hn::IfThenElse(hn::Gt(score, largest), score, largest);
  }
  float high = hn::GetLane(hn::MaxOfLanes(df, largest));
  for (; i < count; ++i) high = scores[i] > high ? scores[i] : high;
  return HalvedBound(low, high, k, [&](float bound) { return CountNotBelow(scores, count, bound); });
}

// indices: room for count rounded up to a vector. Returns how many.
int64_t IndicesNotBelowImpl(const float* scores, int64_t count, float bound, int32_t* indices) {
  const Floats df;
  const hn::RebindToSigned<Floats> di;
  const auto step = static_cast<int64_t>(hn::Lanes(df));
  const auto least = hn::Set(df, bound);
  int64_t found = 0, i = 0;
  for (; i + step <= count; i += step) {
    const auto large = hn::Ge(hn::LoadU(df, scores + i), least);
    if (hn::AllFalse(df, large)) continue;
    found += static_cast<int64_t>(
        hn::CompressStore(hn::Iota(di, static_cast<int32_t>(i)), hn::RebindMask(di, large), di, indices + found));
  }
  for (; i < count; ++i) {
    if (scores[i] >= bound) indices[found++] = static_cast<int32_t>(i);
  }
  return found;
}

}  // namespace headscope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headscope::kernels {

HWY_EXPORT(WeightsOfBase2Impl);
HWY_EXPORT(ColumnWeightsImpl);
HWY_EXPORT(ColumnSharesImpl);
HWY_EXPORT(StoreScaledImpl);
HWY_EXPORT(AddScaledImpl);
HWY_EXPORT(PoolWindowsImpl);
HWY_EXPORT(BoundOfBestImpl);
HWY_EXPORT(IndicesNotBelowImpl);

namespace internal {

float WeightsOfBase2(float* row, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(WeightsOfBase2Impl)(row, count);
}

void ColumnWeights(const float* scores, int64_t num_rows, float* largest, float* sums) {
  HWY_DYNAMIC_DISPATCH(ColumnWeightsImpl)(scores, num_rows, largest, sums);
}

void ColumnShares(const float* largest, int64_t num_blocks, float* sums) {
  HWY_DYNAMIC_DISPATCH(ColumnSharesImpl)(largest, num_blocks, sums);
}

void StoreScaled(const float* row, int64_t count, float factor, float* to) {
  HWY_DYNAMIC_DISPATCH(StoreScaledImpl)(row, count, factor, to);
}

void AddScaled(const float* row, int64_t count, float factor, float* sums) {
  HWY_DYNAMIC_DISPATCH(AddScaledImpl)(row, count, factor, sums);
}

void PoolWindows(const float* windows, int64_t count, bool maximum, float* blocks) {
  HWY_DYNAMIC_DISPATCH(PoolWindowsImpl)(windows, count, maximum, blocks);
}

float BoundOfBest(const float* scores, int64_t count, int64_t k, float low) {
  return HWY_DYNAMIC_DISPATCH(BoundOfBestImpl)(scores, count, k, low);
}

void IndicesNotBelow(const float* scores, int64_t count, float bound, std::vector<int32_t>* indices) {
  constexpr int64_t kMostLanes = 64;
  indices->resize(static_cast<size_t>(count + kMostLanes));
  indices->resize(
      static_cast<size_t>(HWY_DYNAMIC_DISPATCH(IndicesNotBelowImpl)(scores, count, bound, indices->data())));
}

}  // namespace internal
}  // namespace headscope::kernels
#endif  // HWY_ONCE
