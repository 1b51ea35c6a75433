// SPDX-License-Identifier: Apache-2.0
// The choice that bounds of rounded scores allow.
#include "sure_share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "internal/row_math.h"
#include "run_seed.h"

namespace headscope::kernels::internal {
namespace {

// What a share keeps of exact masses, which are told apart.
std::vector<int32_t> ExactChoice(const std::vector<double>& mass, const std::vector<int32_t>& forced, double wanted) {
  std::vector<int32_t> kept = forced, others;
  double held = 0;
  for (const int32_t block : forced) held += mass[static_cast<size_t>(block)];
  for (int32_t block = 0; block < static_cast<int32_t>(mass.size()); ++block) {
    if (std::ranges::find(forced, block) == forced.end()) others.push_back(block);
  }
  std::ranges::sort(others, std::greater(), [&](int32_t block) { return mass[static_cast<size_t>(block)]; });
  for (const int32_t block : others) {
    if (held >= wanted) break;
    kept.push_back(block);
    held += mass[static_cast<size_t>(block)];
  }
  return kept;
}

// Exact weights, rounded ones within a bound, and what is kept by these: where that is said to be sure, exact weights
// keep the same; and most of the time it is sure. Errors lean one way for what is kept and the other way for the rest,
// which is the worst for the share.
TEST(SureShare, IsWhatExactScoresKeep) {
  std::mt19937 random(testing::RunSeed());
  std::uniform_real_distribution<double> uniform(-1, 1);
  int num_sure = 0, num_open = 0, num_wrong = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    const int32_t num_blocks = 1 + static_cast<int32_t>(random() % 40),
                  num_columns = 1 + static_cast<int32_t>(random() % 8);
    const int32_t begin = static_cast<int32_t>(random() % 20);
    const double bound = std::exp2(-4 - 10 * std::abs(uniform(random))), spread = 3 * std::abs(uniform(random));
    const double share = 0.3 + 0.69 * std::abs(uniform(random));
    std::vector<int32_t> forced;
    if (random() % 2 == 0) forced = {static_cast<int32_t>(random() % static_cast<uint32_t>(num_blocks))};
    const int lean = static_cast<int>(random() % 3) - 1;  // of errors
    std::vector<float> shares(static_cast<size_t>(num_blocks) * kColumns), errors(shares.size());
    std::vector<double> exact_mass(static_cast<size_t>(num_blocks)), mass(exact_mass.size());
    for (int32_t column = begin; column < begin + num_columns; ++column) {
      std::vector<double> exact(exact_mass.size()), rounded(exact.size());
      for (size_t block = 0; block < exact.size(); ++block) {
        exact[block] = std::exp(2 * spread * uniform(random));
        const double error = lean == 0 ? bound * uniform(random) : lean * bound * (exact[block] > 1 ? 1 : -1);
        rounded[block] = exact[block] * std::exp(error);
      }
      const double total = std::accumulate(exact.begin(), exact.end(), 0.0);
      const double rounded_total = std::accumulate(rounded.begin(), rounded.end(), 0.0);
      for (size_t block = 0; block < exact.size(); ++block) {
        exact_mass[block] += exact[block] / total;
        const size_t place = block * kColumns + static_cast<size_t>(column);
        shares[place] = static_cast<float>(rounded[block] / rounded_total);
        errors[place] = static_cast<float>(bound * 1.000001);
        mass[block] += double{shares[place]};
      }
    }
    const std::vector<int32_t> kept = ExactChoice(mass, forced, share * num_columns);
    std::vector<int32_t> open;
    const ShareChoice choice = JudgeShare({shares.data(), errors.data(), num_blocks, begin, begin + num_columns}, kept,
                                          static_cast<int32_t>(forced.size()), share, /*most_open=*/40, &open);
    EXPECT_EQ(choice == ShareChoice::kOpenOrder, !open.empty());
    std::vector<int32_t> ours = kept, theirs = ExactChoice(exact_mass, forced, share * num_columns);
    std::ranges::sort(ours);
    std::ranges::sort(theirs);
    (choice == ShareChoice::kSure ? num_sure : num_open) += 1;
    if (ours != theirs) ++num_wrong;
    if (choice == ShareChoice::kSure) {
      EXPECT_EQ(ours, theirs) << "trial " << trial;
    }
  }
  EXPECT_GT(num_sure, 1000);
  EXPECT_GT(num_wrong, 50) << "no rounding mattered";
}

// Sums in fp32 of equal shares all round the same way: what seems to hold enough by them does not.
TEST(SureShare, OfManyBlocksCountsWhatSumsMayBeWrongBy) {
  constexpr int32_t kBlocks = 1024, kKept = 960;
  constexpr float kShare = 0.0009765928f;
  std::vector<float> shares(size_t{kBlocks} * kColumns), errors(shares.size(), 1e-5f);
  std::vector<int32_t> kept, open;
  double held = 0;
  for (int32_t block = 0; block < kBlocks; ++block) {
    shares[static_cast<size_t>(block) * kColumns] = block < kKept ? kShare : 0.9995041f * kShare;
    if (block >= kKept) continue;
    kept.push_back(block);
    held += double{kShare};
  }
  const auto judge = [&](double share) {
    return JudgeShare({shares.data(), errors.data(), kBlocks, 0, 1}, kept, 0, share, 12, &open);
  };
  EXPECT_LT(held, 0.93752920);
  EXPECT_EQ(judge(0.93752920), ShareChoice::kOpen) << "they do not hold so much";
  EXPECT_EQ(judge(0.93752847), ShareChoice::kOpen)
      << "nor surely so much, within what rounding of the sums may have added";
  EXPECT_EQ(judge(held - 0.0004), ShareChoice::kSure) << "and without any of them not";
}

// Where hardly any block is told from the next, none is scored by itself.
TEST(SureShare, GivesUpWhereTheOrderOfManyIsOpen) {
  constexpr int32_t kBlocks = 64;
  std::vector<float> shares(size_t{kBlocks} * kColumns, 1.0f / kBlocks), errors(shares.size(), 1e-3f);
  std::vector<int32_t> kept(33), open;
  std::iota(kept.begin(), kept.end(), 0);
  const auto judge = [&](size_t most) {
    return JudgeShare({shares.data(), errors.data(), kBlocks, 0, 1}, kept, 0, 0.5, most, &open);
  };
  EXPECT_EQ(judge(63), ShareChoice::kOpen);
  EXPECT_TRUE(open.empty());
  EXPECT_EQ(judge(64), ShareChoice::kOpenOrder);
  EXPECT_EQ(open.size(), 64U);
}

TEST(SureShare, IsNotWhatHasNoBounds) {
  std::vector<float> shares(size_t{3} * kColumns, 0.0f), errors(shares.size(), 0.0f);
  shares[0] = 0.7f;
  shares[kColumns] = 0.2f;
  shares[size_t{2} * kColumns] = 0.1f;
  std::vector<int32_t> open;
  const std::vector<int32_t> kept = {0};
  const auto judge = [&] { return JudgeShare({shares.data(), errors.data(), 3, 0, 1}, kept, 0, 0.5, 3, &open); };
  EXPECT_EQ(judge(), ShareChoice::kSure);
  errors[kColumns] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(judge(), ShareChoice::kOpen);
  errors[kColumns] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(judge(), ShareChoice::kOpen);
  errors[kColumns] = 0;
  shares[kColumns] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(judge(), ShareChoice::kOpen);
}

}  // namespace
}  // namespace headscope::kernels::internal
