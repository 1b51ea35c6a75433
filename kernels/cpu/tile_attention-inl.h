// SPDX-License-Identifier: Apache-2.0
// Attention of one tile of query rows over keys that its caller names run by run. Per-target header.
//
// Method: queries lie in panels of 64 lanes. Keys arrive as blocks of at most kBlockKeys rows, read in place (fp32
// runs) or collected and converted into the scratch; a block goes through Q K^T, one online-softmax step and P V. One
// state serves full runs, partial runs and single columns. Only keys that some row of the tile keeps are ever read. A
// NaN or infinity in the value of such a key may reach the tile's other rows (0 * NaN).
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#if defined(HEADSCOPE_KERNELS_CPU_TILE_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADSCOPE_KERNELS_CPU_TILE_ATTENTION_INL_H_
#undef HEADSCOPE_KERNELS_CPU_TILE_ATTENTION_INL_H_
#else
#define HEADSCOPE_KERNELS_CPU_TILE_ATTENTION_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include "convert-inl.h"
#include "kernels/attention_problem.h"
#include "kernels/sparse_index.h"
#include "micro_kernel-inl.h"
#include "online_softmax-inl.h"
#include "problem_view.h"
#include "tile_attention.h"

HWY_BEFORE_NAMESPACE();
namespace headscope::kernels::HWY_NAMESPACE {

// Rows [begin, end) of the tile; begin is a multiple of 32, the smallest half of a tile, and so of every vector length.
struct TileRows {
  int32_t begin;
  int32_t end;
};

class TileAttention {
 public:
  // q: the tile's query rows. first_position: token position of the tile's row 0.
  TileAttention(const AttentionProblem& problem, const RowsView& q, const RowsView& k, const RowsView& v,
                int32_t num_rows, int32_t first_position, TileScratch& scratch)
      : problem_(problem),
        k_(k),
        v_(v),
        num_rows_(num_rows),
        first_position_(first_position),
        scratch_(scratch),
        has_values_(v.data != nullptr) {
    const bool capped = problem.soft_cap > 0.0f;
    const float scale = problem.EffectiveScale();
    // tanh wants natural units; otherwise scores are in base 2 from the start.
    const float factor = capped ? scale / problem.soft_cap : scale * std::numbers::log2e_v<float>;
    cap_ = capped ? problem.soft_cap * std::numbers::log2e_v<float> : 0.0f;
    for (int32_t row = 0; row < num_rows; row += kPanelLanes) {
      PackPanel(q, row, problem.dtype, std::min(kPanelLanes, num_rows - row), problem.head_dim, factor,
                scratch.staging.get(), scratch.q.get() + int64_t{row} * problem.head_dim);
    }
    const int64_t padded_rows = NumPanels(num_rows) * kPanelLanes;
    if (has_values_) std::fill_n(scratch.o.get(), padded_rows * problem.ValueDim(), 0.0f);
    std::fill_n(scratch.maximum, padded_rows, -std::numeric_limits<float>::infinity());
    std::fill_n(scratch.sum, padded_rows, 0.0f);
  }

  // Every row of `rows` keeps columns [begin, end). Short ranges wait in the scratch until Flush().
  void AddRange(TileRows rows, int32_t begin, int32_t end) {
    while (problem_.dtype == DType::kFloat32 && end - begin >= kDirectKeys) {
      const int32_t count = std::min(kBlockKeys, end - begin);
      AttendBlock(rows, InPlace(begin, count));
      begin += count;
    }
    while (begin < end) {
      const int32_t count = std::min(kBlockKeys - num_collected_, end - begin);
      Collect(rows, begin, count);
      begin += count;
    }
  }

  void AddColumns(TileRows rows, const int32_t* columns, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      // Single columns lie anywhere: without a hint each one waits for memory.
      if (i + kPrefetchColumns < count) PrefetchKey(columns[i + kPrefetchColumns]);
      Collect(rows, columns[i], 1);
    }
  }

  // Attends what waits. All AddRange and AddColumns calls since the last Flush must have named the same rows.
  void Flush(TileRows rows) {
    if (num_collected_ > 0) AttendBlock(rows, InScratch(num_collected_));
    num_collected_ = 0;
  }

  // `rows` keep those elements of columns [begin, end) that the rule keeps. Nothing may wait.
  void AddPartial(TileRows rows, int32_t begin, int32_t end, const ElementRule& rule) {
    if (rule.kind == MaskKind::kNone) {
      AddRange(rows, begin, end);
      return Flush(rows);
    }
    // On either side of the last sink, the columns that one row or another keeps are an interval.
    const int32_t boundary = rule.kind == MaskKind::kCausalWindow ? std::clamp(rule.num_sinks, begin, end) : end;
    AddMasked(rows, begin, boundary, rule);
    AddMasked(rows, boundary, end, rule);
  }

  // A logit in natural units that joins the softmax of every row and has no value. After all keys, before Store.
  void AddSink(float logit) {
    sink_ = static_cast<double>(logit) * std::numbers::log2e;
    has_sink_ = true;
  }

  // Divides by the sums and writes o (fp32 rows, row_stride apart) and, unless null, the rows' natural-log lse and
  // their largest scores, without the sink.
  void Store(float* o, int64_t row_stride, float* lse, float* row_max) {
    const FloatTag df;
    const int32_t head_dim = problem_.ValueDim();
    if (lse != nullptr) StoreLse(lse);
    // The maximum forgets a NaN at the next key; the sum does not.
    for (int32_t row = 0; row_max != nullptr && row < num_rows_; ++row) {
      const float sum = scratch_.sum[row];
      row_max[row] = std::isnan(sum) ? sum : scratch_.maximum[row] * std::numbers::ln2_v<float>;
    }
    for (int32_t row = 0; has_sink_ && row < num_rows_; ++row) scratch_.sum[row] = SumWithSink(row);
    for (int32_t row = 0; row < num_rows_; row += kPanelLanes) {
      float* const panel = scratch_.o.get() + int64_t{row} * head_dim;
      for (int32_t lane = 0; lane < kPanelLanes; lane += kLanes) {
        const auto sum = hn::Load(df, scratch_.sum + row + lane);
        // A row that kept nothing has sum 0 and gives 0.
        const auto inverse = hn::IfThenZeroElse(hn::Eq(sum, hn::Zero(df)), hn::Div(hn::Set(df, 1.0f), sum));
        for (int32_t d = 0; d < head_dim; ++d) {
          float* const element = panel + d * kPanelLanes + lane;
          hn::Store(hn::Mul(inverse, hn::Load(df, element)), df, element);
        }
      }
      Transpose(panel, kPanelLanes, head_dim, std::min(kPanelLanes, num_rows_ - row), 1.0f, o + row * row_stride,
                row_stride);
    }
  }

  // lse[row] = natural logarithm of the row's sum of exp(score), a sink's among them; -inf for a row that kept nothing.
  void StoreLse(float* lse) const {
    for (int32_t row = 0; row < num_rows_; ++row) {
      const double sum = static_cast<double>(scratch_.sum[row]);
      double exponent = sum == 0.0 ? -std::numeric_limits<double>::infinity()
                                   : static_cast<double>(scratch_.maximum[row]) + std::log2(sum);
      if (has_sink_) {
        const double larger = std::max(exponent, sink_);
        exponent = larger + std::log2(std::exp2(exponent - larger) + std::exp2(sink_ - larger));
      }
      lse[row] = static_cast<float>(exponent * std::numbers::ln2);
    }
  }

 private:
  // Rows of K and V as fp32, k_step and v_step floats apart.
  struct KeyBlock {
    const float* k;
    int64_t k_step;
    const float* v;
    int64_t v_step;
    int32_t count;
  };

  static constexpr int64_t kPrefetchColumns = 8;

  // The row's sum of 2^(score - maximum) with the sink's term; infinite when that takes all but nothing of the row.
  float SumWithSink(int32_t row) const {
    const double sum = static_cast<double>(scratch_.sum[row]);
    if (sum == 0.0) return 0.0f;
    return static_cast<float>(sum + std::exp2(sink_ - static_cast<double>(scratch_.maximum[row])));
  }

  void PrefetchKey(int64_t column) const {
    const int64_t element = SizeOf(problem_.dtype);
    const char* const key = static_cast<const char*>(k_.data) + (k_.offset + column * k_.row_stride) * element;
    const char* const value = static_cast<const char*>(v_.data) + (v_.offset + column * v_.row_stride) * element;
    for (int64_t byte = 0; byte < problem_.head_dim * element; byte += 64) hwy::Prefetch(key + byte);
    for (int64_t byte = 0; byte < problem_.ValueDim() * element; byte += 64) hwy::Prefetch(value + byte);
  }

  KeyBlock InPlace(int32_t column, int32_t count) const {
    KeyBlock block{static_cast<const float*>(k_.data) + k_.offset + column * k_.row_stride, k_.row_stride, nullptr, 0,
                   count};
    if (has_values_) {
      block.v = static_cast<const float*>(v_.data) + v_.offset + column * v_.row_stride;
      block.v_step = v_.row_stride;
    }
    return block;
  }
  KeyBlock InScratch(int32_t count) const {
    return {scratch_.keys.get(), problem_.head_dim, scratch_.values.get(), problem_.ValueDim(), count};
  }

  // Copies columns [column, column + count) as fp32 to the scratch's rows from `slot` on.
  void Load(int32_t column, int32_t count, int32_t slot) {
    const int64_t head_dim = problem_.head_dim, v_head_dim = problem_.ValueDim();
    for (int64_t i = 0; i < count; ++i) {
      RowAsFloat(k_.data, k_.offset + (column + i) * k_.row_stride, problem_.dtype, head_dim,
                 scratch_.keys.get() + (slot + i) * head_dim);
      if (!has_values_) continue;
      RowAsFloat(v_.data, v_.offset + (column + i) * v_.row_stride, problem_.dtype, v_head_dim,
                 scratch_.values.get() + (slot + i) * v_head_dim);
    }
  }

  // Appends columns [begin, begin + count) to the waiting block, which has room for them; attends it when it is full.
  void Collect(TileRows rows, int32_t begin, int32_t count) {
    Load(begin, count, num_collected_);
    num_collected_ += count;
    if (num_collected_ == kBlockKeys) Flush(rows);
  }

  // The part of columns [begin, end), all sinks or none, that some row in [rows.begin, rows.end) keeps.
  struct Columns {
    int32_t begin;
    int32_t end;
  };
  Columns KeptBySome(TileRows rows, int32_t begin, int32_t end, const ElementRule& rule) const {
    const int64_t last_position = int64_t{first_position_} + rows.end - 1;
    const int64_t kept_end = std::min<int64_t>(end, last_position + 1);
    int64_t kept_begin = begin;
    if (rule.kind == MaskKind::kCausalWindow && begin >= rule.num_sinks) {
      kept_begin = std::max(kept_begin, int64_t{first_position_} + rows.begin - rule.window + 1);
    }
    if (kept_begin >= kept_end) return {begin, begin};
    return {static_cast<int32_t>(kept_begin), static_cast<int32_t>(kept_end)};
  }

  void AddMasked(TileRows rows, int32_t begin, int32_t end, const ElementRule& rule) {
    const Columns kept = KeptBySome(rows, begin, end, rule);
    for (int32_t first = kept.begin; first < kept.end; first += kBlockKeys) {
      const int32_t count = std::min(kBlockKeys, kept.end - first);
      if (problem_.dtype == DType::kFloat32) {
        AttendBlock(rows, InPlace(first, count), &rule, first);
        continue;
      }
      Load(first, count, 0);
      AttendBlock(rows, InScratch(count), &rule, first);
    }
  }

  // rule: null for a block of which every row keeps every key; otherwise the block is columns first_column,
  // first_column + 1, ...
  void AttendBlock(TileRows rows, const KeyBlock& block, const ElementRule* rule = nullptr, int32_t first_column = 0) {
    for (int32_t panel_begin = rows.begin / kPanelLanes * kPanelLanes; panel_begin < rows.end;
         panel_begin += kPanelLanes) {
      const TileRows in_panel{std::max(rows.begin, panel_begin), std::min(rows.end, panel_begin + kPanelLanes)};
      const Columns columns = rule == nullptr ? Columns{0, block.count}
                                              : KeptBySome(in_panel, first_column, first_column + block.count, *rule);
      const int32_t count = columns.end - columns.begin;
      if (count == 0) continue;
      const int32_t skipped = rule == nullptr ? 0 : columns.begin - first_column;
      const int32_t lane_begin = in_panel.begin - panel_begin;
      const int32_t lane_end = in_panel.end - panel_begin;
      const int32_t head_dim = problem_.head_dim, v_head_dim = problem_.ValueDim();
      float* const scores = scratch_.scores.get();

      MultiplyPanel(ScalarOperand{block.k + skipped * block.k_step, block.k_step, 1}, count,
                    scratch_.q.get() + int64_t{panel_begin} * head_dim, lane_begin, lane_end, head_dim, Overwrite{1.0f},
                    scores + lane_begin, kPanelLanes);
      if (cap_ > 0.0f) CapScores(scores, count, lane_begin, lane_end, cap_);
      if (rule != nullptr)
        MaskScores(scores, count, lane_begin, lane_end, *rule, first_position_ + panel_begin, columns.begin);
      ForLanes(lane_begin, lane_end,
               SoftmaxStep{scores, count, scratch_.maximum + panel_begin, scratch_.sum + panel_begin, scratch_.decay});
      if (!has_values_) continue;
      MultiplyPanel(ScalarOperand{block.v + skipped * block.v_step, 1, block.v_step}, v_head_dim, scores, lane_begin,
                    lane_end, count, DecayAndAdd{scratch_.decay},
                    scratch_.o.get() + int64_t{panel_begin} * v_head_dim + lane_begin, kPanelLanes);
    }
  }

  const AttentionProblem& problem_;
  RowsView k_;
  RowsView v_;
  int32_t num_rows_;
  int32_t first_position_;
  TileScratch& scratch_;
  bool has_values_;
  float cap_ = 0.0f;  // base 2; 0: none
  double sink_ = 0;   // base 2
  bool has_sink_ = false;
  int32_t num_collected_ = 0;
};

}  // namespace headscope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // HEADSCOPE_KERNELS_CPU_TILE_ATTENTION_INL_H_
