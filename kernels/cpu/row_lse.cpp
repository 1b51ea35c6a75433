// RowLse: blocks of 64 query rows stream over blocks of columns; each row keeps a running maximum and a running sum.
#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <string>
#include <vector>

#include "internal/element.h"
#include "internal/parallel_for.h"
#include "kernels/cpu_scores.h"
#include "methods/checks.h"
#include "problem_view.h"

namespace headscope::kernels {
namespace {

constexpr int32_t kBlockRows = 64;
constexpr int32_t kBlockColumns = 512;  // 64 * 512 * 4 bytes = 128 KiB of scores: inside L2
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

struct Scratch {
  std::vector<float> q;
  std::vector<float> scores;
};

// The columns that a row at `position` keeps, clipped to [block_begin, block_end) and counted from block_begin.
struct Clip {
  int32_t begin;
  int32_t end;
};
Clip ClipToBlock(int64_t position, int32_t window, int32_t block_begin, int32_t block_end) {
  const int64_t first = window > 0 ? std::max<int64_t>(0, position - window + 1) : 0;
  const int64_t begin = std::clamp<int64_t>(first, block_begin, block_end);
  const int64_t end = std::clamp<int64_t>(position + 1, begin, block_end);
  return {static_cast<int32_t>(begin - block_begin), static_cast<int32_t>(end - block_begin)};
}

// Rows [row_begin, row_begin + rows) of one head.
void RowBlockLse(const AttentionProblem& problem, const RowsView& q, const PackedKeys& keys, int32_t window,
                 int32_t row_begin, int32_t rows, Scratch& scratch, float* lse) {
  const int32_t head_dim = problem.head_dim;
  scratch.q.resize(static_cast<size_t>(kBlockRows) * static_cast<size_t>(head_dim));
  scratch.scores.resize(static_cast<size_t>(kBlockRows) * kBlockColumns);
  for (int32_t i = 0; i < rows; ++i) {
    internal::LoadRow(q.data, problem.dtype, q.offset + (row_begin + i) * q.row_stride, head_dim,
                      scratch.q.data() + int64_t{i} * head_dim);
  }
  float maximum[kBlockRows];
  double sum[kBlockRows] = {};
  std::fill_n(maximum, kBlockRows, kMinusInfinity);

  const int64_t first_position = int64_t{problem.first_position} + row_begin;
  const auto columns_end = static_cast<int32_t>(std::min<int64_t>(problem.seq_k, first_position + rows));
  const int64_t columns_begin = window > 0 ? std::max<int64_t>(0, first_position - window + 1) : 0;
  for (int64_t begin = columns_begin; begin < columns_end; begin += kBlockColumns) {
    const auto block_begin = static_cast<int32_t>(begin);
    const auto block_end = static_cast<int32_t>(std::min<int64_t>(begin + kBlockColumns, columns_end));
    ScoreBlock(scratch.q.data(), head_dim, rows, keys, block_begin, block_end, EffectiveScale(problem),
               problem.soft_cap, scratch.scores.data(), kBlockColumns);
    for (int32_t i = 0; i < rows; ++i) {
      const Clip clip = ClipToBlock(first_position + i, window, block_begin, block_end);
      if (clip.begin >= clip.end) continue;
      float* row = scratch.scores.data() + int64_t{i} * kBlockColumns + clip.begin;
      const float block_maximum = MaxOf(row, clip.end - clip.begin);
      if (block_maximum > maximum[i]) {
        sum[i] *= std::exp(static_cast<double>(maximum[i]) - static_cast<double>(block_maximum));
        maximum[i] = block_maximum;
      }
      // A row of which every score is -inf so far has no finite shift; it adds nothing.
      if (maximum[i] == kMinusInfinity) continue;
      sum[i] += static_cast<double>(ExpInPlace(row, clip.end - clip.begin, maximum[i]));
    }
  }
  for (int32_t i = 0; i < rows; ++i) {
    lse[i] = sum[i] == 0.0 ? kMinusInfinity : static_cast<float>(static_cast<double>(maximum[i]) + std::log(sum[i]));
  }
}

}  // namespace

Status RowLse(const AttentionProblem& problem, int32_t window, const RunOptions& options, float* lse) {
  if (Status s = internal::CheckProblem(problem, /*reads_v=*/false); !s.ok()) return s;
  if (window < 0)
    return {StatusCode::kInvalidArgument, "window " + std::to_string(window) + ": must be positive, or 0 for none"};
  if (lse == nullptr) {
    return {StatusCode::kInvalidArgument, "lse is null: give room for [batch, num_qo_heads, seq_q] floats"};
  }
  const int32_t group = problem.GroupSize();
  const int64_t blocks = (int64_t{problem.seq_q} + kBlockRows - 1) / kBlockRows;
  const int64_t tasks = blocks * group;
  try {
    std::vector<Scratch> scratch(static_cast<size_t>(internal::NumWorkers(options, tasks)));
    // One KV head at a time: its packed keys serve all query heads of its group, and only one head is held.
    for (int64_t kv = 0; kv < int64_t{problem.batch} * problem.num_kv_heads; ++kv) {
      const int64_t sequence = kv / problem.num_kv_heads;
      const int64_t kv_head = kv % problem.num_kv_heads;
      const RowsView k = RowsOf(problem.k, sequence, kv_head);
      const auto* k_first = static_cast<const char*>(k.data) + k.offset * SizeOf(problem.dtype);
      const PackedKeys keys(k_first, problem.dtype, k.row_stride, problem.seq_k, problem.head_dim);
      Status status = internal::ParallelFor(tasks, 1, options, [&](int64_t begin, int64_t end, int32_t worker) {
        for (int64_t task = begin; task < end; ++task) {
          const int64_t head = kv_head * group + task % group;
          const auto row_begin =
              static_cast<int32_t>((blocks - 1 - task / group) * kBlockRows);  // later rows are longer: first
          const int32_t rows = std::min(kBlockRows, problem.seq_q - row_begin);
          RowBlockLse(problem, RowsOf(problem.q, sequence, head), keys, window, row_begin, rows,
                      scratch[static_cast<size_t>(worker)],
                      lse + (sequence * problem.num_qo_heads + head) * problem.seq_q + row_begin);
        }
      });
      if (!status.ok()) return status;
    }
  } catch (const std::bad_alloc&) {
    return {StatusCode::kOutOfMemory, "not enough memory for the packed keys of one head (" +
                                          std::to_string(int64_t{problem.seq_k} * problem.head_dim * 4) + " bytes)"};
  }
  return {};
}

}  // namespace headscope::kernels
