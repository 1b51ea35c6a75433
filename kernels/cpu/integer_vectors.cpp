// SPDX-License-Identifier: Apache-2.0
#include "integer_vectors.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "highway_targets.h"
#include "internal/integer_scores.h"
#include "panel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "integer_vectors.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headscope::kernels::HWY_NAMESPACE {

using internal::kPieceComponents;

// body(vector) of components [begin, end), and once more of the rest with zeros behind it.
template <class Body>
HWY_INLINE void ForComponents(const float* row, int32_t begin, int32_t end, const Body& body) {
  const FloatTag df;
  constexpr int32_t kStep = HWY_LANES(float);
  int32_t d = begin;
  for (; d + kStep <= end; d += kStep) body(hn::LoadU(df, row + d), d);
  if (d == end) return;
  HWY_ALIGN float rest[kStep] = {};
  std::copy(row + d, row + end, rest);
  body(hn::Load(df, rest), d);
}

RowSize SizeOfRowImpl(const float* row, int32_t width) {
  const FloatTag df;
  RowSize size;
  double squares = 0, longest = 0;
  auto most = hn::Zero(df);
  for (int32_t begin = 0; begin < width; begin += kPieceComponents) {
    auto sum = hn::Zero(df);
    ForComponents(row, begin, std::min(begin + kPieceComponents, width), [&](FloatVec x, int32_t) HWY_ATTR {
      sum = hn::MulAdd(x, x, sum);
      most = hn::Max(most, hn::Abs(x));
    });
    const auto of_piece = static_cast<double>(hn::GetLane(hn::SumOfLanes(df, sum)));
    squares += of_piece;
    longest = std::max(longest, of_piece);
  }
  size.length = std::sqrt(squares);
  size.longest = std::sqrt(longest);
  size.largest = hn::GetLane(hn::MaxOfLanes(df, most));
  return size;
}

double RoundComponentsImpl(const float* row, int32_t width, float factor, int16_t* HWY_RESTRICT numbers) {
  const FloatTag df;
  const hn::Rebind<int16_t, FloatTag> half;
  constexpr int32_t kStep = HWY_LANES(float);
  double squares = 0;
  for (int32_t begin = 0; begin < width; begin += kPieceComponents) {
    const int32_t end = std::min(begin + kPieceComponents, width);
    auto lost = hn::Zero(df);
    ForComponents(row, begin, end, [&](FloatVec x, int32_t d) HWY_ATTR {
      const auto scaled = hn::Mul(x, hn::Set(df, factor));
      const auto whole = hn::NearestInt(scaled);
      const auto rest = hn::Sub(scaled, hn::ConvertTo(df, whole));
      lost = hn::MulAdd(rest, rest, lost);
      const auto rounded = hn::DemoteTo(half, whole);
      if (d + kStep <= end) {
        hn::StoreU(rounded, half, numbers + d);
      } else {
        HWY_ALIGN int16_t last[kStep];
        hn::Store(rounded, half, last);
        std::copy_n(last, end - d, numbers + d);
      }
    });
    squares += static_cast<double>(hn::GetLane(hn::SumOfLanes(df, lost)));
  }
  return std::sqrt(squares);
}

#if HWY_TARGET == HWY_SCALAR

// One lane holds no pair.
void MultiplyIntegersImpl(const int16_t* rows, int32_t num_rows, const int16_t* panel, int32_t width, int32_t from,
                          float* scores) {
  MultiplyOneByOne(rows, num_rows, panel, width, from, scores);
}

#else

using NumberTag = hn::ScalableTag<int16_t>;
using SumTag = hn::ScalableTag<int32_t>;

constexpr int32_t kSums = HWY_LANES(int32_t);
// 6 x 4 sums, 4 vectors of columns, a broadcast and a product fit the 32 registers of AVX-512; the others have 16, or
// sums of their own for the halves of a product. With 5 or 6 rows of 2 vectors GCC spills sums.
constexpr int32_t kTileRows = kSums == 16 ? 6 : 4;
constexpr int32_t kTileVectors = kSums == 16 ? 4 : 2;
static_assert(kPanelLanes % (kTileVectors * kSums) == 0);

// Of one piece, whose sums are added to what scores hold. rows, panel, scores: of the tile.
template <int kRows, int kVectors>
HWY_NOINLINE void MultiplyPieces(const int16_t* HWY_RESTRICT rows, int64_t row_step, const int16_t* HWY_RESTRICT panel,
                                 int32_t components, bool is_first, float* HWY_RESTRICT scores) {
  const NumberTag dn;
  const SumTag ds;
  const FloatTag df;
  hn::Vec<SumTag> sum[kRows][kVectors], other[kRows][kVectors];  // `other`: untouched where pairs are added at once
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) sum[i][j] = other[i][j] = hn::Zero(ds);
  }
  for (int32_t d = 0; d < components; d += 2, panel += kPairStep) {
    hn::Vec<NumberTag> columns[kVectors];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) columns[j] = hn::LoadU(dn, panel + 2 * kSums * j);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      int32_t pair;
      std::memcpy(&pair, rows + i * row_step + d, sizeof(pair));
      const auto own = hn::BitCast(dn, hn::Set(ds, pair));
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j)
        sum[i][j] = hn::ReorderWidenMulAccumulate(ds, own, columns[j], sum[i][j], other[i][j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      float* const target = scores + i * kPanelLanes + j * kSums;
      const auto of_piece = hn::ConvertTo(df, hn::RearrangeToOddPlusEven(sum[i][j], other[i][j]));
      hn::StoreU(is_first ? of_piece : hn::Add(hn::LoadU(df, target), of_piece), df, target);
    }
  }
}

template <int kVectors, int kRows = kTileRows>
HWY_INLINE void MultiplyRowsOfPieces(int32_t num_rows, const int16_t* rows, int64_t row_step, const int16_t* panel,
                                     int32_t components, bool is_first, float* scores) {
  if constexpr (kRows > 1) {
    if (num_rows != kRows)
      return MultiplyRowsOfPieces<kVectors, kRows - 1>(num_rows, rows, row_step, panel, components, is_first, scores);
  }
  MultiplyPieces<kRows, kVectors>(rows, row_step, panel, components, is_first, scores);
}

// A piece of the panel stays in the first cache while all rows are multiplied by it.
void MultiplyIntegersImpl(const int16_t* rows, int32_t num_rows, const int16_t* panel, int32_t width, int32_t from,
                          float* scores) {
  for (int32_t begin = 0; begin < width; begin += kPieceComponents) {
    const int32_t components = std::min(kPieceComponents, width - begin);
    for (int32_t row = 0; row < num_rows; row += kTileRows) {
      const int16_t* const own = rows + int64_t{row} * width + begin;
      const int16_t* const columns = panel + begin / 2 * kPairStep;
      float* const target = scores + int64_t{row} * kPanelLanes;
      const int32_t count = std::min(kTileRows, num_rows - row);
      int32_t lane = from;
      for (; lane + kTileVectors * kSums <= kPanelLanes; lane += kTileVectors * kSums)
        MultiplyRowsOfPieces<kTileVectors>(count, own, width, columns + 2 * lane, components, begin == 0,
                                           target + lane);
      for (; lane < kPanelLanes; lane += kSums)
        MultiplyRowsOfPieces<1>(count, own, width, columns + 2 * lane, components, begin == 0, target + lane);
    }
  }
}

#endif

void ScaleColumnsImpl(const float* HWY_RESTRICT steps, int32_t from, float factor, float* HWY_RESTRICT scores) {
  const FloatTag df;
  constexpr int32_t kStep = HWY_LANES(float);
  for (int32_t column = from; column < kPanelLanes; column += kStep) {
    const auto both = hn::Mul(hn::Set(df, factor), hn::LoadU(df, steps + column));
    hn::StoreU(hn::Mul(hn::LoadU(df, scores + column), both), df, scores + column);
  }
}

}  // namespace headscope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headscope::kernels {

HWY_EXPORT(SizeOfRowImpl);
HWY_EXPORT(RoundComponentsImpl);
HWY_EXPORT(MultiplyIntegersImpl);
HWY_EXPORT(ScaleColumnsImpl);

RowSize SizeOfRow(const float* row, int32_t width) {
  return HWY_DYNAMIC_DISPATCH(SizeOfRowImpl)(row, width);
}

double RoundComponents(const float* row, int32_t width, float factor, int16_t* numbers) {
  return HWY_DYNAMIC_DISPATCH(RoundComponentsImpl)(row, width, factor, numbers);
}

void MultiplyIntegers(const int16_t* rows, int32_t num_rows, const int16_t* panel, int32_t width, int32_t from,
                      float* scores) {
  HWY_DYNAMIC_DISPATCH(MultiplyIntegersImpl)(rows, num_rows, panel, width, from, scores);
}

void ScaleColumns(const float* steps, int32_t from, float factor, float* scores) {
  HWY_DYNAMIC_DISPATCH(ScaleColumnsImpl)(steps, from, factor, scores);
}

}  // namespace headscope::kernels
#endif  // HWY_ONCE
