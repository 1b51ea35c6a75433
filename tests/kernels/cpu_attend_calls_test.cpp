// SPDX-License-Identifier: Apache-2.0
// Calls of AttendCpu rather than its numbers: cancelling, refusals, an output without LSE.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <stop_token>

#include "cpu_attend_run.h"
#include "support/stopped.h"

namespace headscope::kernels {
namespace {

using test::EverythingIndex;
using test::GuardedOutput;
using test::MakeProblem;
using test::OwnedProblem;

TEST(CpuAttendStatus, CancelledBeforeItStarts) {
  std::mt19937 random = test::SeededRandom();
  const OwnedProblem owned =
      MakeProblem(random, {.num_qo_heads = 1, .num_kv_heads = 1, .head_dim = 64, .seq_q = 200, .seq_k = 200});
  const std::stop_token stopped = StoppedToken();
  GuardedOutput output(owned.problem);
  const Status status = AttendCpu(owned.problem, EverythingIndex(owned.problem, 64).View(), output.view,
                                  {.num_threads = 2, .stop = stopped});
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
}

TEST(CpuAttendStatus, RefusalsNameTheFieldAndWriteNothing) {
  std::mt19937 random = test::SeededRandom();
  const OwnedProblem owned =
      MakeProblem(random, {.num_qo_heads = 2, .num_kv_heads = 1, .head_dim = 64, .seq_q = 64, .seq_k = 64});
  const SparseIndex index = EverythingIndex(owned.problem, 64);
  GuardedOutput output(owned.problem);
  const auto refusal = [&](const AttentionProblem& problem, const SparseIndex& used) {
    const Status status = AttendCpu(problem, used.View(), output.view, {});
    EXPECT_FALSE(status.ok());
    return status.message();
  };
  AttentionProblem problem = owned.problem;
  problem.v.data = nullptr;
  EXPECT_THAT(refusal(problem, index), ::testing::HasSubstr("v.data"));
  problem = owned.problem;
  problem.head_dim = 60;
  EXPECT_THAT(refusal(problem, index), ::testing::HasSubstr("head_dim is 60"));
  problem = owned.problem;
  problem.first_position = std::numeric_limits<int32_t>::max() - 10;
  SparseIndex far = index;
  far.first_position = problem.first_position;
  EXPECT_THAT(refusal(problem, far), ::testing::HasSubstr("first_position"));
  problem = owned.problem;
  problem.seq_q = 63;
  EXPECT_THAT(refusal(problem, index), ::testing::HasSubstr("seq_q"));
  SparseIndex broken = index;
  broken.runs[0] = KeyRun::Make(0, 65, kRunPartial);
  EXPECT_THAT(refusal(owned.problem, broken), ::testing::Not(::testing::IsEmpty()));
  AttentionOutput nowhere = output.view;
  nowhere.o.data = nullptr;
  EXPECT_THAT(AttendCpu(owned.problem, index.View(), nowhere, {}).message(), ::testing::HasSubstr("o.data"));
  EXPECT_THAT(output.o, ::testing::Each(test::kSentinel));
  EXPECT_THAT(output.lse, ::testing::Each(test::kSentinel));
}

TEST(CpuAttendStatus, LseMayBeNull) {
  std::mt19937 random = test::SeededRandom();
  const OwnedProblem owned =
      MakeProblem(random, {.num_qo_heads = 1, .num_kv_heads = 1, .head_dim = 64, .seq_q = 70, .seq_k = 70});
  const SparseIndex index = EverythingIndex(owned.problem, 64);
  GuardedOutput with(owned.problem), without(owned.problem);
  ASSERT_TRUE(AttendCpu(owned.problem, index.View(), with.view, {}).ok());
  AttentionOutput view = without.view;
  view.lse = nullptr;
  ASSERT_TRUE(AttendCpu(owned.problem, index.View(), view, {}).ok());
  EXPECT_EQ(with.o, without.o);
  EXPECT_THAT(without.lse, ::testing::Each(test::kSentinel));
}

}  // namespace
}  // namespace headscope::kernels
