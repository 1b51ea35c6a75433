// SPDX-License-Identifier: Apache-2.0
// The float64 executors, by properties; tests/oracle/methods_kept_sets.py checks their numbers against NumPy.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "kept_sets.h"
#include "kernels/cpu_executor.h"

namespace headscope::kernels {
namespace {

using testing::DecodeShape;
using testing::FreshSeed;
using ::testing::HasSubstr;
using testing::ProblemShape;
using testing::RandomProblem;
using testing::Select;
using testing::SquareShape;

struct Result {
  std::vector<float> o;    // [batch, num_qo_heads, seq_q, head_dim]
  std::vector<float> lse;  // [batch, num_qo_heads, seq_q]
};

Result Attend(const AttentionProblem& problem, const SparseIndex& index) {
  Result result;
  const int64_t head = int64_t{problem.seq_q} * problem.head_dim;
  result.o.resize(static_cast<size_t>(problem.batch * problem.num_qo_heads * head));
  result.lse.resize(result.o.size() / static_cast<size_t>(problem.head_dim));
  const AttentionOutput output{{result.o.data(), problem.num_qo_heads * head, head, problem.head_dim},
                               result.lse.data()};
  const Status status = AttendReference(problem, index.View(), output);
  EXPECT_TRUE(status.ok()) << status.message();
  return result;
}

TEST(AttendReference, OneKeyGivesItsValueAndItsScore) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(1), &random);
  const Result result = Attend(data.View(), Select("dense", "", data.View()));
  double dot = 0;
  for (int32_t d = 0; d < 16; ++d) {
    EXPECT_FLOAT_EQ(result.o[static_cast<size_t>(d)], data.v.Get(0, 0, 0, d));
    dot += static_cast<double>(data.q.Get(0, 0, 0, d)) * static_cast<double>(data.k.Get(0, 0, 0, d));
  }
  EXPECT_NEAR(result.lse[0], dot / 4, 1e-5);
}

TEST(AttendReference, RowWithoutKeysGivesZeroAndMinusInfinity) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(100), &random);
  const Result result = Attend(data.View(), Select("sample-attention", "alpha_c=0,alpha_s=0", data.View()));
  for (const float value : result.o) EXPECT_EQ(value, 0.0f);
  for (const float lse : result.lse) EXPECT_EQ(lse, -std::numeric_limits<float>::infinity());
}

// Not as a row that keeps nothing: a NaN must show in whatever is compared with the reference.
TEST(AttendReference, RowOfNaNScoresGivesNaNAsTheFastExecutorDoes) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(20), &random);
  for (int32_t d = 0; d < 16; ++d) data.q.Set(0, 0, 7, d, std::numeric_limits<float>::quiet_NaN());
  const SparseIndex index = Select("dense", "", data.View());
  Result fast;
  fast.o.resize(20 * 16);
  fast.lse.resize(20);
  const AttentionOutput output{{fast.o.data(), 20 * 16, 20 * 16, 16}, fast.lse.data()};
  ASSERT_TRUE(AttendCpu(data.View(), index.View(), output, {}).ok());
  for (const Result& result : {fast, Attend(data.View(), index)}) {
    for (size_t row = 0; row < 20; ++row) {
      EXPECT_EQ(std::isnan(result.lse[row]), row == 7) << row;
      for (size_t d = 0; d < 16; ++d) EXPECT_EQ(std::isnan(result.o[row * 16 + d]), row == 7) << row;
    }
  }
}

TEST(AttendReference, NeverReadsWhatIsNotKept) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(300, 2, 1), &random);
  const SparseIndex index = Select("a-shape", "n_sink=4,n_local=10", data.View());
  const Result before = Attend(data.View(), index);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (int32_t row = 100; row < 200; ++row) {
    for (int32_t d = 0; d < 16; ++d) {
      data.k.Set(0, 0, row, d, nan);
      data.v.Set(0, 0, row, d, nan);
    }
  }
  const Result after = Attend(data.View(), index);
  for (size_t head = 0; head < 2; ++head) {
    for (size_t row = 0; row < 300; ++row) {
      if (row >= 100 && row < 209) continue;  // rows whose window holds a poisoned key
      EXPECT_EQ(before.lse[head * 300 + row], after.lse[head * 300 + row]);
      for (size_t d = 0; d < 16; ++d)
        EXPECT_EQ(before.o[(head * 300 + row) * 16 + d], after.o[(head * 300 + row) * 16 + d]);
    }
  }
  EXPECT_TRUE(std::isnan(after.lse[150]));
}

TEST(AttendReference, SinksAndWindowMergeByTheirLogSumExp) {
  // Two passes with disjoint kept sets, joined by their LSEs, equal one pass over both.
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(300), &random);
  const Result both = Attend(data.View(), Select("a-shape", "n_sink=20,n_local=50", data.View()));
  SparseIndexBuilder::Shape shape;
  shape.seq_q = shape.seq_k = 300;
  shape.rule = {MaskKind::kCausalWindow, 50, 0};
  SparseIndexBuilder window(shape);
  for (int tile = 0; tile < 3; ++tile) {
    window.AddRange(20, 300);
    window.FinishList();
  }
  shape.rule = {};
  SparseIndexBuilder sinks(shape);
  for (int tile = 0; tile < 3; ++tile) {
    sinks.AddRange(0, 20);
    sinks.FinishList();
  }
  const Result a = Attend(data.View(), sinks.Build());
  const Result b = Attend(data.View(), window.Build());
  for (size_t row = 0; row < 300; ++row) {
    const double maximum = std::max(a.lse[row], b.lse[row]);
    const double weight_a = std::exp(a.lse[row] - maximum);
    const double weight_b = std::exp(b.lse[row] - maximum);
    EXPECT_NEAR(both.lse[row], maximum + std::log(weight_a + weight_b), 1e-5);
    for (size_t d = 0; d < 16; ++d) {
      const double merged =
          (weight_a * static_cast<double>(a.o[row * 16 + d]) + weight_b * static_cast<double>(b.o[row * 16 + d])) /
          (weight_a + weight_b);
      EXPECT_NEAR(both.o[row * 16 + d], merged, 1e-5);
    }
  }
}

TEST(AttendReference, ReadsBatchesGroupsAndStoragesByTheirStrides) {
  std::mt19937 random(FreshSeed());
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    ProblemShape shape = SquareShape(70, 6, 2);
    shape.batch = 2;
    shape.dtype = dtype;
    const RandomProblem data(shape, &random);
    const Result whole = Attend(data.View(), Select("dense", "", data.View()));
    // Head 4 of sequence 1, which reads KV head 1, alone.
    RandomProblem single(SquareShape(70), &random);
    for (int32_t row = 0; row < 70; ++row) {
      for (int32_t d = 0; d < 16; ++d) {
        single.q.Set(0, 0, row, d, data.q.Get(1, 4, row, d));
        single.k.Set(0, 0, row, d, data.k.Get(1, 1, row, d));
        single.v.Set(0, 0, row, d, data.v.Get(1, 1, row, d));
      }
    }
    const Result alone = Attend(single.View(), Select("dense", "", single.View()));
    for (size_t i = 0; i < 70 * 16; ++i) EXPECT_EQ(whole.o[(6 + 4) * 70 * 16 + i], alone.o[i]);
  }
}

TEST(AttendReference, SoftCapBoundsScores) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(50), &random, 10.0f);
  data.soft_cap = 2.0f;
  const Result result = Attend(data.View(), Select("dense", "", data.View()));
  for (int row = 0; row < 50; ++row)
    EXPECT_LE(std::fabs(result.lse[static_cast<size_t>(row)] - std::log(row + 1.0)), 2.00001);
}

TEST(AttendReference, RefusesAnIndexOfAnotherProblem) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(100), &random);
  const RandomProblem longer(SquareShape(101), &random);
  const SparseIndex index = Select("dense", "", longer.View());
  std::vector<float> o(100 * 16);
  Status status = AttendReference(data.View(), index.View(), {{o.data(), 0, 0, 16}, nullptr});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("differs"));
  const SparseIndex right = Select("dense", "", data.View());
  EXPECT_THAT(AttendReference(data.View(), right.View(), {}).message(), HasSubstr("o.data is null"));
  EXPECT_TRUE(AttendReference(data.View(), right.View(), {{o.data(), 0, 0, 16}, nullptr}).ok());  // lse may be null
}

TEST(DecodeReference, MixesInTheMeanValue) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(DecodeShape(40, 2, 1), &random);
  DecodeSelection selection;
  selection.num_qo_heads = 2;
  selection.num_kv_heads = 1;
  selection.page_begin = {0, 1};
  selection.pages = {7};
  selection.alpha = {0.25f, 1.0f};
  selection.mean_value.assign(16, 8.0f);
  std::vector<float> o(32);
  std::vector<float> lse(2);
  ASSERT_TRUE(DecodeReference(data.View(), selection, {{o.data(), 0, 16, 16}, lse.data()}).ok());
  for (int32_t d = 0; d < 16; ++d) {
    EXPECT_NEAR(o[static_cast<size_t>(d)], 0.25f * data.v.Get(0, 0, 7, d) + 6.0f, 1e-5);
    EXPECT_FLOAT_EQ(o[static_cast<size_t>(16 + d)], data.v.Get(0, 0, 7, d));
  }
}

TEST(DecodeReference, RefusesBrokenSelections) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(DecodeShape(40), &random);
  DecodeSelection valid;
  valid.num_qo_heads = 1;
  valid.num_kv_heads = 1;
  valid.page_begin = {0, 2};
  valid.pages = {3, 39};
  std::vector<float> o(16);
  auto refused = [&](auto change, const std::string& words) {
    DecodeSelection selection = valid;
    change(selection);
    const Status status = DecodeReference(data.View(), selection, {{o.data(), 0, 0, 16}, nullptr});
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << words;
    EXPECT_THAT(status.message(), HasSubstr(words));
  };
  EXPECT_TRUE(DecodeReference(data.View(), valid, {{o.data(), 0, 0, 16}, nullptr}).ok());
  refused([](DecodeSelection& s) { s.pages = {39, 3}; }, "token 3 of list 0");
  refused([](DecodeSelection& s) { s.pages = {3, 3}; }, "token 3 of list 0");
  refused([](DecodeSelection& s) { s.pages = {3, 40}; }, "token 40 of list 0");
  refused([](DecodeSelection& s) { s.pages = {-1, 3}; }, "token -1 of list 0");
  refused([](DecodeSelection& s) { s.page_begin = {0, 3}; }, "page_begin");
  refused([](DecodeSelection& s) { s.page_begin = {2}; }, "page_begin");
  refused([](DecodeSelection& s) { s.alpha = {0.5f}; }, "mean_value");
  refused([](DecodeSelection& s) { s.num_qo_heads = 2; }, "num_qo_heads");
}

}  // namespace
}  // namespace headscope::kernels
