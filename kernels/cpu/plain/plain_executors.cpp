// SPDX-License-Identifier: Apache-2.0
// The executors without vector code: the naive twins' rows on all threads.
#include <algorithm>

#include "executor_checks.h"
#include "internal/parallel_for.h"
#include "kernels/cpu_executor.h"
#include "kernels/cpu_scores.h"
#include "reference_rows.h"

namespace headscope::kernels {
namespace {

// body(sequence, head, row) for every query row.
template <class Body>
Status ForRows(const AttentionProblem& problem, const RunOptions& options, const Body& body) {
  const int64_t rows = int64_t{problem.batch} * problem.num_qo_heads * problem.seq_q;
  return internal::ParallelFor(rows, 1, options, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t head = i / problem.seq_q;
      body(static_cast<int32_t>(head / problem.num_qo_heads), static_cast<int32_t>(head % problem.num_qo_heads),
           static_cast<int32_t>(i % problem.seq_q));
    }
  });
}

}  // namespace

Status AttendCpu(const AttentionProblem& problem, const SparseIndexView& index, const AttentionOutput& output,
                 const RunOptions& options) {
  if (Status status = CheckAttend(problem, index, output); !status.ok()) return status;
  return ForRows(problem, options, [&](int32_t sequence, int32_t head, int32_t row) {
    AttendRow(problem, index, sequence, head, row, output);
  });
}

Status DecodeCpu(const AttentionProblem& problem, const DecodeSelection& selection, const AttentionOutput& output,
                 const RunOptions& options) {
  if (Status status = CheckDecode(problem, selection, output); !status.ok()) return status;
  return ForRows(problem, options, [&](int32_t sequence, int32_t head, int32_t) {
    DecodeHead(problem, selection, sequence, head, output);
  });
}

Status RowLse(const AttentionProblem& problem, int32_t window, const RunOptions& options, float* lse) {
  if (Status status = CheckRowLse(problem, window, lse); !status.ok()) return status;
  return ForRows(problem, options, [&](int32_t sequence, int32_t head, int32_t row) {
    const int32_t end = std::min(problem.seq_k, problem.first_position + row + 1);
    const int32_t begin = window == 0 ? 0 : std::clamp(problem.first_position + row - window + 1, 0, end);
    lse[(int64_t{sequence} * problem.num_qo_heads + head) * problem.seq_q + row] =
        LseOfRow(problem, sequence, head, row, begin, end);
  });
}

}  // namespace headscope::kernels
