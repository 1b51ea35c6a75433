// SPDX-License-Identifier: Apache-2.0
// AttendCpu: the tiles of a SparseIndex, longest first, one thread each.
#include <algorithm>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "executor_checks.h"
#include "highway_targets.h"
#include "internal/parallel_for.h"
#include "kernels/cpu_executor.h"
#include "problem_view.h"
#include "tile_attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attend_cpu.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "tile_attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headscope::kernels::HWY_NAMESPACE {

// The part of a tile's run, or of one of its single columns, that the problem's window leaves to its rows. Columns that
// some rows see and others do not are masked, by the index's own rule too where the run is partial.
class InsideWindow {
 public:
  InsideWindow(const AttentionProblem& problem, const SparseIndexView& index, int32_t first_row, int32_t num_rows)
      : rule_(index.rule), window_(problem.window) {
    const int64_t first = int64_t{index.first_position} + first_row - window_ + 1;
    seen_by_some_ = static_cast<int32_t>(std::max<int64_t>(0, first));
    seen_by_all_ = static_cast<int32_t>(std::max<int64_t>(0, first + num_rows - 1));
  }

  // First column that every row of the tile sees, as far as the window goes.
  int32_t seen_by_all() const { return seen_by_all_; }

  void AddMasked(TileAttention& attention, TileRows rows, int32_t begin, int32_t end, bool partial) const {
    begin = std::max(begin, seen_by_some_);
    if (begin >= end) return;
    ElementRule rule{MaskKind::kCausalWindow, window_, 0};
    if (!partial || rule_.kind != MaskKind::kCausalWindow) return attention.AddPartial(rows, begin, end, rule);
    const int32_t sinks_end = std::clamp(rule_.num_sinks, begin, end);
    attention.AddPartial(rows, begin, sinks_end, rule);
    rule.window = std::min(window_, rule_.window);
    attention.AddPartial(rows, sinks_end, end, rule);
  }

 private:
  ElementRule rule_;
  int32_t window_;
  int32_t seen_by_some_, seen_by_all_;
};

void AttendTile(const AttentionProblem& problem, const SparseIndexView& index, int32_t sequence, int32_t head,
                int32_t tile, const AttentionOutput& output, TileScratch& scratch) {
  const int32_t first_row = tile * index.tile_rows;
  const int32_t num_rows = std::min(index.tile_rows, index.seq_q - first_row);
  const int32_t half = std::min(index.tile_rows / 2, num_rows);
  const int32_t kv_head = head / problem.GroupSize();
  RowsView q = RowsOf(problem.q, sequence, head);
  q.offset += first_row * q.row_stride;
  TileAttention attention(problem, q, RowsOf(problem.k, sequence, kv_head), RowsOf(problem.v, sequence, kv_head),
                          num_rows, index.first_position + first_row, scratch);

  const int64_t list = index.ListId(sequence, head, tile);
  const KeyRun* const runs = index.runs + index.run_begin[list];
  const int32_t num_runs = index.run_count[list];
  const bool windowed = problem.window > 0;
  const InsideWindow inside(problem, index, first_row, num_rows);
  struct Part {
    uint32_t half_flags;
    TileRows rows;
  };
  for (const Part& part :
       {Part{0, {0, num_rows}}, Part{kRunUpperHalf, {0, half}}, Part{kRunLowerHalf, {half, num_rows}}}) {
    if (part.rows.begin == part.rows.end) continue;
    const auto belongs = [&part](const KeyRun& run) {
      return (run.Flags() & (kRunUpperHalf | kRunLowerHalf)) == part.half_flags;
    };
    for (int32_t i = 0; i < num_runs; ++i) {
      if (!belongs(runs[i]) || runs[i].Partial()) continue;
      const int32_t begin = windowed ? std::max(runs[i].start, inside.seen_by_all()) : runs[i].start;
      if (begin < runs[i].End()) attention.AddRange(part.rows, begin, runs[i].End());
    }
    const int32_t* const columns = index.columns + index.column_begin[list];
    const int32_t* const columns_end = columns + index.column_count[list];
    const int32_t* const seen = windowed ? std::lower_bound(columns, columns_end, inside.seen_by_all()) : columns;
    // Single columns belong to all rows and share a block with the last short runs.
    if (part.half_flags == 0) attention.AddColumns(part.rows, seen, columns_end - seen);
    attention.Flush(part.rows);
    for (int32_t i = 0; i < num_runs; ++i) {
      if (!belongs(runs[i])) continue;
      if (windowed) {
        const int32_t end = runs[i].Partial() ? runs[i].End() : std::min(runs[i].End(), inside.seen_by_all());
        inside.AddMasked(attention, part.rows, runs[i].start, end, runs[i].Partial());
      } else if (runs[i].Partial()) {
        attention.AddPartial(part.rows, runs[i].start, runs[i].End(), index.rule);
      }
    }
    if (part.half_flags != 0) continue;
    for (const int32_t* column = columns; column != seen; ++column) {
      inside.AddMasked(attention, part.rows, *column, *column + 1, false);
    }
  }
  if (problem.sinks != nullptr) attention.AddSink(problem.sinks[head]);

  const StridedTensor<void>& o = output.o;
  const int64_t row = (int64_t{sequence} * index.num_qo_heads + head) * index.seq_q + first_row;
  attention.Store(
      static_cast<float*>(o.data) + sequence * o.batch_stride + head * o.head_stride + first_row * o.row_stride,
      o.row_stride, output.lse == nullptr ? nullptr : output.lse + row,
      output.row_max == nullptr ? nullptr : output.row_max + row);
}

}  // namespace headscope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headscope::kernels {

HWY_EXPORT(AttendTile);

namespace {

// Lists by falling number of key columns, so that the last thread to finish holds a short one. Equal lists keep their
// order: tiles of a head, which read the same keys, run one after the other.
std::vector<int64_t> LongestFirst(const SparseIndexView& index) {
  const auto num_lists = static_cast<size_t>(index.NumLists());
  std::vector<int64_t> work(num_lists);
  std::vector<int64_t> order(num_lists);
  for (size_t list = 0; list < num_lists; ++list) {
    order[list] = static_cast<int64_t>(list);
    work[list] = index.column_count[list];
    for (int32_t i = 0; i < index.run_count[list]; ++i) work[list] += index.runs[index.run_begin[list] + i].Length();
  }
  std::stable_sort(order.begin(), order.end(), [&work](int64_t a, int64_t b) {
    return work[static_cast<size_t>(a)] > work[static_cast<size_t>(b)];
  });
  return order;
}

}  // namespace

Status AttendCpu(const AttentionProblem& problem, const SparseIndexView& index, const AttentionOutput& output,
                 const RunOptions& options) {
  if (Status status = CheckAttend(problem, index, output); !status.ok()) return status;
  const int64_t num_tiles = index.NumRowTiles();
  try {
    const std::vector<int64_t> order = LongestFirst(index);
    std::vector<std::unique_ptr<TileScratch>> scratch(
        static_cast<size_t>(internal::NumWorkers(options, index.NumLists())));
    return internal::ParallelFor(index.NumLists(), 1, options, [&](int64_t begin, int64_t end, int32_t worker) {
      std::unique_ptr<TileScratch>& mine = scratch[static_cast<size_t>(worker)];
      // Allocated by its own thread: first touched where it is used.
      if (mine == nullptr) mine = std::make_unique<TileScratch>(problem.head_dim, problem.ValueDim());
      for (int64_t i = begin; i < end; ++i) {
        const int64_t list = order[static_cast<size_t>(i)];
        const int64_t head = list / num_tiles;
        HWY_DYNAMIC_DISPATCH(AttendTile)
        (problem, index, static_cast<int32_t>(head / index.num_qo_heads),
         static_cast<int32_t>(head % index.num_qo_heads), static_cast<int32_t>(list % num_tiles), output, *mine);
      }
    });
  } catch (const std::bad_alloc&) {
    return {StatusCode::kOutOfMemory, "not enough memory to order " + std::to_string(index.NumLists()) + " row tiles"};
  }
}

}  // namespace headscope::kernels
#endif  // HWY_ONCE
