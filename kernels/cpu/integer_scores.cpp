// SPDX-License-Identifier: Apache-2.0
#include "internal/integer_scores.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>

#include "integer_vectors.h"
#include "pair_tile.h"
#include "panel.h"

namespace headscope::kernels::internal {
namespace {

std::atomic<IntegerUnit> most_used{IntegerUnit::kFused};
std::atomic<IntegerUse> use{IntegerUse::kWherePaying};
std::atomic<int32_t> shorter_by{0};

constexpr float kMostNumber = 32767.0f;

// Rounding of norms, whose squares are summed in fp32 within a piece, and of the quotients behind them.
constexpr double kNormSlack = 1 + 3e-6;

#if HEADSCOPE_PAIR_TILES

// Whole numbers of a piece, whose sums are added to what scores hold.
struct IntegerPairs {
  using Number = int16_t;
  using Sum = __m512i;
  bool is_first;
  HEADSCOPE_IN_PAIR_TILE static Sum Zero() { return _mm512_setzero_si512(); }
  // GCC copies and spills the sums of the function that stands for it.
  HEADSCOPE_IN_PAIR_TILE static void Add(__m512i own, __m512i columns, Sum* sum) {
    asm("vpdpwssd %2, %1, %0" : "+v"(*sum) : "v"(own), "v"(columns));  // NOLINT(hicpp-no-assembler)
  }
  HEADSCOPE_IN_PAIR_TILE void Store(Sum sum, float* target) const {
    const __m512 of_piece = _mm512_maskz_cvtepi32_ps(0xffff, sum);
    _mm512_storeu_ps(target, is_first ? of_piece : _mm512_add_ps(_mm512_loadu_ps(target), of_piece));
  }
};

// A piece of the panel stays in the first cache while all rows are multiplied by it.
template <int kVectors>
void MultiplyFused(const int16_t* rows, int32_t num_rows, const int16_t* panel, int32_t width, float* scores) {
  for (int32_t begin = 0; begin < width; begin += kPieceComponents) {
    MultiplyPairRows<IntegerPairs, kVectors>(num_rows, rows + begin, width, panel + begin / 2 * kPairStep,
                                             std::min(kPieceComponents, width - begin), IntegerPairs{begin == 0},
                                             scores, kPanelLanes);
  }
}

void MultiplyFused(const int16_t* rows, int32_t num_rows, const int16_t* panel, int32_t width, int32_t from,
                   float* scores) {
  switch (from / 16) {
    case 0:
      return MultiplyFused<4>(rows, num_rows, panel, width, scores);
    case 1:
      return MultiplyFused<3>(rows, num_rows, panel + 32, width, scores + 16);
    case 2:
      return MultiplyFused<2>(rows, num_rows, panel + 64, width, scores + 32);
    default:
      return MultiplyFused<1>(rows, num_rows, panel + 96, width, scores + 48);
  }
}

#endif

}  // namespace

IntegerUnit BestIntegerUnit() {
#if HEADSCOPE_PAIR_TILES
  static const bool is_fused = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vnni");
#else
  constexpr bool is_fused = false;
#endif
  return std::min(is_fused ? IntegerUnit::kFused : IntegerUnit::kVectors, most_used.load(std::memory_order_relaxed));
}

void LimitIntegers(IntegerUnit most) {
  most_used.store(most, std::memory_order_relaxed);
}

bool IntegerProductsPay() {
  const IntegerUse asked = use.load(std::memory_order_relaxed);
  if (asked != IntegerUse::kWherePaying) return asked == IntegerUse::kAlways;
  return BestIntegerUnit() == IntegerUnit::kFused;
}

void UseIntegers(IntegerUse asked) {
  use.store(asked, std::memory_order_relaxed);
}

void ShortenIntegers(int32_t bits) {
  shorter_by.store(bits, std::memory_order_relaxed);
}

RoundedRow RoundRow(const float* row, int32_t width, bool by_powers, int16_t* numbers) {
  const RowSize size = SizeOfRow(row, width);
  RoundedRow rounded;
  if (size.largest == 0 && size.length == 0) {
    std::fill_n(numbers, width, int16_t{0});
    return rounded;
  }
  // Squares are neither lost nor infinite in between; a NaN is no such number either.
  constexpr float kSmallest = 1e-15f, kLargest = 1e15f;
  if (!std::isfinite(size.length) || size.largest < kSmallest || size.largest > kLargest) {
    std::fill_n(numbers, width, int16_t{0});
    rounded.length = rounded.error = std::numeric_limits<float>::infinity();
    return rounded;
  }
  auto factor = static_cast<float>(std::min(static_cast<double>(kLongestPiece) / size.longest,
                                            static_cast<double>(kMostNumber) / static_cast<double>(size.largest)));
  if (by_powers) factor = std::ldexp(1.0f, std::ilogb(factor));
  factor = std::ldexp(factor, -shorter_by.load(std::memory_order_relaxed));
  const double lost = RoundComponents(row, width, factor, numbers), step = 1.0 / static_cast<double>(factor);
  constexpr double kProductError = 6e-8;  // of a component times the factor, relative to it
  rounded.step = static_cast<float>(step);
  rounded.length = static_cast<float>((size.length + lost * step) * kNormSlack);
  rounded.error = static_cast<float>((lost * step + 2 * kProductError * size.length) * kNormSlack);
  return rounded;
}

void IntegerRows::Reserve(int64_t num_rows) {
  numbers.reserve(static_cast<size_t>(num_rows * width));
  rows.reserve(static_cast<size_t>(num_rows));
}

void IntegerRows::Append(const float* row) {
  const size_t begin = numbers.size();
  numbers.resize(begin + static_cast<size_t>(width));
  rows.push_back(RoundRow(row, width, by_powers, numbers.data() + begin));
}

void IntegerColumns::Start(int32_t width, bool by_powers) {
  columns_.clear();
  width_ = width;
  by_powers_ = by_powers;
  // A cache line more than they are wide: where that is a large power of two, the same line of all 64 rows falls into
  // so few sets of the first cache that they push each other out.
  row_step_ = width + kPairLine;
  rows_.resize(static_cast<size_t>(row_step_ * kPanelLanes));
}

void IntegerColumns::Append(const float* row) {
  columns_.push_back(
      RoundRow(row, width_, by_powers_, rows_.data() + static_cast<int64_t>(columns_.size()) * row_step_));
}

void IntegerColumns::Finish() {
  pairs_.resize(static_cast<size_t>(width_) * kPanelLanes);
  PackPairs(rows_.data(), row_step_, static_cast<int32_t>(columns_.size()), width_, pairs_.data());
}

void ScoreIntegers(const IntegerRows& rows, int32_t begin, int32_t end, const IntegerColumns& columns, int32_t from,
                   float scale, float* scores) {
  const int32_t width = columns.width(), num_rows = end - begin;
  const int16_t* const first = rows.numbers.data() + int64_t{begin} * width;
#if HEADSCOPE_PAIR_TILES
  const bool is_fused = BestIntegerUnit() == IntegerUnit::kFused;
  if (is_fused) MultiplyFused(first, num_rows, columns.data(), width, from, scores);
#else
  constexpr bool is_fused = false;
#endif
  if (!is_fused) MultiplyIntegers(first, num_rows, columns.data(), width, from, scores);
  alignas(64) std::array<float, kPanelLanes> steps = {};
  for (size_t lane = 0; lane < columns.columns().size(); ++lane) steps[lane] = columns.columns()[lane].step;
  const RoundedRow* const own = rows.rows.data() + begin;
  for (int32_t row = 0; row < num_rows; ++row)
    ScaleColumns(steps.data(), from, scale * own[row].step, scores + int64_t{row} * kPanelLanes);
}

}  // namespace headscope::kernels::internal
