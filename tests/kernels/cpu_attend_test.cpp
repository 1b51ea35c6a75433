// AttendCpu against the float64 reference on the same kept set, on every instruction set that this machine has.
//
// Tolerances. fp32 arithmetic on sums of at most 131,072 terms, taken in blocks of 128: relative L2 of the output <=
// 1e-5 (the contract; measured errors are near 5e-7) and LSE within 2e-5 absolute. 16-bit inputs are widened exactly,
// and the reference reads the same stored values, so the tolerance does not depend on the dtype.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cpu_test_support.h"
#include "kernels/cpu_executor.h"
#include "kernels/sparse_index.h"

namespace headscope::kernels {
namespace {

constexpr double kRelativeL2 = 1e-5;
constexpr double kLse = 2e-5;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

using test::MakeProblem;
using test::OwnedProblem;
using test::ProblemShape;

// What one call wrote, with guard regions around and between the rows.
struct Output {
  explicit Output(const AttentionProblem& problem, int64_t row_padding = 0)
      : row_stride(problem.head_dim + row_padding),
        rows(int64_t{problem.batch} * problem.num_qo_heads * problem.seq_q),
        o(static_cast<size_t>(2 * kGuard + rows * row_stride), test::kSentinel),
        lse(static_cast<size_t>(2 * kGuard + rows), test::kSentinel) {
    view.o = {o.data() + kGuard, problem.num_qo_heads * problem.seq_q * row_stride, problem.seq_q * row_stride,
              row_stride};
    view.lse = lse.data() + kGuard;
  }
  const float* Row(int64_t row) const { return o.data() + kGuard + row * row_stride; }
  float Lse(int64_t row) const { return lse[static_cast<size_t>(kGuard + row)]; }
  void ExpectGuardsUnharmed(int32_t head_dim) const {
    for (size_t i = 0; i < o.size(); ++i) {
      const int64_t at = static_cast<int64_t>(i) - kGuard;
      const bool guard = at < 0 || at >= rows * row_stride || at % row_stride >= head_dim;
      if (!guard) continue;
      ASSERT_EQ(o[i], test::kSentinel) << "output element " << at << " was written";
    }
    for (int64_t i = 0; i < kGuard; ++i) {
      ASSERT_EQ(lse[static_cast<size_t>(i)], test::kSentinel);
      ASSERT_EQ(lse[lse.size() - 1 - static_cast<size_t>(i)], test::kSentinel);
    }
  }

  static constexpr int64_t kGuard = 64;
  int64_t row_stride;
  int64_t rows;
  std::vector<float> o, lse;
  AttentionOutput view;
};

void ExpectSame(const Output& actual, const Output& expected, int32_t head_dim) {
  double error = 0, norm = 0, worst_lse = 0;
  for (int64_t row = 0; row < expected.rows; ++row) {
    for (int32_t d = 0; d < head_dim; ++d) {
      const double want = expected.Row(row)[d];
      const double got = actual.Row(row)[d];
      ASSERT_FALSE(std::isnan(got)) << "row " << row << " dim " << d;
      error += (got - want) * (got - want);
      norm += want * want;
    }
    if (expected.Lse(row) == kMinusInfinity) {
      ASSERT_EQ(actual.Lse(row), kMinusInfinity) << "row " << row;
      for (int32_t d = 0; d < head_dim; ++d) ASSERT_EQ(actual.Row(row)[d], 0.0f) << "row " << row;
    } else {
      worst_lse =
          std::max(worst_lse, std::abs(static_cast<double>(actual.Lse(row)) - static_cast<double>(expected.Lse(row))));
    }
  }
  EXPECT_LE(std::sqrt(error), kRelativeL2 * std::sqrt(norm));
  EXPECT_LE(worst_lse, kLse);
}

void ExpectEqualsReference(const AttentionProblem& problem, const SparseIndex& index, const RunOptions& options = {}) {
  Output actual(problem, 5), expected(problem, 5);
  const Status reference = AttendReference(problem, index.View(), expected.view);
  ASSERT_TRUE(reference.ok()) << reference.message();
  const Status status = AttendCpu(problem, index.View(), actual.view, options);
  ASSERT_TRUE(status.ok()) << status.message();
  ExpectSame(actual, expected, problem.head_dim);
  actual.ExpectGuardsUnharmed(problem.head_dim);
}

SparseIndexBuilder BuilderFor(const AttentionProblem& p, int32_t tile_rows, ElementRule rule) {
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

SparseIndex EverythingIndex(const AttentionProblem& p, int32_t tile_rows, ElementRule rule = {}) {
  return MakeIndex(p, tile_rows, rule,
                   [&p](SparseIndexBuilder& builder, int64_t, int64_t) { builder.AddRange(0, p.seq_k); });
}

// Runs at random places and of random lengths (short, long, unaligned, of one half or both), single columns, and
// sometimes nothing at all.
SparseIndex RandomIndex(std::mt19937& random, const AttentionProblem& p, int32_t tile_rows, ElementRule rule) {
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

class CpuAttend : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { test::UseOnlyTarget(GetParam()); }
  void TearDown() override { test::UseAllTargets(); }
};

TEST_P(CpuAttend, RandomIndicesOfEveryLengthGroupAndDtype) {
  std::mt19937 random = test::SeededRandom();
  const DType dtypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
  const std::pair<int32_t, int32_t> heads[] = {{1, 1}, {2, 1}, {4, 1}, {7, 1}, {8, 1}, {4, 2}};
  const ElementRule rules[] = {{}, {MaskKind::kCausalWindow, 40, 5}, {MaskKind::kNone, 0, 0}};
  int32_t turn = 0;
  for (const int32_t length : {1, 63, 64, 65, 127, 300}) {
    for (const int32_t tile_rows : {64, 128}) {
      for (const ElementRule& rule : rules) {
        const auto& [qo_heads, kv_heads] = heads[turn % 6];
        const OwnedProblem owned = MakeProblem(random,
                                               {.batch = 1 + turn % 2,
                                                .num_qo_heads = qo_heads,
                                                .num_kv_heads = kv_heads,
                                                .head_dim = turn % 4 == 3 ? 128 : 64,
                                                .seq_q = length,
                                                .seq_k = length,
                                                .dtype = dtypes[turn % 3]},
                                               /*row_padding=*/turn % 5);
        SCOPED_TRACE("length " + std::to_string(length) + ", tile of " + std::to_string(tile_rows) + ", turn " +
                     std::to_string(turn));
        ExpectEqualsReference(owned.problem, RandomIndex(random, owned.problem, tile_rows, rule));
        ++turn;
      }
    }
  }
}

TEST_P(CpuAttend, EveryHeadDim) {
  std::mt19937 random = test::SeededRandom();
  for (int32_t head_dim = 8; head_dim <= 256; head_dim += head_dim < 72 ? 8 : 40) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      const OwnedProblem owned = MakeProblem(random, {.num_qo_heads = 2,
                                                      .num_kv_heads = 1,
                                                      .head_dim = head_dim,
                                                      .seq_q = 70,
                                                      .seq_k = 150,
                                                      .first_position = 80,
                                                      .dtype = dtype});
      SCOPED_TRACE("head_dim " + std::to_string(head_dim));
      ExpectEqualsReference(owned.problem, RandomIndex(random, owned.problem, 64, {}));
    }
  }
}

TEST_P(CpuAttend, ScaleAndSoftCap) {
  std::mt19937 random = test::SeededRandom();
  for (const float scale : {0.5f, 0.02f}) {
    for (const float soft_cap : {0.0f, 1.5f, 30.0f}) {
      const OwnedProblem owned = MakeProblem(random, {.num_qo_heads = 1,
                                                      .num_kv_heads = 1,
                                                      .head_dim = 64,
                                                      .seq_q = 130,
                                                      .seq_k = 130,
                                                      .scale = scale,
                                                      .soft_cap = soft_cap});
      ExpectEqualsReference(owned.problem, EverythingIndex(owned.problem, 128));
    }
  }
}

// Scores of several hundred: weights underflow and the running maximum moves far.
TEST_P(CpuAttend, LargeScoresStayFinite) {
  std::mt19937 random = test::SeededRandom();
  const OwnedProblem owned = MakeProblem(
      random, {.num_qo_heads = 1, .num_kv_heads = 1, .head_dim = 64, .seq_q = 200, .seq_k = 200, .scale = 10.0f});
  Output actual(owned.problem), expected(owned.problem);
  const SparseIndex index = EverythingIndex(owned.problem, 64);
  ASSERT_TRUE(AttendReference(owned.problem, index.View(), expected.view).ok());
  ASSERT_TRUE(AttendCpu(owned.problem, index.View(), actual.view, {}).ok());
  // A score of 300 has an fp32 rounding error of several 1e-5, which is the relative error of its weight.
  for (int64_t row = 0; row < 200; ++row) {
    EXPECT_NEAR(actual.Lse(row), expected.Lse(row), 1e-6 * std::abs(expected.Lse(row)) + 2e-5);
    for (int32_t d = 0; d < 64; ++d) EXPECT_NEAR(actual.Row(row)[d], expected.Row(row)[d], 1e-3);
  }
}

TEST_P(CpuAttend, EmptyRowsGiveZeroAndMinusInfinity) {
  std::mt19937 random = test::SeededRandom();
  const OwnedProblem owned =
      MakeProblem(random, {.num_qo_heads = 1, .num_kv_heads = 1, .head_dim = 64, .seq_q = 192, .seq_k = 192});
  // Tile 0 is empty, tile 1 keeps keys for its lower half only, and in tile 2 the partial run begins in the middle of
  // the rows.
  SparseIndexBuilder builder = BuilderFor(owned.problem, 64, {});
  builder.FinishList();
  builder.AddRange(3, 70, kRunLowerHalf);
  builder.FinishList();
  builder.AddRange(150, 192);
  builder.FinishList();
  const SparseIndex index = builder.Build();
  ExpectEqualsReference(owned.problem, index);
  Output output(owned.problem);
  ASSERT_TRUE(AttendCpu(owned.problem, index.View(), output.view, {}).ok());
  for (const int64_t row : {0, 63, 64, 95, 128, 149}) {
    EXPECT_EQ(output.Lse(row), kMinusInfinity) << row;
    for (int32_t d = 0; d < 64; ++d) EXPECT_EQ(output.Row(row)[d], 0.0f);
  }
  for (const int64_t row : {96, 127, 150, 191}) EXPECT_NE(output.Lse(row), kMinusInfinity) << row;
}

TEST_P(CpuAttend, UnreadKeysMayBeNaN) {
  std::mt19937 random = test::SeededRandom();
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const ElementRule& rule : {ElementRule{}, ElementRule{MaskKind::kCausalWindow, 9, 2}}) {
      OwnedProblem owned = MakeProblem(random, {.num_qo_heads = 1,
                                                .num_kv_heads = 1,
                                                .head_dim = 64,
                                                .seq_q = 100,
                                                .seq_k = 700,
                                                .first_position = 600,
                                                .dtype = dtype});
      // One tile; the index keeps some columns, and the rule drops some of those again. What no row keeps is poisoned.
      const SparseIndex index = MakeIndex(owned.problem, 128, rule, [](SparseIndexBuilder& builder, int64_t, int64_t) {
        builder.AddRange(0, 7);
        builder.AddRange(100, 333);
        builder.AddRange(590, 650);
        builder.AddRange(690, 698);
        for (const int64_t column : {20, 22, 400, 401, 500}) builder.AddColumn(column);
      });
      std::vector<bool> read(700, false);
      std::vector<ColumnRange> ranges;
      for (int32_t row = 0; row < 100; ++row) AppendKeptRanges(index.View(), 0, 0, row, &ranges);
      for (const ColumnRange& range : ranges) std::fill(read.begin() + range.begin, read.begin() + range.end, true);
      int32_t poisoned = 0;
      for (size_t column = 0; column < 700; ++column) {
        if (read[column]) continue;
        ++poisoned;
        for (test::StoredTensor* tensor : {&owned.k, &owned.v}) {
          for (size_t d = 0; d < 64; ++d) {
            tensor->values[column * 64 + d] = std::numeric_limits<float>::quiet_NaN();
            if (dtype == DType::kBFloat16) tensor->halves[column * 64 + d] = 0x7fc0;
          }
        }
      }
      ASSERT_GT(poisoned, 300);
      owned.Rebind();
      ExpectEqualsReference(owned.problem, index);
    }
  }
}

TEST_P(CpuAttend, KeptNaNShowsInTheOutput) {
  std::mt19937 random = test::SeededRandom();
  OwnedProblem owned = MakeProblem(
      random, {.num_qo_heads = 1, .num_kv_heads = 1, .head_dim = 64, .seq_q = 64, .seq_k = 128, .first_position = 64});
  owned.k.values[10 * 64 + 3] = std::numeric_limits<float>::quiet_NaN();
  Output output(owned.problem);
  ASSERT_TRUE(AttendCpu(owned.problem, EverythingIndex(owned.problem, 64).View(), output.view, {}).ok());
  for (int64_t row = 0; row < 64; ++row) EXPECT_TRUE(std::isnan(output.Row(row)[0])) << row;
}

TEST_P(CpuAttend, SameBitsWithAnyNumberOfThreads) {
  std::mt19937 random = test::SeededRandom();
  const OwnedProblem owned =
      MakeProblem(random, {.num_qo_heads = 4, .num_kv_heads = 2, .head_dim = 64, .seq_q = 500, .seq_k = 500});
  const SparseIndex index = RandomIndex(random, owned.problem, 64, {});
  Output one(owned.problem), many(owned.problem);
  ASSERT_TRUE(AttendCpu(owned.problem, index.View(), one.view, {.num_threads = 1}).ok());
  ASSERT_TRUE(AttendCpu(owned.problem, index.View(), many.view, {.num_threads = 5}).ok());
  EXPECT_EQ(one.o, many.o);
  EXPECT_EQ(one.lse, many.lse);
}

// A whole prompt of 1000 and, of 4096 tokens, the last rows: dense and sparse.
TEST(CpuAttendLengths, PromptsOfThousandsOfTokens) {
  std::mt19937 random = test::SeededRandom();
  const OwnedProblem whole =
      MakeProblem(random, {.num_qo_heads = 1, .num_kv_heads = 1, .head_dim = 64, .seq_q = 1000, .seq_k = 1000});
  ExpectEqualsReference(whole.problem, EverythingIndex(whole.problem, 128));
  const OwnedProblem end = MakeProblem(
      random,
      {.num_qo_heads = 2, .num_kv_heads = 1, .head_dim = 128, .seq_q = 150, .seq_k = 4096, .first_position = 3946});
  ExpectEqualsReference(end.problem, EverythingIndex(end.problem, 128));
  ExpectEqualsReference(end.problem, RandomIndex(random, end.problem, 128, {}));
}

// 46,341^2 is the first square beyond 31 bits; 131,072 rows of 64 in 4 heads are beyond 2^25 elements.
TEST(CpuAttendLengths, PositionsWhoseProductsNeed64Bits) {
  std::mt19937 random = test::SeededRandom();
  for (const int32_t seq_k : {46341, 131072}) {
    const OwnedProblem owned = MakeProblem(random, {.num_qo_heads = 2,
                                                    .num_kv_heads = 1,
                                                    .head_dim = 64,
                                                    .seq_q = 3,
                                                    .seq_k = seq_k,
                                                    .first_position = seq_k - 3,
                                                    .dtype = DType::kBFloat16});
    ExpectEqualsReference(owned.problem, EverythingIndex(owned.problem, 64));
    ExpectEqualsReference(owned.problem, EverythingIndex(owned.problem, 64, {MaskKind::kCausalWindow, 70000, 4}));
    ExpectEqualsReference(owned.problem, RandomIndex(random, owned.problem, 128, {}));
  }
}

// Query rows after the last key (a chunk of queries against an older cache), and queries in front of all keys of a
// window.
TEST(CpuAttendLengths, QueriesBeyondTheKeys) {
  std::mt19937 random = test::SeededRandom();
  const OwnedProblem owned = MakeProblem(
      random, {.num_qo_heads = 1, .num_kv_heads = 1, .head_dim = 64, .seq_q = 100, .seq_k = 120, .first_position = 90});
  ExpectEqualsReference(owned.problem, EverythingIndex(owned.problem, 64));
  ExpectEqualsReference(owned.problem, EverythingIndex(owned.problem, 64, {MaskKind::kCausalWindow, 30, 3}));
}

TEST(CpuAttendStatus, CancelledBeforeItStarts) {
  std::mt19937 random = test::SeededRandom();
  const OwnedProblem owned =
      MakeProblem(random, {.num_qo_heads = 1, .num_kv_heads = 1, .head_dim = 64, .seq_q = 200, .seq_k = 200});
  const std::atomic<bool> cancelled = true;
  Output output(owned.problem);
  const Status status = AttendCpu(owned.problem, EverythingIndex(owned.problem, 64).View(), output.view,
                                  {.num_threads = 2, .cancelled = &cancelled});
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
}

TEST(CpuAttendStatus, RefusalsNameTheFieldAndWriteNothing) {
  std::mt19937 random = test::SeededRandom();
  const OwnedProblem owned =
      MakeProblem(random, {.num_qo_heads = 2, .num_kv_heads = 1, .head_dim = 64, .seq_q = 64, .seq_k = 64});
  const SparseIndex index = EverythingIndex(owned.problem, 64);
  Output output(owned.problem);
  const auto refusal = [&](const AttentionProblem& problem, const SparseIndex& used) {
    const Status status = AttendCpu(problem, used.View(), output.view, {});
    EXPECT_FALSE(status.ok());
    return status.message();
  };
  AttentionProblem problem = owned.problem;
  problem.v.data = nullptr;
  EXPECT_THAT(refusal(problem, index), testing::HasSubstr("v.data"));
  problem = owned.problem;
  problem.head_dim = 60;
  EXPECT_THAT(refusal(problem, index), testing::HasSubstr("head_dim is 60"));
  problem = owned.problem;
  problem.first_position = std::numeric_limits<int32_t>::max() - 10;
  SparseIndex far = index;
  far.first_position = problem.first_position;
  EXPECT_THAT(refusal(problem, far), testing::HasSubstr("first_position"));
  problem = owned.problem;
  problem.seq_q = 63;
  EXPECT_THAT(refusal(problem, index), testing::HasSubstr("seq_q"));
  SparseIndex broken = index;
  broken.runs[0] = KeyRun::Make(0, 65, kRunPartial);
  EXPECT_THAT(refusal(owned.problem, broken), testing::Not(testing::IsEmpty()));
  AttentionOutput nowhere = output.view;
  nowhere.o.data = nullptr;
  EXPECT_THAT(AttendCpu(owned.problem, index.View(), nowhere, {}).message(), testing::HasSubstr("o.data"));
  EXPECT_THAT(output.o, testing::Each(test::kSentinel));
  EXPECT_THAT(output.lse, testing::Each(test::kSentinel));
}

TEST(CpuAttendStatus, LseMayBeNull) {
  std::mt19937 random = test::SeededRandom();
  const OwnedProblem owned =
      MakeProblem(random, {.num_qo_heads = 1, .num_kv_heads = 1, .head_dim = 64, .seq_q = 70, .seq_k = 70});
  const SparseIndex index = EverythingIndex(owned.problem, 64);
  Output with(owned.problem), without(owned.problem);
  ASSERT_TRUE(AttendCpu(owned.problem, index.View(), with.view, {}).ok());
  AttentionOutput view = without.view;
  view.lse = nullptr;
  ASSERT_TRUE(AttendCpu(owned.problem, index.View(), view, {}).ok());
  EXPECT_EQ(with.o, without.o);
  EXPECT_THAT(without.lse, testing::Each(test::kSentinel));
}

INSTANTIATE_TEST_SUITE_P(Targets, CpuAttend, testing::ValuesIn(test::MachineTargets()), test::TargetName);

}  // namespace
}  // namespace headscope::kernels
