// SPDX-License-Identifier: Apache-2.0
// Scores of a few query rows with four keys at a time, straight from memory. Per-target header.
//
// The components of a key lie in vector lanes; 16-bit ones are widened in registers. Up to four query rows meet four
// keys, and four dot products are added up across lanes together.
//
// bf16 is the upper half of fp32, so a vector of 2 * kSliceLanes of them widens by a shift to those of even place and
// by a mask to those of odd place, without moving any between lanes, which takes twice as long. What meets them must
// lie in the same order (SplitPairs).
#include <hwy/highway.h>

#if defined(HEADSCOPE_KERNELS_CPU_FOUR_KEYS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADSCOPE_KERNELS_CPU_FOUR_KEYS_INL_H_
#undef HEADSCOPE_KERNELS_CPU_FOUR_KEYS_INL_H_
#else
#define HEADSCOPE_KERNELS_CPU_FOUR_KEYS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "internal/element.h"
#include "vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headscope::kernels::HWY_NAMESPACE {

constexpr int32_t kSliceLanes = HWY_LANES(float);

// The vector at `p`, as fp32.
HWY_INLINE FloatVec LoadWide(const float* HWY_RESTRICT p) {
  return hn::LoadU(FloatTag(), p);
}
template <class Half>
HWY_INLINE FloatVec LoadWide(const Half* HWY_RESTRICT p) {
  return hn::PromoteTo(FloatTag(), hn::LoadU(hn::Rebind<Half, FloatTag>(), p));
}

// One element, as fp32.
HWY_INLINE float ToFloat(float x) {
  return x;
}
HWY_INLINE float ToFloat(hwy::bfloat16_t x) {
  return internal::LoadElement(&x, DType::kBFloat16, 0);
}
HWY_INLINE float ToFloat(hwy::float16_t x) {
  return internal::LoadElement(&x, DType::kFloat16, 0);
}

// Whether whole pairs of vectors of T are taken as even and odd components.
template <class T>
constexpr bool kSplitsPairs = std::is_same_v<T, hwy::bfloat16_t>&& HWY_TARGET != HWY_SCALAR;

// Loaders: kVectors vectors of fp32 from kVectors * kSliceLanes elements of T.
struct WholeVector {
  static constexpr int32_t kVectors = 1;
  template <class T>
  HWY_INLINE void operator()(const T* HWY_RESTRICT p, FloatVec (&to)[1]) const {
    to[0] = LoadWide(p);
  }
};
#if HWY_TARGET == HWY_SCALAR
using SplitPair = WholeVector;  // never used
#else
// The components of even place, then those of odd place. T: as kSplitsPairs.
struct SplitPair {
  static constexpr int32_t kVectors = 2;
  HWY_INLINE void operator()(const hwy::bfloat16_t* HWY_RESTRICT p, FloatVec (&to)[2]) const {
    const FloatTag df;
    const hn::RebindToUnsigned<FloatTag> du;
    const hn::Repartition<uint16_t, FloatTag> d16;
    const auto bits = hn::BitCast(du, hn::LoadU(d16, reinterpret_cast<const uint16_t*>(p)));
    to[0] = hn::BitCast(df, hn::ShiftLeft<16>(bits));
    to[1] = hn::BitCast(df, hn::And(bits, hn::Set(du, 0xffff0000u)));
  }
};
#endif
// head_dim is a multiple of 8: where vectors hold 16, the last one may be half full. Zeros above.
struct HalfVector {
  static constexpr int32_t kVectors = 1;
  template <class T>
  HWY_INLINE void operator()(const T* HWY_RESTRICT p, FloatVec (&to)[1]) const {
#if HWY_TARGET == HWY_SCALAR
    to[0] = LoadWide(p);
#else
    const FloatTag df;
    const hn::Half<FloatTag> half;
    if constexpr (sizeof(T) == sizeof(float)) {
      to[0] = hn::ZeroExtendVector(df, hn::LoadU(half, p));
    } else {
      to[0] = hn::ZeroExtendVector(df, hn::PromoteTo(half, hn::LoadU(hn::Rebind<T, decltype(half)>(), p)));
    }
#endif
  }
};

// The loader of two vectors side by side.
template <class T>
using LoaderOfTwo = std::conditional_t<kSplitsPairs<T>, SplitPair, WholeVector>;

// Puts a row of head_dim floats into the order in which SplitPair loads rows of T; JoinPairs puts it back.
template <class T>
HWY_INLINE void SplitPairs(int64_t head_dim, float* HWY_RESTRICT row) {
  if constexpr (kSplitsPairs<T>) {
    for (int64_t d = 0; d + 2 * kSliceLanes <= head_dim; d += 2 * kSliceLanes) {
      float split[2 * kSliceLanes];
      for (int32_t i = 0; i < 2 * kSliceLanes; ++i) split[i % 2 * kSliceLanes + i / 2] = row[d + i];
      std::copy(split, split + 2 * kSliceLanes, row + d);
    }
  }
}
template <class T>
HWY_INLINE void JoinPairs(int64_t head_dim, float* HWY_RESTRICT row) {
  if constexpr (kSplitsPairs<T>) {
    for (int64_t d = 0; d + 2 * kSliceLanes <= head_dim; d += 2 * kSliceLanes) {
      float joined[2 * kSliceLanes];
      for (int32_t i = 0; i < 2 * kSliceLanes; ++i) joined[i] = row[d + i % 2 * kSliceLanes + i / 2];
      std::copy(joined, joined + 2 * kSliceLanes, row + d);
    }
  }
}

// Sums of the lanes of four vectors, to to[0..4).
HWY_INLINE void StoreSums(FloatVec a, FloatVec b, FloatVec c, FloatVec d, float* HWY_RESTRICT to) {
#if HWY_TARGET == HWY_SCALAR
  to[0] = hn::GetLane(a);
  to[1] = hn::GetLane(b);
  to[2] = hn::GetLane(c);
  to[3] = hn::GetLane(d);
#else
  const FloatTag df;
  const hn::RepartitionToWide<FloatTag> dd;
  const auto ab = hn::Add(hn::InterleaveLower(df, a, b), hn::InterleaveUpper(df, a, b));
  const auto cd = hn::Add(hn::InterleaveLower(df, c, d), hn::InterleaveUpper(df, c, d));
  const auto low = hn::InterleaveLower(dd, hn::BitCast(dd, ab), hn::BitCast(dd, cd));
  const auto high = hn::InterleaveUpper(dd, hn::BitCast(dd, ab), hn::BitCast(dd, cd));
  const auto sums = hn::Add(hn::BitCast(df, low), hn::BitCast(df, high));  // of each block of 128 bits, still apart
  const hn::Full128<float> d4;
#if HWY_MAX_BYTES == 64
  const hn::Half<FloatTag> d8;
  const auto eight = hn::Add(hn::LowerHalf(d8, sums), hn::UpperHalf(d8, sums));
  hn::StoreU(hn::Add(hn::LowerHalf(d4, eight), hn::UpperHalf(d4, eight)), d4, to);
#elif HWY_MAX_BYTES == 32
  hn::StoreU(hn::Add(hn::LowerHalf(d4, sums), hn::UpperHalf(d4, sums)), d4, to);
#else
  hn::StoreU(sums, d4, to);
#endif
#endif
}

// The scores of query rows q[0 .. kRows) with the four keys, as ScoreFourKeys: keys are read in step, so that a query
// vector is loaded once for all of them.
template <int32_t kRows, class T>
HWY_INLINE void ScoreInStep(const T* const (&keys)[4], const float* HWY_RESTRICT q, int64_t row_floats,
                            int64_t head_dim, float* HWY_RESTRICT to, int64_t row_step) {
  const FloatTag df;
  FloatVec sums[kRows][4];
#pragma GCC unroll 4
  for (int32_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int32_t i = 0; i < 4; ++i) sums[r][i] = hn::Zero(df);
  }
  const auto add = [&](const auto& load, int64_t d) HWY_ATTR {
    constexpr int32_t kVectors = std::decay_t<decltype(load)>::kVectors;
    FloatVec k[4][kVectors];
#pragma GCC unroll 4
    for (int32_t i = 0; i < 4; ++i) load(keys[i] + d, k[i]);
#pragma GCC unroll 4
    for (int32_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int32_t j = 0; j < kVectors; ++j) {
        const auto query = hn::Load(df, q + r * row_floats + d + j * kSliceLanes);
#pragma GCC unroll 4
        for (int32_t i = 0; i < 4; ++i) sums[r][i] = hn::MulAdd(query, k[i][j], sums[r][i]);
      }
    }
  };
  int64_t d = 0;
  if constexpr (kSplitsPairs<T>) {
    for (; d + 2 * kSliceLanes <= head_dim; d += 2 * kSliceLanes) add(SplitPair(), d);
  }
  for (; d + kSliceLanes <= head_dim; d += kSliceLanes) add(WholeVector(), d);
  if (d < head_dim) add(HalfVector(), d);
#pragma GCC unroll 4
  for (int32_t r = 0; r < kRows; ++r) StoreSums(sums[r][0], sums[r][1], sums[r][2], sums[r][3], to + r * row_step);
}

// The same, one key after the other.
template <int32_t kRows, class T>
HWY_INLINE void ScoreKeyByKey(const T* const (&keys)[4], const float* HWY_RESTRICT q, int64_t row_floats,
                              int64_t head_dim, float* HWY_RESTRICT to, int64_t row_step) {
  const FloatTag df;
  FloatVec sums[kRows][4];
#pragma GCC unroll 4
  for (int32_t i = 0; i < 4; ++i) {
#pragma GCC unroll 4
    for (int32_t r = 0; r < kRows; ++r) sums[r][i] = hn::Zero(df);
    const auto add = [&](const auto& load, int64_t d) HWY_ATTR {
      constexpr int32_t kVectors = std::decay_t<decltype(load)>::kVectors;
      FloatVec k[kVectors];
      load(keys[i] + d, k);
#pragma GCC unroll 2
      for (int32_t j = 0; j < kVectors; ++j) {
#pragma GCC unroll 4
        for (int32_t r = 0; r < kRows; ++r)
          sums[r][i] = hn::MulAdd(hn::Load(df, q + r * row_floats + d + j * kSliceLanes), k[j], sums[r][i]);
      }
    };
    int64_t d = 0;
    if constexpr (kSplitsPairs<T>) {
      for (; d + 2 * kSliceLanes <= head_dim; d += 2 * kSliceLanes) add(SplitPair(), d);
    }
    for (; d + kSliceLanes <= head_dim; d += kSliceLanes) add(WholeVector(), d);
    if (d < head_dim) add(HalfVector(), d);
  }
#pragma GCC unroll 4
  for (int32_t r = 0; r < kRows; ++r) StoreSums(sums[r][0], sums[r][1], sums[r][2], sums[r][3], to + r * row_step);
}

// Long keys go one by one: read in step, memory gave those of 512 bytes at half its rate, whatever was fetched ahead
// (docs/bench_results.md). More query rows would load their vectors four times as often for it, so their keys must be
// longer.
template <int32_t kRows, class T>
HWY_INLINE void ScoreRowsOfFour(const T* const (&keys)[4], const float* q, int64_t row_floats, int64_t head_dim,
                                float* to, int64_t row_step) {
  constexpr int64_t kLongKey = kRows == 1 ? 256 : 512;  // bytes
  if (head_dim * int64_t{sizeof(T)} >= kLongKey) {
    ScoreKeyByKey<kRows>(keys, q, row_floats, head_dim, to, row_step);
  } else {
    ScoreInStep<kRows>(keys, q, row_floats, head_dim, to, row_step);
  }
}

// to[row * row_step + i] = query row * key i, i < 4. q [num_rows, row_floats]: fp32, 64-byte aligned rows with zeros
// from head_dim up to a multiple of 16, in the order of SplitPairs<T>.
template <class T>
HWY_INLINE void ScoreFourKeys(const T* const (&keys)[4], const float* q, int64_t row_floats, int32_t num_rows,
                              int64_t head_dim, float* to, int64_t row_step) {
  int32_t row = 0;
  for (; row + 4 <= num_rows; row += 4)
    ScoreRowsOfFour<4>(keys, q + row * row_floats, row_floats, head_dim, to + row * row_step, row_step);
  if (row + 2 <= num_rows) {
    ScoreRowsOfFour<2>(keys, q + row * row_floats, row_floats, head_dim, to + row * row_step, row_step);
    row += 2;
  }
  if (row < num_rows)
    ScoreRowsOfFour<1>(keys, q + row * row_floats, row_floats, head_dim, to + row * row_step, row_step);
}

}  // namespace headscope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // HEADSCOPE_KERNELS_CPU_FOUR_KEYS_INL_H_
