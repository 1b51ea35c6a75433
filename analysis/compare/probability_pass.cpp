// SPDX-License-Identifier: Apache-2.0
#include "compare/probability_pass.h"

#include <algorithm>
#include <vector>

#include "base/stop.h"
#include "kernels/cpu_scores.h"
#include "kernels/parallel.h"

namespace headscope::analysis {
namespace {

// Rows of a step that nobody looks at: their scores in a chunk of columns stay in the L2 cache.
constexpr int64_t kStepRows = 64;
// Columns of a ScoreBlock call, a multiple of every block up to it and a divisor of larger ones.
constexpr int64_t kChunkColumns = 1024;

int64_t NumSteps(const HeadTensors& head, int64_t step_rows) {
  return (head.num_rows + step_rows - 1) / step_rows;
}

}  // namespace

int32_t NumProbabilityWorkers(const HeadTensors& head, int32_t num_threads) {
  return kernels::NumWorkers(num_threads, NumSteps(head, kVisitedRows));
}

void PassProbabilities(const HeadTensors& head, int32_t num_threads, const std::stop_token& stop, const BlockSums* sums,
                       const VisitProbabilities& visit) {
  const kernels::PackedKeys keys(head.k.data(), kernels::DType::kFloat32, head.head_dim,
                                 static_cast<int32_t>(head.num_tokens), head.head_dim);
  const int64_t block_columns = sums != nullptr ? sums->block_columns : kChunkColumns;
  const int64_t num_blocks = (head.num_tokens + block_columns - 1) / block_columns;
  const int64_t step_rows = visit ? kVisitedRows : kStepRows;
  const int64_t steps = NumSteps(head, step_rows);
  std::vector<std::vector<float>> buffers(static_cast<size_t>(kernels::NumWorkers(num_threads, steps)));
  const bool finished = kernels::ParallelFor(steps, num_threads, stop, [&](int64_t step, int32_t worker) {
    // Late rows are the longest: first.
    const int64_t row_begin = (steps - 1 - step) * step_rows;
    const int64_t row_end = std::min(row_begin + step_rows, head.num_rows);
    const int64_t last_column = head.AttendedColumns(row_end - 1).end;
    const int64_t first_column = head.AttendedColumns(row_begin).begin / kChunkColumns * kChunkColumns;
    const int64_t stride = visit ? last_column - first_column : kChunkColumns;
    std::vector<float>& buffer = buffers[static_cast<size_t>(worker)];
    if (buffer.size() < static_cast<size_t>(step_rows * stride)) buffer.resize(static_cast<size_t>(step_rows * stride));
    for (int64_t begin = first_column; begin < last_column; begin += kChunkColumns) {
      const int64_t end = std::min(begin + kChunkColumns, last_column);
      float* const chunk = buffer.data() + (visit ? begin - first_column : 0);
      kernels::ScoreBlock(head.q.data() + row_begin * head.head_dim, head.head_dim,
                          static_cast<int32_t>(row_end - row_begin), keys, static_cast<int32_t>(begin),
                          static_cast<int32_t>(end), head.scale, head.soft_cap, chunk, stride);
      for (int64_t row = row_begin; row < row_end; ++row) {
        const kernels::ColumnRange attended = head.AttendedColumns(row);
        const int64_t from = std::clamp<int64_t>(attended.begin, begin, end);
        const int64_t to = std::clamp<int64_t>(attended.end, from, end);
        float* const scores = chunk + (row - row_begin) * stride - begin;  // by column
        int64_t at = from;
        while (at < to) {
          const int64_t block = at / block_columns;
          const int64_t until = std::min((block + 1) * block_columns, to);
          const float sum = kernels::ExpInPlace(scores + at, until - at, head.lse[static_cast<size_t>(row)]);
          if (sums != nullptr) sums->mass[row * num_blocks + block] += sum;
          at = until;
        }
        if (visit) {
          std::fill(scores + begin, scores + from, 0.0f);
          std::fill(scores + to, scores + end, 0.0f);
        }
      }
    }
    if (visit) visit({row_begin, row_end, first_column, last_column, buffer.data(), stride}, worker);
  });
  StopUnless(finished);
}

}  // namespace headscope::analysis
