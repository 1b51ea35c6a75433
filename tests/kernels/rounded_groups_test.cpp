// SPDX-License-Identifier: Apache-2.0
// Groups of rounded rows: what their scores may be wrong by, exact scores of single blocks, and keys that are shared.
#include "rounded_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "internal/row_math.h"
#include "kernels/narrow_floats.h"
#include "keys_at_work.h"
#include "run_seed.h"

namespace headscope::kernels::internal {
namespace {

constexpr int32_t kGroupsOfBlock = 4;
constexpr float kScaleOfGroups = 0.05f;

// Rows in groups of four with what they are in fp32.
struct GroupedRows {
  std::vector<float> values;
  std::vector<uint16_t> narrow;
  RowGroups rows;

  // `far`: what all rows have in common.
  GroupedRows(int32_t num_rows, DType dtype, float far, std::mt19937* random) {
    constexpr int32_t kHeadDim = 24;
    std::normal_distribution<float> normal;
    std::uniform_real_distribution<float> exponent(-3, 3);
    for (int32_t row = 0; row < num_rows; ++row) {
      const float size = std::exp2(exponent(*random));
      for (int32_t d = 0; d < kHeadDim; ++d)
        values.push_back(FloatFromBFloat16(RoundToBFloat16(size * normal(*random) + far)) +
                         (dtype == DType::kFloat32 ? 1e-4f * normal(*random) : 0.0f));
    }
    for (const float value : values) narrow.push_back(RoundToBFloat16(value));
    rows = {.data = dtype == DType::kFloat32 ? static_cast<const void*>(values.data()) : narrow.data(),
            .dtype = dtype,
            .row_stride = kHeadDim,
            .head_dim = kHeadDim,
            .num_rows = num_rows,
            .stride = 4};
  }

  // Of a group of these and of keys, whose antidiagonal it is, in base e.
  double Score(int32_t group, const GroupedRows& keys, int32_t key_group) const {
    double sum = 0;
    for (int32_t s = 0; s < rows.stride; ++s) {
      const int32_t row = group * rows.stride + rows.stride - 1 - s, key = key_group * rows.stride + s;
      if (row >= rows.num_rows || key >= keys.rows.num_rows) continue;
      for (int32_t d = 0; d < rows.head_dim; ++d)
        sum += double{values[static_cast<size_t>(row * rows.head_dim + d)]} *
               double{keys.values[static_cast<size_t>(key * rows.head_dim + d)]};
    }
    return double{kScaleOfGroups} * sum;
  }
};

double Length(const GroupedRows& rows, int32_t group) {
  std::vector<float> of_group(static_cast<size_t>(rows.rows.width()));
  rows.rows.LoadGroup(group * rows.rows.stride, /*reversed=*/false, of_group.data());
  double squares = 0;
  for (const float x : of_group) squares += double{x} * double{x};
  return std::sqrt(squares);
}

// The rows that all groups begin with.
std::vector<int32_t> AllGroups(const RowGroups& rows) {
  std::vector<int32_t> first;
  for (int32_t row = 0; row < rows.num_rows; row += rows.stride) first.push_back(row);
  return first;
}

// A column's scores all lack the same, so that it is differences which lie within the errors of both blocks.
TEST(RoundedGroups, LieAsNearExactScoresAsTheirBlocksSay) {
  std::mt19937 random(testing::FreshSeed());
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const int32_t bits : {0, 7}) {
      ShortenIntegers(bits);
      const int32_t num_keys = 40 + static_cast<int32_t>(random() % 60);
      const GroupedRows keys(num_keys, dtype, 3.0f, &random);
      GroupedRows queries(30, dtype, 0.0f, &random);
      queries.rows.first_position = num_keys - 30;
      const auto rounded = std::make_shared<const RoundedKeys>(keys.rows, kGroupsOfBlock);
      RoundedPanel panel(rounded, kScaleOfGroups, 1.0f);
      panel.Round(queries.rows, AllGroups(queries.rows));
      const int32_t num_groups = rounded->num_groups(), num_blocks = (num_groups + kGroupsOfBlock - 1) / kGroupsOfBlock;
      std::vector<float> scores(static_cast<size_t>(num_groups * kColumns));
      panel.Score(0, num_groups, 0, scores.data());
      panel.BoundErrors(num_blocks);
      for (int32_t column = 0; column < queries.rows.num_groups(); ++column) {
        for (int32_t group = 1; group < num_groups; ++group) {
          const auto error = [&](int32_t of) {
            return double{panel.errors()[of / kGroupsOfBlock * kColumns + column]};
          };
          const auto score = [&](int32_t of) { return double{scores[static_cast<size_t>(of * kColumns + column)]}; };
          EXPECT_NEAR(score(group) - score(group - 1),
                      queries.Score(column, keys, group) - queries.Score(column, keys, group - 1),
                      error(group) + error(group - 1))
              << "group " << group << ", column " << column << ", " << bits << " bits shorter";
          const double size = Length(queries, column) * double{rounded->OfBlock(group / kGroupsOfBlock).length};
          EXPECT_LT(error(group), 2e-3 * std::exp2(bits) * double{kScaleOfGroups} * size);
        }
      }
    }
  }
  ShortenIntegers(0);
}

RowGroups GroupsOf(const std::vector<float>& values, int32_t head_dim) {
  return {.data = values.data(),
          .row_stride = head_dim,
          .head_dim = head_dim,
          .num_rows = static_cast<int32_t>(values.size()) / head_dim,
          .stride = 4};
}

// Of a group and of one that has the signs of what rounding took from it, which is itself kept whole, the error is most
// of what the bound says: once rounding takes it from the query and once from the key.
TEST(RoundedGroups, AreWrongByMostOfTheirErrorAtTheWorst) {
  constexpr int32_t kHeadDim = 32, kWidth = 4 * kHeadDim;
  std::mt19937 random(testing::FreshSeed());
  std::normal_distribution<float> normal;
  for (const bool of_query : {true, false}) {
    std::vector<float> rounded_group(kWidth), whole(kWidth);
    for (float& x : rounded_group) x = normal(random);
    // Keys lose their mean, that of the first rows of their groups: here zero.
    std::fill_n(rounded_group.begin(), kHeadDim, 0.0f);
    std::vector<int16_t> numbers(kWidth);
    std::vector<float> in_order(kWidth);
    for (int32_t d = 0; d < kWidth; ++d) {
      const int32_t row = d / kHeadDim;
      in_order[static_cast<size_t>(d)] =
          rounded_group[static_cast<size_t>(of_query ? (3 - row) * kHeadDim + d % kHeadDim : d)];
    }
    const RoundedRow row = RoundRow(in_order.data(), kWidth,
                                    /*by_powers=*/of_query, numbers.data());
    double exact = 0;
    for (int32_t d = 0; d < kWidth; ++d) {
      const auto at = static_cast<size_t>(d);
      const int32_t place = (3 - d / kHeadDim) * kHeadDim + d % kHeadDim;
      const float lost = in_order[at] - row.step * static_cast<float>(numbers[at]);
      whole[of_query ? at : static_cast<size_t>(place)] = lost < 0 ? -1.0f : 1.0f;
      exact += lost < 0 ? -double{in_order[at]} : double{in_order[at]};
    }
    const std::vector<float>&keys = of_query ? whole : rounded_group, &queries = of_query ? rounded_group : whole;
    RoundedPanel panel(std::make_shared<const RoundedKeys>(GroupsOf(keys, kHeadDim), 1), kScaleOfGroups, 1.0f);
    panel.Round(GroupsOf(queries, kHeadDim), {0});
    std::vector<float> scores(kColumns);
    panel.Score(0, 1, 0, scores.data());
    panel.BoundErrors(1);
    const double wrong = std::abs(double{scores[0]} - double{kScaleOfGroups} * exact),
                 error = double{panel.errors()[0]};
    EXPECT_LE(wrong, error) << (of_query ? "query" : "key");
    EXPECT_GT(wrong, 0.6 * error) << (of_query ? "query" : "key");
  }
}

// Of numbers that are much too short, a block's sum of exponentials becomes that of exact scores.
TEST(RoundedGroups, AreScoredExactlyBlockByBlock) {
  std::mt19937 random(testing::FreshSeed());
  ShortenIntegers(9);
  const GroupedRows keys(63, DType::kFloat32, 0.5f, &random);
  GroupedRows queries(20, DType::kFloat32, 0.0f, &random);
  queries.rows.first_position = 43;
  const auto rounded = std::make_shared<const RoundedKeys>(keys.rows, kGroupsOfBlock);
  RoundedPanel panel(rounded, kScaleOfGroups, 1.0f / std::log(2.0f));
  panel.Round(queries.rows, AllGroups(queries.rows));
  std::vector<float> scores(static_cast<size_t>(rounded->num_groups() * kColumns));
  panel.Score(0, rounded->num_groups(), 0, scores.data());
  panel.BoundErrors(4);
  double most_wrong = 0;
  for (int32_t block = 0; block < 4; ++block) {
    std::vector<float> sums(kColumns);
    std::vector<double> exact(kColumns), rough(kColumns);
    for (int32_t column = 0; column < 5; ++column) {
      const auto at = static_cast<size_t>(column);
      // Beside a group that rounding does not touch: scores of a column lack the same.
      const double lacking = queries.Score(column, keys, 0) - [&] {
        double sum = 0;
        std::vector<float> key(static_cast<size_t>(keys.rows.width())), query(key.size());
        rounded->LoadGroup(0, key.data());
        queries.rows.LoadGroup(column * 4, /*reversed=*/true, query.data());
        for (size_t d = 0; d < key.size(); ++d) sum += double{key[d]} * double{query[d]};
        return double{kScaleOfGroups} * sum;
      }();
      for (int32_t group = rounded->BlockBegin(block); group < rounded->BlockEnd(block); ++group) {
        if (group > queries.rows.LastSeen(column * 4)) continue;
        exact[at] += std::exp(queries.Score(column, keys, group) - lacking);
        rough[at] += std::exp2(double{scores[static_cast<size_t>(group * kColumns + column)]});
      }
      sums[at] = static_cast<float>(rough[at]);
    }
    const float error_before = panel.errors()[block * kColumns + 2];
    panel.ScoreExactly(block, 1, 5, sums.data());
    for (size_t column = 0; column < 5; ++column) {
      if (exact[column] > 0) most_wrong = std::max(most_wrong, std::abs(rough[column] / exact[column] - 1));
      EXPECT_NEAR(double{sums[column]}, column == 0 ? rough[column] : exact[column], 1e-4 * rough[column])
          << "block " << block << ", column " << column;
    }
    EXPECT_LT(panel.errors()[block * kColumns + 2], 0.1f * error_before);
  }
  EXPECT_GT(most_wrong, 1e-3) << "no rounding mattered";
  ShortenIntegers(0);
}

TEST(RoundedGroups, OfAKvHeadAreMadeForTheFirstAndGoWithTheLast) {
  std::mt19937 random(testing::FreshSeed());
  const GroupedRows keys(40, DType::kFloat32, 0.0f, &random);
  KeysAtWork<RoundedKeys> at_work(2);
  std::shared_ptr<const RoundedKeys> first = at_work.Of(1, keys.rows, kGroupsOfBlock);
  std::shared_ptr<const RoundedKeys> second = at_work.Of(1, keys.rows, kGroupsOfBlock);
  EXPECT_EQ(first, second);
  EXPECT_NE(at_work.Of(0, keys.rows, kGroupsOfBlock), second);
  EXPECT_EQ(second.use_count(), 2) << "nothing else keeps them";
  const std::weak_ptr<const RoundedKeys> gone = first;
  first.reset();
  EXPECT_FALSE(gone.expired());
  second.reset();
  EXPECT_TRUE(gone.expired());
  EXPECT_EQ(at_work.Of(1, keys.rows, kGroupsOfBlock)->num_groups(), 10) << "they are made anew";
}

// What stands for keys: the first that is made fails.
struct KeysThatFailOnce {
  explicit KeysThatFailOnce(std::atomic<int>& made) {
    if (made.fetch_add(1) == 0) throw std::bad_alloc();
  }
};

TEST(KeysAtWork, AreOneForAllThreadsAlsoBehindOneThatFailed) {
  constexpr int kThreads = 4;
  KeysAtWork<KeysThatFailOnce> at_work(1);
  std::atomic<int> made = 0, failed = 0;
  std::barrier all(kThreads);
  std::vector<std::shared_ptr<const KeysThatFailOnce>> keys(kThreads);
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        all.arrive_and_wait();
        try {
          keys[i] = at_work.Of(0, std::ref(made));
        } catch (const std::bad_alloc&) {
          ++failed;
        }
        all.arrive_and_wait();  // those that have keys hold them until all have asked
      });
    }
  }
  EXPECT_EQ(failed, 1);
  EXPECT_EQ(made, 2) << "one that failed and one for the others";
  std::set<const KeysThatFailOnce*> different;
  for (const auto& one : keys) different.insert(one.get());
  EXPECT_EQ(different.size(), 2U) << "the one's and none";
}

}  // namespace
}  // namespace headscope::kernels::internal
