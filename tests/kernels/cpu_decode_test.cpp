// SPDX-License-Identifier: Apache-2.0
// DecodeCpu against the float64 reference on the same selection, on every instruction set that this machine has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <stop_token>
#include <string>
#include <vector>

#include "cpu_test_support.h"
#include "kernels/cpu_executor.h"
#include "support/stopped.h"

namespace headscope::kernels {
namespace {

using test::MakeProblem;
using test::OwnedProblem;

struct Output {
  explicit Output(const AttentionProblem& problem)
      : o(static_cast<size_t>(problem.batch * problem.num_qo_heads * problem.head_dim + 2 * kGuard), test::kSentinel),
        lse(static_cast<size_t>(problem.batch * problem.num_qo_heads + 2 * kGuard), test::kSentinel),
        row_max(lse) {
    view.o = {o.data() + kGuard, int64_t{problem.num_qo_heads} * problem.head_dim, problem.head_dim, problem.head_dim};
    view.lse = lse.data() + kGuard;
    view.row_max = row_max.data() + kGuard;
  }
  static constexpr int kGuard = 32;
  std::vector<float> o, lse, row_max;
  AttentionOutput view;
};

// Random sorted tokens per list, each kept with probability `share`; list 1 (if any) is left empty when `with_empty`.
DecodeSelection RandomSelection(std::mt19937& random, const AttentionProblem& p, double share, bool with_empty,
                                bool with_mean) {
  DecodeSelection selection;
  selection.batch = p.batch;
  selection.num_qo_heads = p.num_qo_heads;
  selection.num_kv_heads = p.num_kv_heads;
  selection.page_begin.push_back(0);
  std::bernoulli_distribution kept(share);
  for (int32_t list = 0; list < p.batch * p.num_kv_heads; ++list) {
    for (int32_t token = 0; token < p.seq_k; ++token) {
      if (!(with_empty && list == 1) && kept(random)) selection.pages.push_back(token);
    }
    selection.page_begin.push_back(static_cast<int64_t>(selection.pages.size()));
  }
  if (with_mean) {
    std::uniform_real_distribution<float> alpha(0.0f, 1.0f);
    for (int32_t i = 0; i < p.batch * p.num_qo_heads; ++i) selection.alpha.push_back(alpha(random));
    selection.mean_value = test::RandomFloats(random, int64_t{p.batch} * p.num_kv_heads * p.head_dim);
  }
  return selection;
}

// Relative L2 1e-5 over the whole output, LSE and largest score 2e-5: as for AttendCpu.
void ExpectEqualsReference(const AttentionProblem& problem, const DecodeSelection& selection) {
  Output actual(problem), expected(problem);
  ASSERT_TRUE(DecodeReference(problem, selection, expected.view).ok());
  const Status status = DecodeCpu(problem, selection, actual.view, {});
  ASSERT_TRUE(status.ok()) << status.message();
  double error = 0, norm = 0;
  for (size_t i = 0; i < actual.o.size(); ++i) {
    if (expected.o[i] == test::kSentinel) {
      ASSERT_EQ(actual.o[i], test::kSentinel) << "wrote outside the output";
      continue;
    }
    const double difference = static_cast<double>(actual.o[i]) - static_cast<double>(expected.o[i]);
    ASSERT_FALSE(std::isnan(difference));
    error += difference * difference;
    norm += static_cast<double>(expected.o[i]) * static_cast<double>(expected.o[i]);
  }
  EXPECT_LE(std::sqrt(error), 1e-5 * std::sqrt(norm));
  for (size_t i = 0; i < actual.lse.size(); ++i) {
    if (std::isinf(expected.lse[i])) {
      EXPECT_EQ(actual.lse[i], expected.lse[i]);
    } else {
      EXPECT_NEAR(actual.lse[i], expected.lse[i], 2e-5);
    }
    if (std::isinf(expected.row_max[i])) {
      EXPECT_EQ(actual.row_max[i], expected.row_max[i]);
    } else {
      EXPECT_NEAR(actual.row_max[i], expected.row_max[i], 2e-5);
    }
  }
}

class CpuDecode : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { test::UseOnlyTarget(GetParam()); }
  void TearDown() override { test::UseAllTargets(); }
};

TEST_P(CpuDecode, AnySelectionGroupAndDtype) {
  std::mt19937 random = test::SeededRandom();
  const DType dtypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
  int turn = 0;
  for (const int32_t length : {1, 2, 63, 64, 65, 1000, 5000}) {
    for (const int32_t group : {1, 2, 7, 130}) {
      if (group == 130 && length > 100) continue;
      const double shares[] = {1.0, 0.1, 0.9};
      const OwnedProblem owned = MakeProblem(random,
                                             {.batch = 1 + turn % 2,
                                              .num_qo_heads = 2 * group,
                                              .num_kv_heads = 2,
                                              .head_dim = turn % 2 == 0 ? 64 : 128,
                                              .seq_q = 1,
                                              .seq_k = length,
                                              .first_position = length - 1,
                                              .dtype = dtypes[turn % 3],
                                              .soft_cap = turn % 4 == 3 ? 4.0f : 0.0f},
                                             /*row_padding=*/turn % 3);
      SCOPED_TRACE("length " + std::to_string(length) + ", group " + std::to_string(group));
      ExpectEqualsReference(owned.problem,
                            RandomSelection(random, owned.problem, shares[turn % 3], turn % 4 == 1, turn % 2 == 1));
      ++turn;
    }
  }
}

// The slices' kernel has forms for one, two and four query rows, whole and half vectors, and lists with and without
// gaps.
TEST_P(CpuDecode, EveryHeadDimGroupAndGap) {
  std::mt19937 random = test::SeededRandom();
  const DType dtypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
  const double shares[] = {1.0, 0.5, 0.02};
  int turn = 0;
  for (const int32_t head_dim : {8, 16, 24, 40, 56, 64, 72, 96, 128, 136, 200, 248, 256}) {
    for (const int32_t group : {1, 2, 3, 4, 7, 8, 33}) {
      const int32_t length = std::uniform_int_distribution<int32_t>(1, 200)(random);
      const OwnedProblem owned = MakeProblem(random,
                                             {.batch = 1 + turn % 3,
                                              .num_qo_heads = 2 * group,
                                              .num_kv_heads = 2,
                                              .head_dim = head_dim,
                                              .seq_q = 1,
                                              .seq_k = length,
                                              .first_position = length - 1,
                                              .dtype = dtypes[turn % 3],
                                              .soft_cap = turn % 5 == 3 ? 3.0f : 0.0f},
                                             /*row_padding=*/turn % 4 * 3);
      SCOPED_TRACE("head_dim " + std::to_string(head_dim) + ", group " + std::to_string(group) + ", length " +
                   std::to_string(length));
      ExpectEqualsReference(owned.problem,
                            RandomSelection(random, owned.problem, shares[turn % 7 % 3], turn % 6 == 1, turn % 2 == 1));
      ++turn;
    }
  }
}

// A score that is not a number shows, whichever row of its group it belongs to, and a huge one takes all.
TEST_P(CpuDecode, NanShowsAndHugeScoresTakeAll) {
  std::mt19937 random = test::SeededRandom();
  OwnedProblem owned = MakeProblem(
      random, {.num_qo_heads = 2, .num_kv_heads = 1, .head_dim = 32, .seq_q = 1, .seq_k = 200, .first_position = 199});
  const DecodeSelection all = RandomSelection(random, owned.problem, 1.0, false, false);
  owned.q.values[0] = 1e20f;  // head 0; head 1 is as it was
  for (size_t token = 0; token < 200; ++token) owned.k.values[token * 32] = token == 77 ? 1.0f : -1.0f;
  Output output(owned.problem);
  ASSERT_TRUE(DecodeCpu(owned.problem, all, output.view, {}).ok());
  for (size_t d = 0; d < 32; ++d)
    EXPECT_FLOAT_EQ(output.o[Output::kGuard + d], owned.v.values[77 * 32 + d]) << "component " << d;
  owned.q.values[0] = std::numeric_limits<float>::quiet_NaN();
  ASSERT_TRUE(DecodeCpu(owned.problem, all, output.view, {}).ok());
  EXPECT_TRUE(std::isnan(output.o[Output::kGuard]));
  EXPECT_FALSE(std::isnan(output.o[Output::kGuard + 32])) << "head 1";
  EXPECT_FALSE(std::isnan(output.row_max[Output::kGuard + 1])) << "head 1";
  EXPECT_TRUE(std::isnan(output.row_max[Output::kGuard]));
  owned.q.values[0] = 0;
  owned.k.values[size_t{3} * 32 + 5] = std::numeric_limits<float>::quiet_NaN();  // one of 200 keys
  ASSERT_TRUE(DecodeCpu(owned.problem, all, output.view, {}).ok());
  for (int head = 0; head < 2; ++head) EXPECT_TRUE(std::isnan(output.row_max[Output::kGuard + head])) << head;
}

// Past 46,341 tokens a length squared leaves 32 bits; both lengths end inside a slice and inside a block of keys.
TEST(CpuDecodeLengths, Of46341TokensWithAndWithoutGaps) {
  std::mt19937 random = test::SeededRandom();
  const OwnedProblem owned = MakeProblem(random, {.num_qo_heads = 2,
                                                  .num_kv_heads = 1,
                                                  .head_dim = 40,
                                                  .seq_q = 1,
                                                  .seq_k = 46341,
                                                  .first_position = 46340,
                                                  .dtype = DType::kFloat16});
  for (const double share : {1.0, 0.3, 0.001})
    ExpectEqualsReference(owned.problem, RandomSelection(random, owned.problem, share, false, false));
}

TEST(CpuDecodeLengths, LongCachesInSlices) {
  std::mt19937 random = test::SeededRandom();
  const OwnedProblem owned = MakeProblem(random, {.num_qo_heads = 4,
                                                  .num_kv_heads = 1,
                                                  .head_dim = 64,
                                                  .seq_q = 1,
                                                  .seq_k = 131072,
                                                  .first_position = 131071,
                                                  .dtype = DType::kBFloat16});
  ExpectEqualsReference(owned.problem, RandomSelection(random, owned.problem, 1.0, false, false));
  const DecodeSelection sparse = RandomSelection(random, owned.problem, 0.05, false, true);
  ExpectEqualsReference(owned.problem, sparse);
  Output one(owned.problem), many(owned.problem);
  ASSERT_TRUE(DecodeCpu(owned.problem, sparse, one.view, {.num_threads = 1}).ok());
  ASSERT_TRUE(DecodeCpu(owned.problem, sparse, many.view, {.num_threads = 3}).ok());
  EXPECT_EQ(one.o, many.o);
  EXPECT_EQ(one.lse, many.lse);
  EXPECT_EQ(one.row_max, many.row_max);
}

TEST(CpuDecodeStatus, RefusesAndCancels) {
  std::mt19937 random = test::SeededRandom();
  const OwnedProblem owned = MakeProblem(
      random, {.num_qo_heads = 2, .num_kv_heads = 1, .head_dim = 64, .seq_q = 1, .seq_k = 100, .first_position = 99});
  const DecodeSelection good = RandomSelection(random, owned.problem, 0.5, false, false);
  Output output(owned.problem);
  DecodeSelection bad = good;
  bad.pages.back() = 100;
  EXPECT_THAT(DecodeCpu(owned.problem, bad, output.view, {}).message(), ::testing::HasSubstr("token 100"));
  bad = good;
  bad.pages[1] = bad.pages[0];
  EXPECT_EQ(DecodeCpu(owned.problem, bad, output.view, {}).code(), StatusCode::kInvalidArgument);
  AttentionProblem problem = owned.problem;
  problem.head_dim = 60;
  EXPECT_THAT(DecodeCpu(problem, good, output.view, {}).message(), ::testing::HasSubstr("head_dim is 60"));
  const std::stop_token stopped = StoppedToken();
  EXPECT_EQ(DecodeCpu(owned.problem, good, output.view, {.stop = stopped}).code(), StatusCode::kCancelled);
  EXPECT_THAT(output.o, ::testing::Each(test::kSentinel));
  EXPECT_THAT(output.lse, ::testing::Each(test::kSentinel));
  EXPECT_THAT(output.row_max, ::testing::Each(test::kSentinel));
}

INSTANTIATE_TEST_SUITE_P(Targets, CpuDecode, ::testing::ValuesIn(test::MachineTargets()), test::TargetName);

}  // namespace
}  // namespace headscope::kernels
