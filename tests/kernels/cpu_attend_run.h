// SPDX-License-Identifier: Apache-2.0
// What the tests of AttendCpu share: outputs between guards, indices of every kind, and the float64 reference beside
// the call.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "cpu_test_support.h"
#include "kernels/cpu_executor.h"
#include "kernels/sparse_index.h"

namespace headscope::kernels::test {

inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// What one call wrote, with guard regions around and between the rows.
struct GuardedOutput {
  explicit GuardedOutput(const AttentionProblem& problem, int64_t row_padding = 0)
      : row_stride(problem.head_dim + row_padding),
        rows(int64_t{problem.batch} * problem.num_qo_heads * problem.seq_q),
        o(static_cast<size_t>(2 * kGuard + rows * row_stride), kSentinel),
        lse(static_cast<size_t>(2 * kGuard + rows), kSentinel),
        row_max(lse) {
    view.o = {o.data() + kGuard, problem.num_qo_heads * problem.seq_q * row_stride, problem.seq_q * row_stride,
              row_stride};
    view.lse = lse.data() + kGuard;
    view.row_max = row_max.data() + kGuard;
  }
  const float* Row(int64_t row) const { return o.data() + kGuard + row * row_stride; }
  float Lse(int64_t row) const { return lse[static_cast<size_t>(kGuard + row)]; }
  float Largest(int64_t row) const { return row_max[static_cast<size_t>(kGuard + row)]; }
  void ExpectGuardsUnharmed(int32_t head_dim) const {
    for (size_t i = 0; i < o.size(); ++i) {
      const int64_t at = static_cast<int64_t>(i) - kGuard;
      const bool guard = at < 0 || at >= rows * row_stride || at % row_stride >= head_dim;
      if (!guard) continue;
      ASSERT_EQ(o[i], kSentinel) << "output element " << at << " was written";
    }
    for (int64_t i = 0; i < kGuard; ++i) {
      for (const std::vector<float>& numbers : {lse, row_max}) {
        ASSERT_EQ(numbers[static_cast<size_t>(i)], kSentinel);
        ASSERT_EQ(numbers[numbers.size() - 1 - static_cast<size_t>(i)], kSentinel);
      }
    }
  }

  static constexpr int64_t kGuard = 64;
  int64_t row_stride;
  int64_t rows;
  std::vector<float> o, lse, row_max;
  AttentionOutput view;
};

// Tolerances. fp32 arithmetic on sums of at most 131,072 terms, taken in blocks of 128: relative L2 of the output <=
// 1e-5 (the contract; measured errors are near 5e-7), LSE and largest score within 2e-5 absolute. 16-bit inputs are
// widened exactly, and the reference reads the same stored values, so the tolerance does not depend on the dtype.
inline void ExpectSame(const GuardedOutput& actual, const GuardedOutput& expected, int32_t head_dim) {
  double error = 0, norm = 0, worst_lse = 0, worst_max = 0;
  for (int64_t row = 0; row < expected.rows; ++row) {
    for (int32_t d = 0; d < head_dim; ++d) {
      const double want = expected.Row(row)[d];
      const double got = actual.Row(row)[d];
      ASSERT_FALSE(std::isnan(got)) << "row " << row << " dim " << d;
      error += (got - want) * (got - want);
      norm += want * want;
    }
    if (expected.Largest(row) == kMinusInfinity) {
      ASSERT_EQ(actual.Largest(row), kMinusInfinity) << "row " << row;
    } else {
      worst_max = std::max(
          worst_max, std::abs(static_cast<double>(actual.Largest(row)) - static_cast<double>(expected.Largest(row))));
    }
    if (expected.Lse(row) == kMinusInfinity) {
      ASSERT_EQ(actual.Lse(row), kMinusInfinity) << "row " << row;
      for (int32_t d = 0; d < head_dim; ++d) ASSERT_EQ(actual.Row(row)[d], 0.0f) << "row " << row;
    } else {
      worst_lse =
          std::max(worst_lse, std::abs(static_cast<double>(actual.Lse(row)) - static_cast<double>(expected.Lse(row))));
    }
  }
  EXPECT_LE(std::sqrt(error), 1e-5 * std::sqrt(norm));
  EXPECT_LE(worst_lse, 2e-5);
  EXPECT_LE(worst_max, 2e-5);
}

inline void ExpectEqualsReference(const AttentionProblem& problem, const SparseIndex& index,
                                  const RunOptions& options = {}) {
  GuardedOutput actual(problem, 5), expected(problem, 5);
  const Status reference = AttendReference(problem, index.View(), expected.view);
  ASSERT_TRUE(reference.ok()) << reference.message();
  const Status status = AttendCpu(problem, index.View(), actual.view, options);
  ASSERT_TRUE(status.ok()) << status.message();
  ExpectSame(actual, expected, problem.head_dim);
  actual.ExpectGuardsUnharmed(problem.head_dim);
}

inline SparseIndexBuilder BuilderFor(const AttentionProblem& p, int32_t tile_rows, ElementRule rule) {
  return SparseIndexBuilder({.batch = p.batch,
                             .num_qo_heads = p.num_qo_heads,
                             .seq_q = p.seq_q,
                             .seq_k = p.seq_k,
                             .first_position = p.first_position,
                             .tile_rows = tile_rows,
                             .rule = rule});
}

// Calls fill(builder, first position of the tile, last position of the tile) for every list.
template <typename Fill>
SparseIndex MakeIndex(const AttentionProblem& p, int32_t tile_rows, ElementRule rule, Fill fill) {
  SparseIndexBuilder builder = BuilderFor(p, tile_rows, rule);
  for (int32_t head = 0; head < p.batch * p.num_qo_heads; ++head) {
    for (int32_t row = 0; row < p.seq_q; row += tile_rows) {
      fill(builder, p.first_position + row, p.first_position + std::min(row + tile_rows, p.seq_q) - 1);
      builder.FinishList();
    }
  }
  return builder.Build();
}

inline SparseIndex EverythingIndex(const AttentionProblem& p, int32_t tile_rows, ElementRule rule = {}) {
  return MakeIndex(p, tile_rows, rule,
                   [&p](SparseIndexBuilder& builder, int64_t, int64_t) { builder.AddRange(0, p.seq_k); });
}

// Runs at random places and of random lengths (short, long, unaligned, of one half or both), single columns, and
// sometimes nothing at all.
inline SparseIndex RandomIndex(std::mt19937& random, const AttentionProblem& p, int32_t tile_rows, ElementRule rule) {
  const auto below = [&random](int64_t limit) { return std::uniform_int_distribution<int64_t>(0, limit - 1)(random); };
  return MakeIndex(p, tile_rows, rule, [&](SparseIndexBuilder& builder, int64_t, int64_t last) {
    if (below(8) == 0) return;
    const int64_t reach = rule.kind == MaskKind::kNone ? p.seq_k : std::min<int64_t>(p.seq_k, last + 1);
    const int64_t num_runs = below(6);
    for (int64_t i = 0; i < num_runs; ++i) {
      const int64_t begin = below(reach);
      const int64_t length = below(2) == 0 ? 1 + below(20) : 1 + below(300);
      const uint32_t flags[] = {0, 0, kRunUpperHalf, kRunLowerHalf};
      builder.AddRange(begin, begin + length, flags[below(4)]);
    }
    const int64_t num_columns = below(3) == 0 ? 0 : below(200);
    for (int64_t i = 0; i < num_columns; ++i) builder.AddColumn(below(reach));
  });
}

}  // namespace headscope::kernels::test
