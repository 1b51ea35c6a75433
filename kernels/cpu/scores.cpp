// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <limits>

#include "aligned_floats.h"
#include "highway_targets.h"
#include "kernels/cpu_scores.h"
#include "panel.h"
#include "problem_view.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "scores.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "convert-inl.h"
#include "micro_kernel-inl.h"
#include "vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headscope::kernels::HWY_NAMESPACE {

void PackKeys(const RowsView& k, DType dtype, int32_t seq_k, int32_t head_dim, float* staging, float* packed) {
  for (int32_t begin = 0; begin < seq_k; begin += kPanelLanes) {
    PackPanel(k, begin, dtype, std::min(kPanelLanes, seq_k - begin), head_dim, 1.0f, staging,
              packed + int64_t{begin} * head_dim);
  }
}

// Row `row` of every group is a stretch of the panel's depth, so that keys are read where they lie.
void PackGroups(const RowsView& k, DType dtype, int32_t seq_k, int32_t head_dim, int32_t size, float* staging,
                float* packed) {
  const int64_t width = int64_t{size} * head_dim;
  const int32_t num_groups = (seq_k + size - 1) / size;
  for (int32_t begin = 0; begin < num_groups; begin += kPanelLanes) {
    for (int32_t row = 0; row < size; ++row) {
      const int32_t having = (seq_k - row + size - 1) / size;  // groups that have such a row
      PackPanel(RowsView{k.data, k.offset + row * k.row_stride, size * k.row_stride}, begin, dtype,
                std::clamp(having - begin, 0, kPanelLanes), head_dim, 1.0f, staging,
                packed + begin * width + int64_t{size - 1 - row} * head_dim * kPanelLanes);
    }
  }
}

// row[j] = soft_cap * tanh(row[j]).
void CapRow(float* row, int64_t length, float soft_cap) {
  const FloatTag df;
  const auto cap = hn::Set(df, soft_cap);
  const auto step = static_cast<int64_t>(hn::Lanes(df));
  int64_t j = 0;
  for (; j + step <= length; j += step) hn::StoreU(hn::Mul(cap, Tanh(hn::LoadU(df, row + j))), df, row + j);
  if (j < length) {
    HWY_ALIGN float rest[HWY_LANES(float)] = {};
    std::copy(row + j, row + length, rest);
    hn::Store(hn::Mul(cap, Tanh(hn::Load(df, rest))), df, rest);
    std::copy(rest, rest + (length - j), row + j);
  }
}

void ScoreBlockImpl(const float* q, int64_t q_stride, int32_t num_rows, const float* packed, int32_t head_dim,
                    int32_t column_begin, int32_t column_end, float factor, float soft_cap, float* scores, int64_t ld) {
  for (int32_t panel_begin = column_begin / kPanelLanes * kPanelLanes; panel_begin < column_end;
       panel_begin += kPanelLanes) {
    const float* panel = packed + int64_t{panel_begin} * head_dim;
    const int32_t lane_begin = std::max(column_begin - panel_begin, 0);
    const int32_t lane_end = std::min(column_end - panel_begin, kPanelLanes);
    float* target = scores + (panel_begin + lane_begin - column_begin);
    if (lane_begin % kLanes == 0 && lane_end % kLanes == 0) {
      MultiplyPanel(ScalarOperand{q, q_stride, 1}, num_rows, panel, lane_begin, lane_end, head_dim, Overwrite{factor},
                    target, ld);
      continue;
    }
    // A block that begins or ends inside a vector: its columns alone may be written.
    HWY_ALIGN float edge[kMicroRows * kPanelLanes];
    const int32_t first_lane = lane_begin / kLanes * kLanes;
    for (int32_t row = 0; row < num_rows; row += kMicroRows) {
      const int32_t rows = std::min(kMicroRows, num_rows - row);
      MultiplyPanel(ScalarOperand{q + row * q_stride, q_stride, 1}, rows, panel, first_lane, lane_end, head_dim,
                    Overwrite{factor}, edge + first_lane, kPanelLanes);
      for (int32_t i = 0; i < rows; ++i) {
        std::copy(edge + i * kPanelLanes + lane_begin, edge + i * kPanelLanes + lane_end, target + (row + i) * ld);
      }
    }
  }
  if (soft_cap > 0.0f) {
    for (int32_t row = 0; row < num_rows; ++row) CapRow(scores + row * ld, column_end - column_begin, soft_cap);
  }
}

// Independent vectors per step of the row functions: hides the latency of one maximum or addition behind the others.
constexpr int kChains = 4;

float ExpInPlaceImpl(float* row, int64_t length, float shift) {
  const FloatTag df;
  const auto subtrahend = hn::Set(df, shift);
  const int64_t step = kChains * kLanes;
  // Lane sums run over at most 16 vectors before they go into a double, so the sum's error does not grow with the
  // length.
  double total = 0.0;
  int64_t j = 0;
  while (j + step <= length) {
    FloatVec sum[kChains];
#pragma GCC unroll 8
    for (int c = 0; c < kChains; ++c) sum[c] = hn::Zero(df);
    for (int i = 0; i < 16 && j + step <= length; ++i, j += step) {
#pragma GCC unroll 8
      for (int c = 0; c < kChains; ++c) {
        const auto weight = Exp(hn::Sub(hn::LoadU(df, row + j + c * kLanes), subtrahend));
        hn::StoreU(weight, df, row + j + c * kLanes);
        sum[c] = hn::Add(sum[c], weight);
      }
    }
    const auto both = hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3]));
    total += static_cast<double>(hn::GetLane(hn::SumOfLanes(df, both)));
  }
  for (; j < length; j += kLanes) {
    const int64_t count = std::min<int64_t>(kLanes, length - j);
    HWY_ALIGN float rest[HWY_LANES(float)] = {};
    std::copy_n(row + j, count, rest);
    hn::Store(Exp(hn::Sub(hn::Load(df, rest), subtrahend)), df, rest);
    std::copy_n(rest, count, row + j);
    for (int64_t i = 0; i < count; ++i) total += static_cast<double>(rest[i]);
  }
  return static_cast<float>(total);
}

float MaxOfImpl(const float* row, int64_t length) {
  const FloatTag df;
  const int64_t step = kChains * kLanes;
  const auto minus_infinity = hn::Set(df, -std::numeric_limits<float>::infinity());
  FloatVec best[kChains];
#pragma GCC unroll 8
  for (int c = 0; c < kChains; ++c) best[c] = minus_infinity;
  int64_t j = 0;
  for (; j + step <= length; j += step) {
#pragma GCC unroll 8
    for (int c = 0; c < kChains; ++c) best[c] = hn::Max(best[c], hn::LoadU(df, row + j + c * kLanes));
  }
  const auto all = hn::Max(hn::Max(best[0], best[1]), hn::Max(best[2], best[3]));
  // A row shorter than a step has nothing in the vectors.
  float maximum = j == 0 ? -std::numeric_limits<float>::infinity() : hn::GetLane(hn::MaxOfLanes(df, all));
  for (; j < length; ++j) maximum = std::max(maximum, row[j]);
  return maximum;
}

double SumInDoubles(const float* values, int64_t length) {
  const hn::ScalableTag<double> dd;
  const hn::Rebind<float, hn::ScalableTag<double>> as_many;
  const auto lanes = static_cast<int64_t>(hn::Lanes(dd));
  hn::Vec<hn::ScalableTag<double>> sum[kChains];
#pragma GCC unroll 8
  for (int c = 0; c < kChains; ++c) sum[c] = hn::Zero(dd);
  int64_t j = 0;
  for (; j + kChains * lanes <= length; j += kChains * lanes) {
#pragma GCC unroll 8
    for (int c = 0; c < kChains; ++c)
      sum[c] = hn::Add(sum[c], hn::PromoteTo(dd, hn::LoadU(as_many, values + j + c * lanes)));
  }
  const auto all = hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3]));
  double total = hn::GetLane(hn::SumOfLanes(dd, all));
  for (; j < length; ++j) total += static_cast<double>(values[j]);
  return total;
}

RowShare MoveAboveToFrontImpl(float* values, int64_t length, float bound, float* HWY_RESTRICT scratch) {
  const FloatTag df;
  const hn::RebindToSigned<FloatTag> di;
  const auto key = std::bit_cast<int32_t>(bound);
  const auto keys = hn::Set(di, key);
  int64_t front = 0, behind = 0, j = 0;
  // A vector is loaded before what goes to the front may reach it: that is never further than what was read.
  for (; j + kLanes <= length; j += kLanes) {
    const auto value = hn::LoadU(df, values + j);
    const auto above = hn::RebindMask(df, hn::Gt(hn::BitCast(di, value), keys));
    const auto count = static_cast<int64_t>(hn::CountTrue(df, above));
    hn::StoreU(hn::Compress(value, above), df, values + front);
    hn::StoreU(hn::CompressNot(value, above), df, scratch + behind);
    front += count;
    behind += kLanes - count;
  }
  for (; j < length; ++j) {
    const float value = values[j];
    (std::bit_cast<int32_t>(value) > key ? values[front++] : scratch[behind++]) = value;
  }
  std::copy_n(scratch, behind, values + front);
  return {front, SumInDoubles(values, front)};
}

}  // namespace headscope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headscope::kernels {

HWY_EXPORT(PackKeys);
HWY_EXPORT(PackGroups);
HWY_EXPORT(ScoreBlockImpl);
HWY_EXPORT(ExpInPlaceImpl);
HWY_EXPORT(MaxOfImpl);
HWY_EXPORT(MoveAboveToFrontImpl);

void PackedKeys::Free::operator()(float* p) const {
  FreeAlignedFloats()(p);
}

PackedKeys::PackedKeys(int32_t seq_k, int32_t head_dim)
    : seq_k_(seq_k), head_dim_(head_dim), data_(AllocateFloats(PanelFloats(seq_k, head_dim)).release()) {}

PackedKeys::PackedKeys(const void* k, DType dtype, int64_t row_stride, int32_t seq_k, int32_t head_dim)
    : PackedKeys(seq_k, head_dim) {
  const AlignedFloats staging = AllocateFloats(PanelFloats(1, head_dim));
  HWY_DYNAMIC_DISPATCH(PackKeys)(RowsView{k, 0, row_stride}, dtype, seq_k, head_dim, staging.get(), data_.get());
}

PackedKeys PackedKeys::OfGroups(const void* k, DType dtype, int64_t row_stride, int32_t seq_k, int32_t head_dim,
                                int32_t size) {
  PackedKeys keys((seq_k + size - 1) / size, size * head_dim);
  const AlignedFloats staging = AllocateFloats(PanelFloats(1, head_dim));
  HWY_DYNAMIC_DISPATCH(PackGroups)
  (RowsView{k, 0, row_stride}, dtype, seq_k, head_dim, size, staging.get(), keys.data_.get());
  return keys;
}

void ScoreBlock(const float* q, int64_t q_stride, int32_t num_rows, const PackedKeys& keys, int32_t column_begin,
                int32_t column_end, float scale, float soft_cap, float* scores, int64_t ld) {
  // The cap's argument is scale * q.k / soft_cap, so the division goes into the product's factor.
  const float factor = soft_cap > 0.0f ? scale / soft_cap : scale;
  HWY_DYNAMIC_DISPATCH(ScoreBlockImpl)
  (q, q_stride, num_rows, keys.data(), keys.head_dim(), column_begin, column_end, factor, soft_cap, scores, ld);
}

float ExpInPlace(float* row, int64_t n, float shift) {
  return HWY_DYNAMIC_DISPATCH(ExpInPlaceImpl)(row, n, shift);
}

float MaxOf(const float* row, int64_t n) {
  return HWY_DYNAMIC_DISPATCH(MaxOfImpl)(row, n);
}

RowShare MoveAboveToFront(float* values, int64_t n, float bound, float* scratch) {
  return HWY_DYNAMIC_DISPATCH(MoveAboveToFrontImpl)(values, n, bound, scratch);
}

}  // namespace headscope::kernels
#endif  // HWY_ONCE
