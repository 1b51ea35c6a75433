// SPDX-License-Identifier: Apache-2.0
// SparseIndex against a mask that the test fills element by element from the documented definitions.
#include "kernels/sparse_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "kept_sets.h"
#include "support/attempts.h"

namespace headscope::kernels {
namespace {

using ::testing::ElementsAre;
using testing::FreshSeed;
using ::testing::HasSubstr;

// One list under construction, kept twice: as builder calls and as a dense mask of rows x columns.
class MaskedBuilder {
 public:
  explicit MaskedBuilder(const SparseIndexBuilder::Shape& shape)
      : shape_(shape), builder_(shape), mask_(static_cast<size_t>(shape.batch * shape.num_qo_heads * shape.seq_q)) {
    for (std::vector<bool>& row : mask_) row.resize(static_cast<size_t>(shape.seq_k));
  }

  void AddRange(int64_t begin, int64_t end, uint32_t half) {
    builder_.AddRange(begin, end, half);
    for (int64_t column = std::max<int64_t>(begin, 0); column < std::min<int64_t>(end, shape_.seq_k); ++column)
      Mark(column, half);
  }
  void AddColumn(int64_t column) {
    builder_.AddColumn(column);
    if (column >= 0 && column < shape_.seq_k) Mark(column, 0);
  }
  void FinishList() {
    builder_.FinishList();
    ++list_;
  }
  SparseIndex Build() { return builder_.Build(); }
  const std::vector<bool>& MaskRow(int64_t row) const { return mask_[static_cast<size_t>(row)]; }

 private:
  void Mark(int64_t column, uint32_t half) {
    const int32_t tiles = (shape_.seq_q + shape_.tile_rows - 1) / shape_.tile_rows;
    const int64_t tile = list_ % tiles;
    for (int32_t i = 0; i < shape_.tile_rows; ++i) {
      const int64_t row = tile * shape_.tile_rows + i;
      if (row >= shape_.seq_q) break;
      if (half == kRunUpperHalf && i >= shape_.tile_rows / 2) continue;
      if (half == kRunLowerHalf && i < shape_.tile_rows / 2) continue;
      if (!shape_.rule.Keeps(shape_.first_position + row, column)) continue;
      mask_[static_cast<size_t>(list_ / tiles * shape_.seq_q + row)][static_cast<size_t>(column)] = true;
    }
  }

  SparseIndexBuilder::Shape shape_;
  SparseIndexBuilder builder_;
  std::vector<std::vector<bool>> mask_;
  int64_t list_ = 0;
};

std::vector<ColumnRange> RangesOf(const std::vector<bool>& mask) {
  std::vector<ColumnRange> ranges;
  for (size_t column = 0; column < mask.size(); ++column) {
    if (!mask[column]) continue;
    const int32_t c = static_cast<int32_t>(column);
    if (!ranges.empty() && ranges.back().end == c) {
      ++ranges.back().end;
    } else {
      ranges.push_back({c, c + 1});
    }
  }
  return ranges;
}

SparseIndexBuilder::Shape RandomShape(std::mt19937* random) {
  auto pick = [&](int32_t low, int32_t high) { return std::uniform_int_distribution<int32_t>(low, high)(*random); };
  const int32_t lengths[] = {1, 2, 63, 64, 65, 127, 128, 129, 200, 321};
  SparseIndexBuilder::Shape shape;
  shape.batch = pick(1, 2);
  shape.num_qo_heads = pick(1, 3);
  shape.seq_k = lengths[pick(0, 9)];
  shape.seq_q = pick(0, 1) == 0 ? shape.seq_k : pick(1, shape.seq_k);
  shape.first_position = pick(0, 3) == 0 ? pick(0, shape.seq_k) : shape.seq_k - shape.seq_q;
  shape.tile_rows = pick(0, 1) == 0 ? 64 : 128;
  shape.rule.kind = static_cast<MaskKind>(pick(0, 2));
  shape.rule.window = pick(1, 150);
  shape.rule.num_sinks = pick(0, 40);
  return shape;
}

TEST(SparseIndexBuilder, KeepsExactlyWhatWasAddedUnderTheRule) {
  const uint32_t seed = FreshSeed();
  std::mt19937 random(seed);
  for (int trial = 0; trial < 400; ++trial) {
    const SparseIndexBuilder::Shape shape = RandomShape(&random);
    SCOPED_TRACE("seed " + std::to_string(seed) + " trial " + std::to_string(trial));
    MaskedBuilder builder(shape);
    const int64_t num_lists =
        int64_t{shape.batch} * shape.num_qo_heads * ((shape.seq_q + shape.tile_rows - 1) / shape.tile_rows);
    auto pick = [&](int32_t low, int32_t high) { return std::uniform_int_distribution<int32_t>(low, high)(random); };
    for (int64_t list = 0; list < num_lists; ++list) {
      const int num_ranges = pick(0, 5);
      for (int i = 0; i < num_ranges; ++i) {
        const int32_t begin = pick(-20, shape.seq_k);
        const uint32_t halves[] = {0, kRunUpperHalf, kRunLowerHalf};
        builder.AddRange(begin, begin + pick(0, 90), halves[pick(0, 2)]);
      }
      const int num_columns = pick(0, 12);
      for (int i = 0; i < num_columns; ++i) builder.AddColumn(pick(-3, shape.seq_k + 2));
      builder.FinishList();
    }
    const SparseIndex index = builder.Build();
    const SparseIndexView view = index.View();
    const Status status = Validate(view);
    ASSERT_TRUE(status.ok()) << status.message();

    PairCount expected_total;
    for (int32_t sequence = 0; sequence < shape.batch; ++sequence) {
      for (int32_t head = 0; head < shape.num_qo_heads; ++head) {
        PairCount expected;
        for (int32_t row = 0; row < shape.seq_q; ++row) {
          const std::vector<bool>& mask =
              builder.MaskRow((int64_t{sequence} * shape.num_qo_heads + head) * shape.seq_q + row);
          std::vector<ColumnRange> kept = {{-1, -1}};  // what is there already stays
          AppendKeptRanges(view, sequence, head, row, &kept);
          ASSERT_EQ(kept.front(), (ColumnRange{-1, -1}));
          kept.erase(kept.begin());
          ASSERT_EQ(kept, RangesOf(mask)) << "row " << row;
          expected.kept += std::count(mask.begin(), mask.end(), true);
          for (int32_t column = 0; column < shape.seq_k; ++column) {
            expected.dense += shape.rule.kind == MaskKind::kNone || column <= shape.first_position + row;
          }
        }
        const PairCount counted = CountPairs(view, sequence, head);
        ASSERT_EQ(counted.kept, expected.kept);
        ASSERT_EQ(counted.dense, expected.dense);
        expected_total.kept += expected.kept;
        expected_total.dense += expected.dense;
      }
    }
    ASSERT_EQ(CountPairs(view).kept, expected_total.kept);
    ASSERT_EQ(CountPairs(view).dense, expected_total.dense);
  }
}

SparseIndexBuilder::Shape CausalShape(int32_t seq_len, int32_t tile_rows = 128) {
  SparseIndexBuilder::Shape shape;
  shape.seq_q = seq_len;
  shape.seq_k = seq_len;
  shape.tile_rows = tile_rows;
  return shape;
}

TEST(SparseIndexBuilder, SplitsARunAtTheDiagonal) {
  SparseIndexBuilder builder(CausalShape(256));
  builder.AddRange(0, 256);
  builder.FinishList();
  builder.AddRange(0, 256);
  builder.FinishList();
  const SparseIndex index = builder.Build();
  EXPECT_THAT(index.runs, ElementsAre(KeyRun::Make(0, 128, kRunPartial), KeyRun::Make(0, 128, 0),
                                      KeyRun::Make(128, 128, kRunPartial)));
  EXPECT_THAT(index.run_count, ElementsAre(1, 2));
}

TEST(SparseIndexBuilder, AddsNothingTwice) {
  SparseIndexBuilder builder(CausalShape(256));
  builder.FinishList();
  builder.AddRange(30, 40);
  builder.AddRange(35, 60);
  builder.AddRange(60, 64);
  builder.AddColumn(62);
  builder.AddColumn(10);
  builder.AddColumn(10);
  builder.AddRange(64, 96, kRunUpperHalf);
  builder.AddRange(64, 96, kRunLowerHalf);
  builder.FinishList();
  const SparseIndex index = builder.Build();
  EXPECT_THAT(index.runs, ElementsAre(KeyRun::Make(30, 66, 0)));
  EXPECT_THAT(index.columns, ElementsAre(10));
}

TEST(SparseIndexBuilder, ColumnThatOneHalfCoversBecomesARunOfBoth) {
  SparseIndexBuilder builder(CausalShape(256));
  builder.FinishList();
  builder.AddRange(10, 20, kRunLowerHalf);
  builder.AddColumn(15);
  builder.FinishList();
  const SparseIndex index = builder.Build();
  EXPECT_THAT(index.runs, ElementsAre(KeyRun::Make(10, 5, kRunLowerHalf), KeyRun::Make(15, 1, 0),
                                      KeyRun::Make(16, 4, kRunLowerHalf)));
  EXPECT_TRUE(index.columns.empty());
}

TEST(SparseIndexBuilder, CanBeUsedAgainAfterBuild) {
  SparseIndexBuilder builder(CausalShape(64, 64));
  builder.AddColumn(0);
  builder.FinishList();
  EXPECT_EQ(builder.Build().columns.size(), 1u);
  builder.FinishList();
  const SparseIndex empty = builder.Build();
  EXPECT_TRUE(empty.columns.empty());
  EXPECT_TRUE(Validate(empty.View()).ok());
}

TEST(CountPairs, LengthProductNeeds64Bits) {
  for (const int32_t seq_len : {46341, 131072}) {
    SparseIndexBuilder builder(CausalShape(seq_len));
    for (int32_t row = 0; row < seq_len; row += 128) {
      builder.AddRange(0, seq_len);
      builder.FinishList();
    }
    const SparseIndex index = builder.Build();
    ASSERT_TRUE(Validate(index.View()).ok());
    const PairCount count = CountPairs(index.View());
    EXPECT_EQ(count.kept, int64_t{seq_len} * (int64_t{seq_len} + 1) / 2);
    EXPECT_EQ(count.dense, count.kept);
    EXPECT_EQ(count.Density(), 1.0);
    std::vector<ColumnRange> last;
    AppendKeptRanges(index.View(), 0, 0, seq_len - 1, &last);
    EXPECT_THAT(last, ElementsAre(ColumnRange{0, seq_len}));
  }
}

TEST(CountPairs, CostsRunsNotElements) {
  // 32 heads of 131,072 tokens hold 2.7e11 pairs: a count per element would not end.
  SparseIndexBuilder::Shape shape = CausalShape(131072);
  shape.num_qo_heads = 32;
  shape.rule = {MaskKind::kCausalWindow, 4096, 1024};
  SparseIndexBuilder builder(shape);
  for (int32_t head = 0; head < shape.num_qo_heads; ++head) {
    for (int32_t row = 0; row < shape.seq_q; row += 128) {
      builder.AddRange(0, shape.seq_k);
      builder.FinishList();
    }
  }
  const SparseIndex index = builder.Build();
  PairCount count;
  const double seconds = ProcessorSeconds([&] { count = CountPairs(index.View()); });
  const int64_t dense_rows = 1024 + 4096;
  EXPECT_EQ(count.kept, 32 * (dense_rows * (dense_rows + 1) / 2 + (131072 - dense_rows) * dense_rows));
  EXPECT_LT(seconds, 10) << "milliseconds, or minutes";
}

TEST(CountPairs, FlopsAreFourPerPairAndDimension) {
  EXPECT_EQ(AttentionFlops(int64_t{1} << 34, 128), int64_t{1} << 43);
}

// A valid two-tile index of 192 rows that the refusal tests damage one field at a time.
SparseIndex ValidIndex() {
  SparseIndexBuilder builder(CausalShape(192));
  builder.AddRange(0, 64, kRunUpperHalf);
  builder.AddRange(32, 128, kRunLowerHalf);
  builder.FinishList();
  builder.AddRange(40, 80);
  builder.AddRange(100, 192);
  builder.AddColumn(3);
  builder.AddColumn(90);
  builder.FinishList();
  return builder.Build();
}

void ExpectRefused(const SparseIndex& index, const std::string& words) {
  const Status status = Validate(index.View());
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << words;
  EXPECT_THAT(status.message(), HasSubstr(words));
}

// What is claimed holds for every pair, and the claim is made for what keeps everything as runs.
TEST(KeepsEverything, TellsWholeListsFromOthers) {
  std::mt19937 random(FreshSeed());
  const auto number = [&](int32_t from, int32_t to) {
    return std::uniform_int_distribution<int32_t>(from, to)(random);
  };
  for (int trial = 0; trial < 300; ++trial) {
    SparseIndexBuilder::Shape shape;
    shape.batch = number(1, 2);
    shape.num_qo_heads = number(1, 3);
    shape.seq_q = number(1, 300);
    shape.first_position = number(0, 200);
    // As many keys as positions, or some that no row sees, or fewer.
    shape.seq_k = std::max(1, shape.first_position + shape.seq_q + std::max(-1, number(-3, 1)) * number(0, 150));
    shape.tile_rows = number(0, 1) == 0 ? 64 : 128;
    if (number(0, 2) == 0) shape.rule.kind = MaskKind::kNone;
    SparseIndexBuilder builder(shape);
    const int32_t tiles = (shape.seq_q + shape.tile_rows - 1) / shape.tile_rows;
    const int32_t lists = shape.batch * shape.num_qo_heads * tiles;
    // One list may lose one key that some row of it would keep.
    const int32_t thinned = number(0, 1) == 0 ? number(0, lists - 1) : -1;
    for (int32_t list = 0; list < lists; ++list) {
      if (list != thinned) {
        builder.AddRange(0, shape.seq_k);
      } else {
        const int32_t last = std::min((list % tiles + 1) * shape.tile_rows, shape.seq_q) - 1;
        const int32_t visible = std::min(shape.seq_k - 1, shape.first_position + last);
        const int32_t lost = number(0, shape.rule.kind == MaskKind::kNone ? shape.seq_k - 1 : visible);
        const uint32_t half = last % shape.tile_rows >= shape.tile_rows / 2 && number(0, 3) == 0 ? kRunLowerHalf : 0u;
        builder.AddRange(0, lost, half);
        builder.AddRange(lost + 1, shape.seq_k, half);
      }
      builder.FinishList();
    }
    const SparseIndex index = builder.Build();
    ASSERT_EQ(KeepsEverything(index.View()), thinned < 0) << "trial " << trial;
    const PairCount pairs = CountPairs(index.View());
    ASSERT_EQ(pairs.kept == pairs.dense, thinned < 0) << "trial " << trial;
  }
}

TEST(KeepsEverything, ClaimsNothingOfWindowsAndColumns) {
  SparseIndexBuilder::Shape shape;
  shape.seq_q = shape.seq_k = 200;
  shape.rule = {MaskKind::kCausalWindow, 50, 4};
  SparseIndexBuilder window(shape);
  for (int list = 0; list < 2; ++list) {
    window.AddRange(0, 200);
    window.FinishList();
  }
  EXPECT_FALSE(KeepsEverything(window.Build().View()));
  shape.rule = {MaskKind::kCausal, 0, 0};
  SparseIndexBuilder columns(shape);
  for (int list = 0; list < 2; ++list) {
    columns.AddColumn(0);
    columns.AddRange(1, 200);
    columns.FinishList();
  }
  EXPECT_FALSE(KeepsEverything(columns.Build().View()));
  EXPECT_FALSE(SparseIndexView{}.keeps_everything);
}

TEST(Validate, AcceptsWhatTheBuilderMakes) {
  const Status status = Validate(ValidIndex().View());
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Validate, RefusesEachBrokenRuleByName) {
  const SparseIndex valid = ValidIndex();
  auto damaged = [&](auto change) {
    SparseIndex index = valid;
    change(index);
    return index;
  };
  const size_t second = static_cast<size_t>(valid.run_begin[1]);
  ExpectRefused(damaged([](SparseIndex& i) { i.tile_rows = 96; }), "tile_rows is 96");
  ExpectRefused(damaged([](SparseIndex& i) { i.batch = 0; }), "batch is 0");
  ExpectRefused(damaged([](SparseIndex& i) { i.seq_k = 1 << 28; }), "seq_k");
  ExpectRefused(damaged([](SparseIndex& i) { i.first_position = -1; }), "first_position is -1");
  // Their number of tiles, and so of lists, is not one of 32 bits.
  ExpectRefused(damaged([](SparseIndex& i) { i.seq_q = INT32_MAX; }), "first_position + seq_q is 2147483647");
  ExpectRefused(damaged([](SparseIndex& i) { i.first_position = INT32_MAX; }), "first_position + seq_q is 2147483839");
  ExpectRefused(damaged([](SparseIndex& i) { i.rule = {MaskKind::kCausalWindow, 0, 0}; }), "rule.window is 0");
  ExpectRefused(damaged([](SparseIndex& i) { i.rule.kind = static_cast<MaskKind>(9); }), "rule.kind is 9");
  ExpectRefused(damaged([](SparseIndex& i) { i.run_begin[1] = -1; }), "list 1: run_begin");
  ExpectRefused(damaged([](SparseIndex& i) { i.run_count[1] += 1; }), "list 1: run_begin");
  ExpectRefused(damaged([](SparseIndex& i) { i.run_begin[0] = INT64_MAX; }), "list 0: run_begin");
  ExpectRefused(damaged([](SparseIndex& i) { i.column_count[0] = -1; }), "list 0: column_begin");
  ExpectRefused(damaged([&](SparseIndex& i) { i.runs[second] = KeyRun::Make(40, 40, 8); }), "unknown flag");
  ExpectRefused(damaged([&](SparseIndex& i) { i.runs[second] = KeyRun::Make(40, 40, 6); }), "both half flags");
  ExpectRefused(damaged([&](SparseIndex& i) { i.runs[second] = KeyRun::Make(40, 0, 0); }), "is empty");
  ExpectRefused(damaged([&](SparseIndex& i) { i.runs[second] = KeyRun::Make(-1, 4, 0); }), "leaves [0, seq_k)");
  ExpectRefused(damaged([&](SparseIndex& i) { i.runs.back() = KeyRun::Make(128, 65, kRunPartial); }),
                "leaves [0, seq_k)");
  ExpectRefused(damaged([&](SparseIndex& i) { i.runs[second] = KeyRun::Make(101, 1, 0); }), "starts before");
  ExpectRefused(damaged([&](SparseIndex& i) { i.runs[second] = KeyRun::Make(40, 61, 0); }), "overlaps");
  ExpectRefused(damaged([&](SparseIndex& i) { i.runs.back() = KeyRun::Make(128, 64, 0); }), "full but reaches past");
  ExpectRefused(damaged([](SparseIndex& i) { i.columns = {90, 90}; }), "is not larger");
  ExpectRefused(damaged([](SparseIndex& i) { i.columns = {90, 3}; }), "is not larger");
  ExpectRefused(damaged([](SparseIndex& i) { i.columns = {3, 40}; }), "lies in a run");
  ExpectRefused(damaged([](SparseIndex& i) { i.columns = {3, 79}; }), "lies in a run");
  ExpectRefused(damaged([](SparseIndex& i) { i.columns = {-1, 3}; }), "leaves [0, seq_k)");
  ExpectRefused(damaged([](SparseIndex& i) { i.columns = {3, 192}; }), "leaves [0, seq_k)");
  ExpectRefused(damaged([](SparseIndex& i) {
                  i.runs.pop_back();
                  i.run_count[1] -= 1;
                  i.columns = {3, 129};
                }),
                "later than the first row");
}

TEST(Validate, RunsOfDifferentHalvesMayCoverTheSameColumns) {
  SparseIndex index = ValidIndex();
  const size_t second = static_cast<size_t>(index.run_begin[1]);
  index.runs[second] = KeyRun::Make(40, 40, kRunUpperHalf);
  index.runs[second + 1] = KeyRun::Make(60, 68, kRunLowerHalf);
  index.columns = {3, 130};
  index.run_count[1] = 2;
  const Status late_column = Validate(index.View());
  EXPECT_THAT(late_column.message(), HasSubstr("later than the first row"));
  index.columns = {3, 128};
  EXPECT_TRUE(Validate(index.View()).ok()) << Validate(index.View()).message();
}

TEST(Validate, RefusesNullPointers) {
  const SparseIndex index = ValidIndex();
  SparseIndexView view = index.View();
  view.run_count = nullptr;
  EXPECT_THAT(Validate(view).message(), HasSubstr("null"));
  view = index.View();
  view.runs = nullptr;
  EXPECT_THAT(Validate(view).message(), HasSubstr("runs is null"));
}

}  // namespace
}  // namespace headscope::kernels
