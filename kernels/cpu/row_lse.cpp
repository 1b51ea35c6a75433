// SPDX-License-Identifier: Apache-2.0
// RowLse: the attention of every row with everything that it sees, without the values.
#include <algorithm>
#include <memory>
#include <new>
#include <vector>

#include "executor_checks.h"
#include "highway_targets.h"
#include "internal/parallel_for.h"
#include "kernels/cpu_scores.h"
#include "problem_view.h"
#include "tile_attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "row_lse.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "tile_attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headscope::kernels::HWY_NAMESPACE {

// lse[i] of rows first_row + i, i < num_rows, of one head.
void TileLse(const AttentionProblem& problem, int32_t window, int32_t sequence, int32_t head, int32_t first_row,
             int32_t num_rows, float* lse, TileScratch& scratch) {
  RowsView q = RowsOf(problem.q, sequence, head);
  q.offset += first_row * q.row_stride;
  const RowsView no_values{nullptr, 0, 0};
  const int32_t first_position = problem.first_position + first_row;
  TileAttention attention(problem, q, RowsOf(problem.k, sequence, head / problem.GroupSize()), no_values, num_rows,
                          first_position, scratch);

  // Some row sees [begin, end); every row sees [all_begin, all_end), and there the mask is spared.
  const int32_t last_position = first_position + num_rows - 1;
  const int32_t end = std::min(problem.seq_k, last_position + 1);
  const int32_t begin = window == 0 ? 0 : std::clamp(first_position - window + 1, 0, end);
  const int32_t all_begin = window == 0 ? 0 : std::clamp(last_position - window + 1, begin, end);
  const int32_t all_end = std::clamp(first_position + 1, all_begin, end);
  const TileRows rows{0, num_rows};
  const ElementRule rule{window == 0 ? MaskKind::kCausal : MaskKind::kCausalWindow, window, 0};
  attention.AddRange(rows, all_begin, all_end);
  attention.Flush(rows);
  attention.AddPartial(rows, begin, all_begin, rule);
  attention.AddPartial(rows, all_end, end, rule);
  if (problem.sinks != nullptr) attention.AddSink(problem.sinks[head]);
  attention.StoreLse(lse);
}

}  // namespace headscope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headscope::kernels {

HWY_EXPORT(TileLse);

Status RowLse(const AttentionProblem& problem, int32_t window, const RunOptions& options, float* lse) {
  if (Status status = CheckRowLse(problem, window, lse); !status.ok()) return status;
  const int64_t num_tiles = (int64_t{problem.seq_q} + kMaxTileRows - 1) / kMaxTileRows;
  const int64_t num_heads = int64_t{problem.batch} * problem.num_qo_heads;
  const int64_t num_tasks = num_heads * num_tiles;
  try {
    std::vector<std::unique_ptr<TileScratch>> scratch(static_cast<size_t>(internal::NumWorkers(options, num_tasks)));
    return internal::ParallelFor(num_tasks, 1, options, [&](int64_t task_begin, int64_t task_end, int32_t worker) {
      std::unique_ptr<TileScratch>& mine = scratch[static_cast<size_t>(worker)];
      if (mine == nullptr) mine = std::make_unique<TileScratch>(problem.head_dim, problem.ValueDim());
      for (int64_t task = task_begin; task < task_end; ++task) {
        const int64_t head = task % num_heads;
        const auto first_row =
            static_cast<int32_t>((num_tiles - 1 - task / num_heads) * kMaxTileRows);  // later rows see more keys: first
        HWY_DYNAMIC_DISPATCH(TileLse)
        (problem, window, static_cast<int32_t>(head / problem.num_qo_heads),
         static_cast<int32_t>(head % problem.num_qo_heads), first_row,
         std::min(kMaxTileRows, problem.seq_q - first_row), lse + head * problem.seq_q + first_row, *mine);
      }
    });
  } catch (const std::bad_alloc&) {
    return {StatusCode::kOutOfMemory, "not enough memory for one tile of scores per thread"};
  }
}

}  // namespace headscope::kernels
#endif  // HWY_ONCE
