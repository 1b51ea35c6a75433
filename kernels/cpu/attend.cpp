// AttendCpu: the tiles of a SparseIndex, longest first, one thread each.
#include <algorithm>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "highway_targets.h"
#include "index/checks.h"
#include "internal/parallel_for.h"
#include "kernels/cpu_executor.h"
#include "problem_view.h"
#include "tile_attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attend.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "tile_attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headscope::kernels::HWY_NAMESPACE {

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
      if (belongs(runs[i]) && !runs[i].Partial()) attention.AddRange(part.rows, runs[i].start, runs[i].End());
    }
    // Single columns belong to all rows and share a block with the last short runs.
    if (part.half_flags == 0)
      attention.AddColumns(part.rows, index.columns + index.column_begin[list], index.column_count[list]);
    attention.Flush(part.rows);
    for (int32_t i = 0; i < num_runs; ++i) {
      if (belongs(runs[i]) && runs[i].Partial())
        attention.AddPartial(part.rows, runs[i].start, runs[i].End(), index.rule);
    }
  }

  const StridedTensor<void>& o = output.o;
  float* const lse = output.lse == nullptr
                         ? nullptr
                         : output.lse + (int64_t{sequence} * index.num_qo_heads + head) * index.seq_q + first_row;
  attention.Store(
      static_cast<float*>(o.data) + sequence * o.batch_stride + head * o.head_stride + first_row * o.row_stride,
      o.row_stride, lse);
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
  Status status = internal::CheckIndexOfProblem(problem, index);
  if (status.ok()) status = internal::CheckOutput(problem, output);
  if (status.ok()) status = CheckCpuLimits(problem);
  if (!status.ok()) return status;
  const int64_t num_tiles = index.NumRowTiles();
  try {
    const std::vector<int64_t> order = LongestFirst(index);
    std::vector<std::unique_ptr<TileScratch>> scratch(
        static_cast<size_t>(internal::NumWorkers(options, index.NumLists())));
    return internal::ParallelFor(index.NumLists(), 1, options, [&](int64_t begin, int64_t end, int32_t worker) {
      std::unique_ptr<TileScratch>& mine = scratch[static_cast<size_t>(worker)];
      // Allocated by its own thread: first touched where it is used.
      if (mine == nullptr) mine = std::make_unique<TileScratch>(problem.head_dim);
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
