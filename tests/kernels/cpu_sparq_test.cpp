// SPDX-License-Identifier: Apache-2.0
// SparQ's selection on the CPU against its definition in float64, from a component-major copy of K and from K itself,
// on every instruction set that this machine has; and what a generation keeps beside its cache for it.
#include "kernels/cpu_sparq.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
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

// The definition, one number at a time: approximate probabilities of one query head.
std::vector<double> Probabilities(const OwnedProblem& owned, int32_t sequence, int32_t head,
                                  const std::vector<int32_t>& components) {
  const AttentionProblem& p = owned.problem;
  const float* const q = owned.Q(sequence, head, 0);
  double all = 0, chosen = 0;
  for (int32_t d = 0; d < p.head_dim; ++d) all += std::fabs(static_cast<double>(q[d]));
  for (const int32_t d : components) chosen += std::fabs(static_cast<double>(q[d]));
  const double temperature = std::sqrt(p.head_dim * chosen / all);
  std::vector<double> probability;
  for (int32_t token = 0; token < p.seq_k; ++token) {
    const float* const k = owned.K(sequence, head / p.GroupSize(), token);
    double score = 0;
    for (const int32_t d : components) score += static_cast<double>(q[d]) * static_cast<double>(k[d]);
    score /= temperature;
    if (p.soft_cap > 0) score = static_cast<double>(p.soft_cap) * std::tanh(score / static_cast<double>(p.soft_cap));
    probability.push_back(score);
  }
  const double maximum = *std::max_element(probability.begin(), probability.end());
  double sum = 0;
  for (double& x : probability) sum += x = std::exp(x - maximum);
  for (double& x : probability) x /= sum;
  return probability;
}

std::vector<int32_t> LargestComponents(const OwnedProblem& owned, int32_t sequence, int32_t kv_head, int32_t rank) {
  const AttentionProblem& p = owned.problem;
  std::vector<double> magnitude(static_cast<size_t>(p.head_dim), 0.0);
  for (int32_t i = 0; i < p.GroupSize(); ++i) {
    for (int32_t d = 0; d < p.head_dim; ++d)
      magnitude[static_cast<size_t>(d)] +=
          std::fabs(static_cast<double>(owned.Q(sequence, kv_head * p.GroupSize() + i, 0)[d]));
  }
  std::vector<int32_t> order(magnitude.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return magnitude[static_cast<size_t>(a)] > magnitude[static_cast<size_t>(b)];
  });
  order.resize(static_cast<size_t>(rank));
  return order;
}

// The newest tokens, and as many others, none of which has a smaller sum of probabilities than one that is left out (up
// to rounding); alpha is their mass.
void ExpectIsTheDefinition(const OwnedProblem& owned, const SparqCudaOptions& sparq, const DecodeSelection& selection) {
  const AttentionProblem& p = owned.problem;
  ASSERT_EQ(selection.page_begin.size(), static_cast<size_t>(p.batch * p.num_kv_heads + 1));
  for (int32_t list = 0; list < p.batch * p.num_kv_heads; ++list) {
    const int32_t sequence = list / p.num_kv_heads, kv_head = list % p.num_kv_heads;
    const std::vector<int32_t> components = LargestComponents(owned, sequence, kv_head, sparq.rank);
    std::vector<bool> kept(static_cast<size_t>(p.seq_k), false);
    int32_t count = 0;
    for (int64_t i = selection.page_begin[static_cast<size_t>(list)];
         i < selection.page_begin[static_cast<size_t>(list) + 1]; ++i, ++count)
      kept[static_cast<size_t>(selection.pages[static_cast<size_t>(i)])] = true;
    ASSERT_EQ(count, sparq.num_tokens);
    std::vector<double> summed(static_cast<size_t>(p.seq_k), 0.0);
    for (int32_t i = 0; i < p.GroupSize(); ++i) {
      const int32_t head = kv_head * p.GroupSize() + i;
      const std::vector<double> probability = Probabilities(owned, sequence, head, components);
      double mass = 0;
      for (size_t token = 0; token < kept.size(); ++token) {
        summed[token] += probability[token];
        if (kept[token]) mass += probability[token];
      }
      if (sparq.mean_value) {
        EXPECT_NEAR(selection.alpha[static_cast<size_t>(sequence * p.num_qo_heads + head)], mass, 2e-5);
      }
    }
    double least_kept = 2.0 * p.GroupSize(), most_dropped = 0;
    for (int32_t token = 0; token < p.seq_k; ++token) {
      const auto at = static_cast<size_t>(token);
      if (token >= p.seq_k - sparq.num_local) {
        EXPECT_TRUE(kept[at]) << "token " << token << " is one of the newest";
      } else if (kept[at]) {
        least_kept = std::min(least_kept, summed[at]);
      } else {
        most_dropped = std::max(most_dropped, summed[at]);
      }
    }
    EXPECT_GE(least_kept, most_dropped * (1 - 1e-4)) << "list " << list;
  }
}

struct Beside {
  std::vector<std::byte> memory;
  TransposedKeys keys;
  std::vector<float> mean;
};

Beside MakeBeside(const AttentionProblem& problem) {
  Beside beside;
  EXPECT_TRUE(TransposeKeysCpu(problem, {}, &beside.memory, &beside.keys).ok());
  beside.mean.resize(static_cast<size_t>(problem.batch * problem.num_kv_heads * problem.head_dim));
  EXPECT_TRUE(MeanValueCpu(problem, {}, beside.mean.data()).ok());
  return beside;
}

class CpuSparq : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { test::UseOnlyTarget(GetParam()); }
  void TearDown() override { test::UseAllTargets(); }
};

TEST_P(CpuSparq, IsItsDefinitionFromEitherLayoutOfK) {
  std::mt19937 random = test::SeededRandom();
  const DType dtypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};
  int turn = 0;
  for (const int32_t length : {1, 2, 15, 64, 100, 2047, 2049, 5000}) {
    for (const int32_t group : {1, 2, 4, 7, 8}) {
      const int32_t head_dim = std::uniform_int_distribution<int32_t>(1, 16)(random) * 8;
      const OwnedProblem owned = MakeProblem(random,
                                             {.batch = 1 + turn % 2,
                                              .num_qo_heads = 2 * group,
                                              .num_kv_heads = 2,
                                              .head_dim = head_dim,
                                              .seq_q = 1,
                                              .seq_k = length,
                                              .first_position = length - 1,
                                              .dtype = dtypes[turn % 3],
                                              .soft_cap = turn % 5 == 3 ? 2.0f : 0.0f},
                                             /*row_padding=*/turn % 4);
      SparqCudaOptions sparq;
      sparq.rank = std::uniform_int_distribution<int32_t>(1, head_dim)(random);
      sparq.num_tokens = std::uniform_int_distribution<int32_t>(1, std::min(length, 200))(random);
      sparq.num_local = std::uniform_int_distribution<int32_t>(0, sparq.num_tokens)(random);
      SCOPED_TRACE("length " + std::to_string(length) + ", group " + std::to_string(group) + ", head_dim " +
                   std::to_string(head_dim) + ", r " + std::to_string(sparq.rank));
      const Beside beside = MakeBeside(owned.problem);
      DecodeSelection two_copies, one_copy;
      ASSERT_TRUE(
          SelectSparqCpu(owned.problem, sparq, beside.keys, beside.mean.data(), {.num_threads = 2}, &two_copies).ok());
      ASSERT_TRUE(SelectSparqCpu(owned.problem, sparq, {}, nullptr, {.num_threads = 2}, &one_copy).ok());
      ExpectIsTheDefinition(owned, sparq, two_copies);
      ExpectIsTheDefinition(owned, sparq, one_copy);
      EXPECT_EQ(two_copies.mean_value, beside.mean);
      EXPECT_EQ(one_copy.mean_value, beside.mean);
      ++turn;
    }
  }
}

TEST(CpuSparqCalls, ResultsHaveTheSameBitsWithAnyNumberOfThreads) {
  std::mt19937 random = test::SeededRandom();
  for (const int32_t kv_heads : {1, 3}) {
    const OwnedProblem owned = MakeProblem(random, {.num_qo_heads = 2 * kv_heads,
                                                    .num_kv_heads = kv_heads,
                                                    .head_dim = 64,
                                                    .seq_q = 1,
                                                    .seq_k = 9000,
                                                    .first_position = 8999});
    const Beside beside = MakeBeside(owned.problem);
    DecodeSelection expected;
    ASSERT_TRUE(SelectSparqCpu(owned.problem, {}, beside.keys, beside.mean.data(), {.num_threads = 1}, &expected).ok());
    for (const int32_t threads : {2, 3, 7}) {
      DecodeSelection selection;
      ASSERT_TRUE(
          SelectSparqCpu(owned.problem, {}, beside.keys, beside.mean.data(), {.num_threads = threads}, &selection)
              .ok());
      EXPECT_EQ(selection.pages, expected.pages);
      EXPECT_EQ(selection.alpha, expected.alpha);
    }
  }
}

// A step of a recorded generation: some of the tokens that the copy was made of.
TEST(CpuSparqCalls, ACopyServesEarlierStepsAndWindows) {
  std::mt19937 random = test::SeededRandom();
  OwnedProblem owned = MakeProblem(
      random,
      {.num_qo_heads = 2, .num_kv_heads = 1, .head_dim = 40, .seq_q = 1, .seq_k = 3001, .first_position = 3000});
  const Beside beside = MakeBeside(owned.problem);
  for (const auto& [first, end] : {std::pair{0, 3000}, {0, 17}, {1001, 3001}, {13, 2100}}) {
    OwnedProblem step = owned;
    step.Rebind();
    step.problem.seq_k = end - first;
    step.problem.first_position = end - first - 1;
    step.k.values.erase(step.k.values.begin(), step.k.values.begin() + first * 40);
    step.Rebind();
    TransposedKeys keys = beside.keys;
    keys.data = static_cast<float*>(keys.data) + first;
    const SparqCudaOptions sparq{.rank = 10, .num_tokens = 16, .num_local = 4, .mean_value = false};
    DecodeSelection selection;
    ASSERT_TRUE(SelectSparqCpu(step.problem, sparq, keys, nullptr, {}, &selection).ok());
    ExpectIsTheDefinition(step, sparq, selection);
  }
}

TEST(CpuSparqCalls, AppendingATokenIsMakingAnew) {
  std::mt19937 random = test::SeededRandom();
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    const OwnedProblem owned = MakeProblem(random,
                                           {.batch = 2,
                                            .num_qo_heads = 3,
                                            .num_kv_heads = 3,
                                            .head_dim = 24,
                                            .seq_q = 1,
                                            .seq_k = 77,
                                            .first_position = 76,
                                            .dtype = dtype},
                                           /*row_padding=*/3);
    const Beside expected = MakeBeside(owned.problem);
    Beside grown = expected;
    grown.keys.data = grown.memory.data() + (static_cast<std::byte*>(expected.keys.data) - expected.memory.data());
    AttentionProblem before = owned.problem;
    before.seq_k = 76;
    ASSERT_TRUE(MeanValueCpu(before, {}, grown.mean.data()).ok());
    const auto element = static_cast<size_t>(SizeOf(dtype));
    for (size_t row = 0; row < 2 * 3 * 24; ++row) {
      const size_t place = (row * static_cast<size_t>(expected.keys.component_stride) + 76) * element;
      std::memset(static_cast<std::byte*>(grown.keys.data) + place, 0, element);
    }
    ASSERT_TRUE(AppendTokenCpu(owned.problem, grown.keys, grown.mean.data()).ok());
    EXPECT_EQ(grown.memory, expected.memory);
    EXPECT_THAT(grown.mean, ::testing::Pointwise(::testing::FloatNear(1e-6f), expected.mean));
  }
}

TEST(CpuSparqCalls, LengthProductsNeed64Bits) {
  std::mt19937 random = test::SeededRandom();
  for (const int32_t length : {46341, 131072}) {
    const OwnedProblem owned = MakeProblem(random, {.num_qo_heads = 2,
                                                    .num_kv_heads = 1,
                                                    .head_dim = 16,
                                                    .seq_q = 1,
                                                    .seq_k = length,
                                                    .first_position = length - 1,
                                                    .dtype = DType::kBFloat16});
    const Beside beside = MakeBeside(owned.problem);
    const SparqCudaOptions sparq{.rank = 5, .num_tokens = 128, .num_local = 32, .mean_value = true};
    DecodeSelection selection;
    ASSERT_TRUE(SelectSparqCpu(owned.problem, sparq, beside.keys, beside.mean.data(), {}, &selection).ok());
    ExpectIsTheDefinition(owned, sparq, selection);
  }
}

TEST(CpuSparqCalls, RefuseWhatCannotBe) {
  std::mt19937 random = test::SeededRandom();
  const OwnedProblem owned = MakeProblem(
      random, {.num_qo_heads = 2, .num_kv_heads = 1, .head_dim = 16, .seq_q = 1, .seq_k = 50, .first_position = 49});
  const Beside beside = MakeBeside(owned.problem);
  DecodeSelection selection;
  const auto refusal = [&](const SparqCudaOptions& sparq, const TransposedKeys& keys) {
    return SelectSparqCpu(owned.problem, sparq, keys, beside.mean.data(), {}, &selection).message();
  };
  const SparqCudaOptions good{.rank = 4, .num_tokens = 8, .num_local = 2, .mean_value = true};
  EXPECT_EQ(refusal(good, beside.keys), "");
  SparqCudaOptions bad = good;
  bad.rank = 17;
  EXPECT_THAT(refusal(bad, beside.keys), ::testing::HasSubstr("rank is 17"));
  bad = good;
  bad.num_tokens = 51;
  EXPECT_THAT(refusal(bad, beside.keys), ::testing::HasSubstr("num_tokens is 51"));
  bad = good;
  bad.num_local = 9;
  EXPECT_THAT(refusal(bad, beside.keys), ::testing::HasSubstr("num_local is 9"));
  TransposedKeys narrow = beside.keys;
  narrow.component_stride = 49;
  EXPECT_THAT(refusal(good, narrow), ::testing::HasSubstr("component_stride is 49"));
  EXPECT_FALSE(AppendTokenCpu(owned.problem, {}, nullptr).ok());
  const std::stop_token stopped = StoppedToken();
  EXPECT_EQ(SelectSparqCpu(owned.problem, good, beside.keys, beside.mean.data(), {.stop = stopped}, &selection).code(),
            StatusCode::kCancelled);
}

INSTANTIATE_TEST_SUITE_P(Targets, CpuSparq, ::testing::ValuesIn(test::MachineTargets()), test::TargetName);

}  // namespace
}  // namespace headscope::kernels
