// SPDX-License-Identifier: Apache-2.0
// Fixed index sets against their one-line definitions, element by element.
#include "kernels/fixed_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "kernels/seeded_problem.h"

namespace headscope::kernels {
namespace {

using testing::HasSubstr;

FixedSet Parse(const std::string& name) {
  FixedSet set;
  const Status status = ParseFixedSet(name, &set);
  EXPECT_TRUE(status.ok()) << status.message();
  return set;
}

std::vector<bool> KeptColumns(const SparseIndex& index, int32_t sequence, int32_t head, int32_t row) {
  std::vector<ColumnRange> ranges;
  AppendKeptRanges(index.View(), sequence, head, row, &ranges);
  std::vector<bool> kept(static_cast<size_t>(index.seq_k), false);
  for (const ColumnRange range : ranges) {
    for (int32_t c = range.begin; c < range.end; ++c) kept[static_cast<size_t>(c)] = true;
  }
  return kept;
}

TEST(FixedIndexTest, NamesReadBackAsTheyAreWritten) {
  for (const char* name : {"dense", "blocks-90", "vertical-slash-1000x4096", "a-shape-1024+4096", "s2-l1v15"}) {
    EXPECT_EQ(NameOf(Parse(name)), name);
  }
}

TEST(FixedIndexTest, WrongNamesAreRefusedWithTheForms) {
  FixedSet set;
  for (const char* name : {"", "Dense", "blocks", "blocks-", "blocks-9x", "vertical-slash-10", "vertical-slash-10x",
                           "a-shape-1-2", "s2-l1", "s2-l1v15 ", "blocks-99999999999999999999"}) {
    const Status status = ParseFixedSet(name, &set);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(status.message(), HasSubstr("vertical-slash-1000x4096")) << name;
  }
  for (const auto& [name, what] : {std::pair{"blocks-101", "101"},
                                   {"blocks--1", "-1"},
                                   {"a-shape-4+0", "window"},
                                   {"s2-l0v3", "local"},
                                   {"s2-l1v0", "stride"},
                                   {"vertical-slash--1x0", "columns"}}) {
    const Status status = ParseFixedSet(name, &set);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(status.message(), HasSubstr(what)) << name;
  }
}

TEST(FixedIndexTest, EverySetIsValidAtEveryLength) {
  for (const char* name : {"dense", "blocks-0", "blocks-90", "blocks-100", "vertical-slash-0x0",
                           "vertical-slash-40x100", "vertical-slash-5000x64", "a-shape-0+1", "a-shape-5+64",
                           "a-shape-200+300", "a-shape-9000+1", "s2-l1v1", "s2-l1v3", "s2-l3v5", "s2-l100v7"}) {
    for (const int32_t length : {1, 63, 64, 65, 127, 128, 129, 1000, 1024}) {
      const SparseIndex index = MakeFixedIndex(Parse(name), 2, 3, length, 11);
      const Status status = Validate(index.View());
      EXPECT_TRUE(status.ok()) << name << " at " << length << ": " << status.message();
    }
  }
}

TEST(FixedIndexTest, ClosedFormsKeepWhatTheyName) {
  constexpr int32_t kLength = 700;
  const SparseIndex dense = MakeFixedIndex(Parse("dense"), 1, 1, kLength, 1);
  const SparseIndex a_shape = MakeFixedIndex(Parse("a-shape-70+200"), 1, 1, kLength, 1);
  const SparseIndex narrow = MakeFixedIndex(Parse("a-shape-3+20"), 1, 1, kLength, 1);
  const SparseIndex s2 = MakeFixedIndex(Parse("s2-l2v3"), 1, 4, kLength, 1);
  for (int32_t row = 0; row < kLength; ++row) {
    const auto dense_kept = KeptColumns(dense, 0, 0, row);
    const auto a_shape_kept = KeptColumns(a_shape, 0, 0, row);
    const auto narrow_kept = KeptColumns(narrow, 0, 0, row);
    const auto s2_kept = KeptColumns(s2, 0, 2, row);
    for (int32_t c = 0; c < kLength; ++c) {
      const auto i = static_cast<size_t>(c);
      ASSERT_EQ(dense_kept[i], c <= row) << row << ", " << c;
      ASSERT_EQ(a_shape_kept[i], c <= row && (c < 70 || row - c < 200)) << row << ", " << c;
      ASSERT_EQ(narrow_kept[i], c <= row && (c < 3 || row - c < 20)) << row << ", " << c;
      const bool vertical = (c / 64 + 2) % 3 == 0;
      ASSERT_EQ(s2_kept[i], c <= row && (vertical || c / 64 > row / 64 - 2)) << row << ", " << c;
    }
  }
}

TEST(FixedIndexTest, BlocksKeepTheirShareAndTheDiagonal) {
  constexpr int32_t kLength = 64 * 128;
  const SparseIndex index = MakeFixedIndex(Parse("blocks-90"), 1, 2, kLength, 5);
  for (int32_t tile = 0; tile < 64; ++tile) {
    const int64_t list = index.View().ListId(0, 1, tile);
    const int32_t runs = index.run_count[static_cast<size_t>(list)];
    EXPECT_EQ(runs, std::lround(tile * 0.1) + 1);
    const KeyRun last = index.runs[static_cast<size_t>(index.run_begin[static_cast<size_t>(list)] + runs - 1)];
    EXPECT_EQ(last, KeyRun::Make(tile * 128, 128, kRunPartial));
  }
  EXPECT_NEAR(CountPairs(index.View()).Density(), 0.1 + 1.0 / 64, 0.01);
}

TEST(FixedIndexTest, VerticalSlashKeepsItsColumnsInEveryRowPastThem) {
  constexpr int32_t kLength = 1500;
  const SparseIndex index = MakeFixedIndex(Parse("vertical-slash-40x256"), 1, 2, kLength, 5);
  for (int32_t head = 0; head < 2; ++head) {
    std::set<int32_t> columns;  // what the last row keeps outside of its band
    const auto last = KeptColumns(index, 0, head, kLength - 1);
    const int32_t last_band = (kLength - 1) / 128 * 128 - 256;
    for (int32_t c = 0; c < last_band; ++c) {
      if (last[static_cast<size_t>(c)]) columns.insert(c);
    }
    EXPECT_GT(columns.size(), 20u);
    EXPECT_LE(columns.size(), 40u);
    for (int32_t row = 0; row < kLength; ++row) {
      const auto kept = KeptColumns(index, 0, head, row);
      const int32_t band = std::max(0, row / 128 * 128 - 256);
      for (int32_t c = 0; c < std::min(kLength, last_band); ++c) {
        ASSERT_EQ(kept[static_cast<size_t>(c)], c <= row && (c >= band || columns.count(c) == 1)) << row << ", " << c;
      }
    }
  }
  EXPECT_LE(index.columns.size(), 80u) << "tiles of a head share its columns";
}

TEST(FixedIndexTest, SeedAndHeadDecide) {
  const auto make = [](uint64_t seed) { return MakeFixedIndex(Parse("blocks-50"), 1, 2, 4096, seed); };
  EXPECT_EQ(make(1).runs, make(1).runs);
  EXPECT_NE(make(1).runs, make(2).runs);
  const SparseIndex index = make(1);
  EXPECT_NE(KeptColumns(index, 0, 0, 4095), KeptColumns(index, 0, 1, 4095));
}

TEST(FixedIndexTest, LengthsWhoseSquareNeeds64Bits) {
  const SparseIndex index = MakeFixedIndex(Parse("dense"), 1, 1, 131072, 1);
  EXPECT_EQ(CountPairs(index.View()).kept, int64_t{131072} * 131073 / 2);
}

TEST(SeededProblemTest, WrongShapesAreRefusedByName) {
  const SeededProblem good{.batch = 1, .num_qo_heads = 4, .num_kv_heads = 2, .head_dim = 8, .seq_q = 5, .seq_k = 5};
  std::vector<float> out(1000);
  EXPECT_TRUE(FillSeeded(good, SeededTensor::kQuery, DType::kFloat32, {}, out.data()).ok());
  const auto refused = [&](SeededProblem problem) {
    return FillSeeded(problem, SeededTensor::kQuery, DType::kFloat32, {}, out.data()).message();
  };
  SeededProblem bad = good;
  bad.num_qo_heads = 3;
  EXPECT_THAT(refused(bad), HasSubstr("num_qo_heads is 3"));
  bad = good;
  bad.seq_q = 6;
  EXPECT_THAT(refused(bad), HasSubstr("seq_q is 6"));
  bad = good;
  bad.head_dim = 0;
  EXPECT_THAT(refused(bad), HasSubstr("head_dim is 0"));
}

TEST(SeededProblemTest, ThreadsChangeNothing) {
  const SeededProblem problem{
      .seed = 3, .num_qo_heads = 4, .num_kv_heads = 2, .head_dim = 16, .seq_q = 999, .seq_k = 999};
  std::vector<float> one(static_cast<size_t>(ElementCount(problem, SeededTensor::kKey)));
  std::vector<float> many(one.size());
  ASSERT_TRUE(FillSeeded(problem, SeededTensor::kKey, DType::kFloat32, {.num_threads = 1}, one.data()).ok());
  ASSERT_TRUE(FillSeeded(problem, SeededTensor::kKey, DType::kFloat32, {.num_threads = 7}, many.data()).ok());
  EXPECT_EQ(one, many);
}

}  // namespace
}  // namespace headscope::kernels
