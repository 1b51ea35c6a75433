// SPDX-License-Identifier: Apache-2.0
// What callers of SparQ's decode kernel prepare: the method's parameters for a problem, and the component-major keys.
#include "kernels/sparq_setup.h"

#include <gtest/gtest.h>

#include "kept_sets.h"

namespace headscope::kernels {
namespace {

SparqCudaOptions OptionsOf(const std::string& parameters, int32_t head_dim, int32_t seq_k) {
  AttentionProblem problem;
  problem.num_qo_heads = problem.num_kv_heads = 1;
  problem.head_dim = head_dim;
  problem.seq_k = seq_k;
  return SparqOptions(testing::Values(FindDecodeMethod("sparq")->spec(), parameters), problem);
}

TEST(SparqOptions, AreTheMethodsParameters) {
  const SparqCudaOptions options = OptionsOf("r=24,k=200,local_share=0.3,reallocate=0", 128, 1000);
  EXPECT_EQ(options.rank, 24);
  EXPECT_EQ(options.num_tokens, 200);
  EXPECT_EQ(options.num_local, 60);
  EXPECT_FALSE(options.mean_value);
}

TEST(SparqOptions, FitTheProblem) {
  const SparqCudaOptions options = OptionsOf("r=100,k=200,local_share=0.5,reallocate=1", 64, 90);
  EXPECT_EQ(options.rank, 64);
  EXPECT_EQ(options.num_tokens, 90);
  EXPECT_EQ(options.num_local, 45) << "a share of the tokens that there are";
  EXPECT_TRUE(options.mean_value);
}

TEST(SparqOptions, AShareInHundredthsOfAHundredTokensIsThatManyTokens) {
  for (int percent = 0; percent <= 100; ++percent) {
    const std::string share = percent == 100 ? "1" : "0." + std::to_string(100 + percent).substr(1);
    EXPECT_EQ(OptionsOf("k=100,local_share=" + share, 64, 1000).num_local, percent);
    EXPECT_EQ(OptionsOf("k=103,local_share=" + share, 64, 1000).num_local, 103 * percent / 100);
  }
}

TEST(SparqOptions, DoNotReallocateByThemselvesBesideASinkOrAWindow) {
  const DecodeMethod& sparq = *FindDecodeMethod("sparq");
  const float sinks[] = {0.5f, 1.0f};
  AttentionProblem problem;
  problem.head_dim = 64;
  problem.seq_k = 90;
  problem.num_kv_heads = problem.num_qo_heads = 2;
  const ParameterValues usual(sparq.spec()), asked = testing::Values(sparq.spec(), "reallocate=1");
  EXPECT_TRUE(SparqOptions(usual, problem).mean_value);
  problem.sinks = sinks;
  EXPECT_FALSE(SparqOptions(usual, problem).mean_value);
  EXPECT_EQ(sparq.Used(usual, problem).Difference(sparq.spec(), usual), "reallocate=0");
  EXPECT_TRUE(SparqOptions(asked, problem).mean_value) << "and is refused";
  problem.sinks = nullptr;
  problem.window = 32;
  EXPECT_FALSE(SparqOptions(usual, problem).mean_value);
}

TEST(SparqOptions, ReallocateByItselfWhereAKvHeadHasOneQueryHead) {
  const DecodeMethod& sparq = *FindDecodeMethod("sparq");
  AttentionProblem problem;
  problem.head_dim = 64;
  problem.seq_k = 90;
  problem.num_kv_heads = 2;
  for (const int32_t group : {1, 3}) {
    problem.num_qo_heads = 2 * group;
    EXPECT_EQ(SparqOptions(ParameterValues(sparq.spec()), problem).mean_value, group == 1);
    for (const std::string reallocate : {"0", "1"}) {
      const ParameterValues values = testing::Values(sparq.spec(), "reallocate=" + reallocate);
      EXPECT_EQ(SparqOptions(values, problem).mean_value, reallocate == "1");
      EXPECT_EQ(sparq.Used(values, problem), values) << "as it was typed";
    }
    const ParameterValues asked = testing::Values(sparq.spec(), "r=999");
    EXPECT_EQ(sparq.Used(asked, problem).Difference(sparq.spec(), asked),
              group == 1 ? "r=64,reallocate=1" : "r=64,reallocate=0");
  }
}

// One head of a layer that groups its queries is no head of a layer that does not.
TEST(SparqOptions, ReallocateByItselfAsTheLayerOfAHeadDoes) {
  const DecodeMethod& sparq = *FindDecodeMethod("sparq");
  AttentionProblem problem;
  problem.head_dim = 64;
  problem.seq_k = 90;
  problem.num_qo_heads = problem.num_kv_heads = 1;
  for (const int32_t group : {1, 4}) {
    problem.layer_group_size = group;
    EXPECT_EQ(SparqOptions(ParameterValues(sparq.spec()), problem).mean_value, group == 1);
  }
}

TEST(ComponentStride, IsWholeLinesWithRoomForTheTokens) {
  for (const int64_t tokens : {1, 63, 64, 65, 130, 131072}) {
    EXPECT_GE(ComponentStride(tokens), tokens);
    EXPECT_LT(ComponentStride(tokens), tokens + 64);
    EXPECT_EQ(ComponentStride(tokens) % 64, 0);
  }
}

}  // namespace
}  // namespace headscope::kernels
