// SPDX-License-Identifier: Apache-2.0
// Attention of a few query rows over one slice of keys, each key and value read once. Per-target header.
//
// Method: blocks of kSliceBlock keys. Keys pass four at a time, straight from memory (16-bit ones are widened in
// registers): their components lie in vector lanes, four query rows at most meet them, and four dot products are added
// up across lanes together. One online-softmax step on the block's scores [row][key]; then the values pass, again
// straight from memory, with as much of the output as registers hold. While keys are read, their values are fetched,
// and with the values the next block's keys: the caches' own prefetchers stop at every page.
#include <hwy/highway.h>

#if defined(HEADSCOPE_KERNELS_CPU_SLICE_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADSCOPE_KERNELS_CPU_SLICE_ATTENTION_INL_H_
#undef HEADSCOPE_KERNELS_CPU_SLICE_ATTENTION_INL_H_
#else
#define HEADSCOPE_KERNELS_CPU_SLICE_ATTENTION_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include "convert-inl.h"
#include "decode_slice.h"
#include "four_keys-inl.h"
#include "kernels/attention_problem.h"
#include "problem_view.h"
#include "vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headscope::kernels::HWY_NAMESPACE {

// Rows of T at the places of a slice's tokens.
template <class T>
struct SliceRows {
  const T* base;
  int64_t stride;

  HWY_INLINE const T* At(int64_t token) const { return base + token * stride; }
};
template <class T>
HWY_INLINE SliceRows<T> RowsOfSlice(const StridedTensor<const void>& tensor, int64_t sequence, int64_t head) {
  const RowsView view = RowsOf(tensor, sequence, head);
  return {static_cast<const T*>(view.data) + view.offset, view.row_stride};
}

// The tokens of one block: side by side from `first` on, or a list.
struct TokenRun {
  int64_t first;
  HWY_INLINE int64_t operator[](int64_t i) const { return first + i; }
};
struct TokenList {
  const int32_t* tokens;
  HWY_INLINE int64_t operator[](int64_t i) const { return tokens[i]; }
};

template <class T>
class SliceAttention {
 public:
  SliceAttention(const AttentionProblem& problem, const DecodeSlice& slice, SliceScratch& scratch)
      : slice_(slice),
        scratch_(scratch),
        head_dim_(problem.head_dim),
        v_head_dim_(problem.ValueDim()),
        cap_(problem.soft_cap > 0 ? problem.soft_cap * std::numbers::log2e_v<float> : 0),
        k_(RowsOfSlice<T>(problem.k, slice.sequence, slice.head / problem.GroupSize())),
        v_(RowsOfSlice<T>(problem.v, slice.sequence, slice.head / problem.GroupSize())) {
    // Scores are in base 2, or, where a soft cap follows, the argument of its tanh.
    const float scale = problem.EffectiveScale();
    const float factor = problem.soft_cap > 0 ? scale / problem.soft_cap : scale * std::numbers::log2e_v<float>;
    for (int64_t row = 0; row < slice.num_heads; ++row) {
      float* const q = scratch.q.get() + row * scratch.row_floats;
      const RowsView view = RowsOf(problem.q, slice.sequence, slice.head + row);
      RowAsFloat(view.data, view.offset, problem.dtype, head_dim_, q);
      for (int64_t d = 0; d < head_dim_; ++d) q[d] *= factor;
      std::fill(q + head_dim_, q + scratch.row_floats, 0.0f);
      SplitPairs<T>(head_dim_, q);
    }
    std::fill_n(scratch.o.get(), slice.num_heads * scratch.o_floats, 0.0f);
    std::fill_n(scratch.maximum, slice.num_heads, -std::numeric_limits<float>::infinity());
    std::fill_n(scratch.sum, slice.num_heads, 0.0f);
    std::fill_n(scratch.largest, slice.num_heads, -std::numeric_limits<float>::infinity());
  }

  void Run() {
    if (slice_.count == 0) return;
    const int32_t* const tokens = slice_.tokens;
    // Strictly increasing: without a gap if the ends are as far apart as there are tokens between them.
    const bool side_by_side = tokens[slice_.count - 1] - tokens[0] == slice_.count - 1;
    for (int64_t begin = 0; begin < slice_.count; begin += kSliceBlock) {
      const auto keys = static_cast<int32_t>(std::min<int64_t>(kSliceBlock, slice_.count - begin));
      const auto next = static_cast<int32_t>(std::min<int64_t>(kSliceBlock, slice_.count - begin - keys));
      if (side_by_side) {
        AddBlock(TokenRun{tokens[0] + begin}, begin, keys, next);
      } else {
        AddBlock(TokenList{tokens + begin}, begin, keys, next);
      }
    }
  }

  void Store(const SliceOutput& output) {
    for (int64_t row = 0; row < slice_.num_heads; ++row) {
      output.row_max[row] =
          (slice_.weights == nullptr ? scratch_.maximum : scratch_.largest)[row] * std::numbers::ln2_v<float>;
      const float sum = scratch_.sum[row];
      const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;  // a row without keys gives 0
      float* const from = scratch_.o.get() + row * scratch_.o_floats;
      JoinPairs<T>(v_head_dim_, from);
      for (int64_t d = 0; d < v_head_dim_; ++d) output.o[row * v_head_dim_ + d] = from[d] * inverse;
      output.lse[row] =
          sum == 0.0f
              ? -std::numeric_limits<float>::infinity()
              : static_cast<float>((static_cast<double>(scratch_.maximum[row]) + std::log2(static_cast<double>(sum))) *
                                   std::numbers::ln2);
    }
  }

 private:
  // Vectors of output that one pass over a block's values keeps in registers, besides four operands.
  static constexpr int32_t kHeld = kSliceLanes == 16 || HWY_TARGET == HWY_NEON ? 16 : 8;

  template <class Tokens>
  HWY_INLINE void AddBlock(const Tokens& tokens, int64_t begin, int32_t keys, int32_t next) {
    Score(tokens, keys);
    for (int32_t row = 0; row < slice_.num_heads; ++row) {
      if (slice_.weights != nullptr && (row == 0 || slice_.weight_stride != 0)) TakeWeights(row, begin, keys);
      Soften(row, keys);
    }
    AddValues(tokens, keys, next);
  }

  void Fetch(const T* row, int64_t components) const {
    const char* const bytes = reinterpret_cast<const char*>(row);
    const int64_t end = components * int64_t{sizeof(T)};
    for (int64_t byte = 0; byte < end; byte += 64) __builtin_prefetch(bytes + byte, 0, 2);
  }

  template <class Tokens>
  HWY_INLINE void Score(const Tokens& tokens, int32_t keys) {
    for (int32_t key = 0; key < keys; key += 4) {
      const T* rows[4];
      for (int32_t i = 0; i < 4; ++i) {
        const int64_t token = tokens[std::min(key + i, keys - 1)];  // the last key stands in for those behind it
        rows[i] = k_.At(token);
        Fetch(v_.At(token), v_head_dim_);
      }
      ScoreFourKeys(rows, scratch_.q.get(), scratch_.row_floats, slice_.num_heads, head_dim_,
                    scratch_.scores.get() + key, kSliceBlock);
    }
  }

  // A weight w counts as log2(w) on the score: 1 changes no bit, 0 leaves the token out.
  void TakeWeights(int32_t row, int64_t begin, int32_t keys) {
    const float* const weights = slice_.weights + row * slice_.weight_stride + begin;
    for (int32_t i = 0; i < keys; ++i) scratch_.log_weights.get()[i] = std::log2(weights[i]);
    std::fill(scratch_.log_weights.get() + keys, scratch_.log_weights.get() + kSliceBlock, 0.0f);
  }

  // One online-softmax step of a row: scores become weights 2^(score - maximum).
  HWY_INLINE void Soften(int32_t row, int32_t keys) {
    const FloatTag df;
    float* HWY_RESTRICT const scores = scratch_.scores.get() + int64_t{row} * kSliceBlock;
    constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
    const int32_t padded = (keys + kSliceLanes - 1) / kSliceLanes * kSliceLanes;
    if (cap_ > 0) {
      const auto cap = hn::Set(df, cap_);
      for (int32_t i = 0; i < padded; i += kSliceLanes)
        hn::Store(hn::Mul(cap, Tanh(hn::Load(df, scores + i))), df, scores + i);
    }
    std::fill(scores + keys, scores + padded, kMinusInfinity);
    if (slice_.weights != nullptr) {
      const auto nothing = hn::Set(df, kMinusInfinity);
      auto kept = nothing;
      for (int32_t i = 0; i < padded; i += kSliceLanes) {
        const auto score = hn::Load(df, scores + i), weight = hn::Load(df, scratch_.log_weights.get() + i);
        kept = hn::Max(kept, hn::IfThenElse(hn::Eq(weight, nothing), nothing, score));
        hn::Store(hn::Add(score, weight), df, scores + i);
      }
      scratch_.largest[row] = std::max(scratch_.largest[row], hn::GetLane(hn::MaxOfLanes(df, kept)));
    }
    auto largest = hn::Load(df, scores);
    for (int32_t i = kSliceLanes; i < padded; i += kSliceLanes) largest = hn::Max(largest, hn::Load(df, scores + i));
    const float before = scratch_.maximum[row];
    const float maximum = std::max(before, hn::GetLane(hn::MaxOfLanes(df, largest)));
    // Nothing but -inf so far: -inf - (-inf) would be NaN. Any finite shift gives weights and decay of 0.
    const auto shift = hn::Set(df, maximum == kMinusInfinity ? 0.0f : maximum);
    auto total = hn::Zero(df);
    for (int32_t i = 0; i < padded; i += kSliceLanes) {
      const auto weight = Exp2NonPositive(hn::Sub(hn::Load(df, scores + i), shift));
      hn::Store(weight, df, scores + i);
      total = hn::Add(total, weight);
    }
    const float decay = hn::GetLane(Exp2NonPositive(hn::Sub(hn::Set(df, before), shift)));
    scratch_.maximum[row] = maximum;
    scratch_.decay[row] = decay;
    scratch_.sum[row] = scratch_.sum[row] * decay + hn::GetLane(hn::SumOfLanes(df, total));
  }

  template <class Tokens>
  HWY_INLINE void AddValues(const Tokens& tokens, int32_t keys, int32_t next) {
    int32_t row = 0;
    for (; row + 4 <= slice_.num_heads; row += 4) AddRows<4>(tokens, keys, row == 0 ? next : 0, row);
    if (row + 2 <= slice_.num_heads) {
      AddRows<2>(tokens, keys, row == 0 ? next : 0, row);
      row += 2;
    }
    if (row < slice_.num_heads) AddRows<1>(tokens, keys, row == 0 ? next : 0, row);
  }

  // All columns of output rows [row, row + kRows). Fetches the next block's `next` keys on the way, one with each
  // value: more at once than the processor keeps track of would stall it, and memory then waits while values are added.
  template <int32_t kRows, class Tokens>
  HWY_INLINE void AddRows(const Tokens& tokens, int32_t keys, int32_t next, int32_t row) {
    constexpr int32_t kMost = std::min(8, kHeld / kRows);
    int64_t d = 0;
    for (; d + kMost * kSliceLanes <= v_head_dim_; d += kMost * kSliceLanes)
      AddColumns<kRows, kMost>(LoaderOfTwo<T>(), tokens, keys, d == 0 ? next : 0, row, d);
    if constexpr (kMost > 4) {
      for (; d + 4 * kSliceLanes <= v_head_dim_; d += 4 * kSliceLanes)
        AddColumns<kRows, 4>(LoaderOfTwo<T>(), tokens, keys, d == 0 ? next : 0, row, d);
    }
    for (; d + 2 * kSliceLanes <= v_head_dim_; d += 2 * kSliceLanes)
      AddColumns<kRows, 2>(LoaderOfTwo<T>(), tokens, keys, d == 0 ? next : 0, row, d);
    for (; d + kSliceLanes <= v_head_dim_; d += kSliceLanes)
      AddColumns<kRows, 1>(WholeVector(), tokens, keys, d == 0 ? next : 0, row, d);
    if (d < v_head_dim_) AddColumns<kRows, 1>(HalfVector(), tokens, keys, d == 0 ? next : 0, row, d);
  }

  template <int32_t kRows, int32_t kVectors, class Load, class Tokens>
  HWY_INLINE void AddColumns(const Load& load, const Tokens& tokens, int32_t keys, int32_t next, int32_t row,
                             int64_t d) {
    const FloatTag df;
    const float* HWY_RESTRICT const weights = scratch_.scores.get() + int64_t{row} * kSliceBlock;
    float* HWY_RESTRICT const o = scratch_.o.get() + row * scratch_.o_floats + d;
    FloatVec sums[kRows][kVectors];
#pragma GCC unroll 8
    for (int32_t r = 0; r < kRows; ++r) {
      const auto decay = hn::Set(df, scratch_.decay[row + r]);
#pragma GCC unroll 8
      for (int32_t j = 0; j < kVectors; ++j)
        sums[r][j] = hn::Mul(decay, hn::Load(df, o + r * scratch_.o_floats + j * kSliceLanes));
    }
    for (int32_t key = 0; key < keys; ++key) {
      if (key < next) Fetch(k_.At(tokens[keys + key]), head_dim_);
      const T* HWY_RESTRICT const value = v_.At(tokens[key]) + d;
      FloatVec weight[kRows];
#pragma GCC unroll 8
      for (int32_t r = 0; r < kRows; ++r) weight[r] = hn::Set(df, weights[r * kSliceBlock + key]);
#pragma GCC unroll 8
      for (int32_t j = 0; j < kVectors; j += Load::kVectors) {
        FloatVec v[Load::kVectors];
        load(value + j * kSliceLanes, v);
#pragma GCC unroll 2
        for (int32_t i = 0; i < Load::kVectors; ++i) {
#pragma GCC unroll 8
          for (int32_t r = 0; r < kRows; ++r) sums[r][j + i] = hn::MulAdd(weight[r], v[i], sums[r][j + i]);
        }
      }
    }
#pragma GCC unroll 8
    for (int32_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int32_t j = 0; j < kVectors; ++j) hn::Store(sums[r][j], df, o + r * scratch_.o_floats + j * kSliceLanes);
    }
  }

  const DecodeSlice& slice_;
  SliceScratch& scratch_;
  const int64_t head_dim_;
  const int64_t v_head_dim_;
  const float cap_;  // base 2; 0: none
  const SliceRows<T> k_;
  const SliceRows<T> v_;
};

}  // namespace headscope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // HEADSCOPE_KERNELS_CPU_SLICE_ATTENTION_INL_H_
