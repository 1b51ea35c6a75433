// SPDX-License-Identifier: Apache-2.0
// The Hopper scheduler's walk over runs, on the host: a warp's lanes go on by turns from exchange to exchange. What its
// tiles keep must be the index's kept set, every pair once, and their flags must say what the loaders and consumers
// rely on. Needs no GPU.
#include <gtest/gtest.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

// What the walk's headers bring, in front of what device code is made of here.
#include <cutlass/arch/barrier.h>

#include <cute/atom/mma_traits_sm90_gmma.hpp>
#include <cute/tensor.hpp>

#include "cuda_lists.h"
#include "kernels/sparse_index.h"

#undef __device__
#define __device__
using std::max;
using std::min;

namespace {

constexpr int kLanes = 32;

// One warp in one thread of the host. Every lane runs on a stack of its own up to its next exchange, where it hands in
// a value and the next lane goes on; when its turn comes again, all lanes have handed in theirs. (A thread for each
// lane would sleep and wake at every exchange: nearly all of the time.)
class HostWarp {
 public:
  // What every lane does. Whether all of them met at the same exchanges, as the hardware demands.
  bool Run(const std::function<void(int)>& work) {
    work_ = &work;
    for (int i = 0; i < kLanes; ++i) {
      Lane& lane = lanes_[static_cast<size_t>(i)];
      lane = Lane{.stack = std::move(lane.stack)};
      lane.stack.resize(kStackBytes);
      getcontext(&lane.context);
      lane.context.uc_stack.ss_sp = lane.stack.data();
      lane.context.uc_stack.ss_size = lane.stack.size();
      lane.context.uc_link = &scheduler_;  // where a lane goes that is done
      makecontext(&lane.context, &HostWarp::BeginLane, 0);
    }
    while (true) {
      for (current_ = 0; current_ < kLanes; ++current_) swapcontext(&scheduler_, &Current().context);
      const auto ended = std::count_if(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.ended; });
      if (ended == kLanes) return true;
      // A lane would wait for others that never come. The stacks that are left hold nothing that wants to be freed.
      if (ended > 0) return false;
    }
  }

  template <class Reduce>
  auto Meet(int64_t value, const Reduce& reduce) {
    // Two sets of values by turns: those of the next exchange come in while others still read these.
    auto& values = values_[static_cast<size_t>(Current().exchanges++ % 2)];
    values[static_cast<size_t>(current_)] = value;
    swapcontext(&Current().context, &scheduler_);
    return reduce(values);
  }

 private:
  static constexpr size_t kStackBytes = 256 << 10;
  struct Lane {
    ucontext_t context{};
    std::vector<char> stack;
    int64_t exchanges = 0;
    bool ended = false;
  };

  static void BeginLane();
  Lane& Current() { return lanes_[static_cast<size_t>(current_)]; }

  const std::function<void(int)>* work_ = nullptr;
  ucontext_t scheduler_{};
  std::array<Lane, kLanes> lanes_;
  int current_ = 0;
  std::array<std::array<int64_t, kLanes>, 2> values_{};
};
HostWarp warp;

void HostWarp::BeginLane() {
  (*warp.work_)(warp.current_);
  warp.Current().ended = true;
}

// The intrinsics of CUDA that the walk uses, under their own names.
// NOLINTBEGIN(bugprone-reserved-identifier)
[[maybe_unused]] void __syncwarp() {}
template <class Value>
Value __shfl_sync(uint32_t, Value value, int from) {
  return warp.Meet(static_cast<int64_t>(value),
                   [&](const auto& all) { return static_cast<Value>(all[static_cast<size_t>(from) % kLanes]); });
}
uint32_t __ballot_sync(uint32_t, bool vote) {
  return warp.Meet(vote, [](const auto& all) {
    uint32_t votes = 0;
    for (size_t i = 0; i < all.size(); ++i) votes |= static_cast<uint32_t>(all[i]) << i;
    return votes;
  });
}
bool __any_sync(uint32_t lanes, bool vote) {
  return __ballot_sync(lanes, vote) != 0;
}
int __reduce_min_sync(uint32_t, int value) {
  return warp.Meet(value, [](const auto& all) { return static_cast<int>(*std::min_element(all.begin(), all.end())); });
}
uint32_t __reduce_or_sync(uint32_t, uint32_t value) {
  return warp.Meet(value, [](const auto& all) {
    uint32_t bits = 0;
    for (const int64_t one : all) bits |= static_cast<uint32_t>(one);
    return bits;
  });
}
int __ffs(int value) {
  return value == 0 ? 0 : std::countr_zero(static_cast<uint32_t>(value)) + 1;
}

// NOLINTEND(bugprone-reserved-identifier)

}  // namespace

#include "hopper/run_walker.cuh"

namespace headscope::kernels::hopper {
namespace {

using testing::ListShape;
using testing::MakeLists;
using testing::NameOf;
using testing::Pattern;

// kAligned: as the FP8 kernel has it, whose tensors come in pieces of 32 tokens.
template <int kSegments_, bool kAligned = false>
struct Tiles {
  static constexpr bool kPacked = false;
  static constexpr bool kAlignedSegments = kAligned;
  static constexpr int kSegments = kSegments_;
  static constexpr int kTileColumns = kSegments_ * kSegmentRows;
};

template <int kSegments, bool kAligned = false>
std::vector<Tile> WalkItem(const SparseIndexView& index, int item) {
  KernelParams params{};
  params.index = index;
  ItemLists lists{};
  lists.count = kItemRows / index.tile_rows;
  for (int l = 0; l < lists.count; ++l) {
    const int list = item * lists.count + l;
    if (list >= index.NumRowTiles()) continue;
    lists.run_begin[l] = index.run_begin[list];
    lists.run_count[l] = index.run_count[list];
  }
  std::vector<Tile> tiles;
  const bool met = warp.Run([&](int lane) {
    RunWalker<Tiles<kSegments, kAligned>> walker(params, lane);
    walker.Start(lists, item);
    walker.TakeDiagonalEarly();
    while (walker.HasNext()) {
      const Tile tile = walker.Next();
      if (lane == 0) tiles.push_back(tile);
    }
  });
  EXPECT_TRUE(met) << "a lane waits at an exchange that others never reach";
  return tiles;
}

// What each of an item's rows keeps of the list's runs. Single columns are not the walk's.
std::vector<std::vector<int>> KeptOfItem(const SparseIndexView& index, int item) {
  std::vector<std::vector<int>> kept;
  for (int row = item * kItemRows; row < min((item + 1) * kItemRows, index.seq_q); ++row) {
    std::vector<int>& keys = kept.emplace_back(static_cast<size_t>(index.seq_k), 0);
    std::vector<ColumnRange> ranges;
    AppendKeptRanges(index, 0, 0, row, &ranges);
    for (const ColumnRange& range : ranges) std::fill(keys.begin() + range.begin, keys.begin() + range.end, 1);
    const int32_t list = row / index.tile_rows;
    for (int32_t i = 0; i < index.column_count[list]; ++i) {
      keys[static_cast<size_t>(index.columns[index.column_begin[list] + i])] = 0;
    }
  }
  return kept;
}

// Adds to `taken` how often each of the item's rows gets each key by what a tile says, and checks that its flags say
// what holds. `kept`: what the rows keep.
template <int kSegments>
void CountPairsOf(const SparseIndexView& index, int item, const Tile& tile, const std::vector<std::vector<int>>& kept,
                  std::vector<std::vector<int>>* taken) {
  bool adjacent = true;
  for (int i = 1; i < kSegments; ++i) adjacent &= tile.start[i] == tile.start[i - 1] + kSegmentRows;
  EXPECT_EQ((tile.flags & kStepWhole) != 0, adjacent);
  for (int key = 0; key < kSegments * kSegmentRows; ++key) {
    const int segment = key / kSegmentRows;
    const int bit = key % kSegmentRows;
    const int column = tile.start[segment] + bit;
    const bool upper = (tile.upper[segment] >> bit & 1u) != 0;
    const bool lower = (tile.lower[segment] >> bit & 1u) != 0;
    if (upper || lower) {
      // The values of such a key are multiplied as they are, by weights of 0 too, and 0 * NaN is NaN.
      ASSERT_LT(column, index.seq_k);
      const bool used = std::any_of(kept.begin(), kept.end(),
                                    [&](const auto& keys) { return keys[static_cast<size_t>(column)] != 0; });
      ASSERT_TRUE(used) << "key " << column << " is taken and kept by no row";
    } else {
      EXPECT_TRUE(column >= index.seq_k || (tile.flags & kStepUnreadValues) != 0) << "key " << column << " is unread";
    }
    for (int row = 0; row < static_cast<int>(taken->size()); ++row) {
      const bool keeps = (tile.upper_quarters >> row / 32 & 1u) != 0   ? upper
                         : (tile.lower_quarters >> row / 32 & 1u) != 0 ? lower
                                                                       : false;
      if (!keeps) {
        ASSERT_NE(tile.flags & kStepMasked, 0u) << "key " << column << " is not kept by row " << row;
        continue;
      }
      const bool ruled = (tile.flags & kStepRuled) != 0;
      EXPECT_TRUE(!ruled || (tile.flags & kStepMasked) != 0);
      if (ruled && !index.rule.Keeps(index.first_position + item * kItemRows + row, column)) continue;
      ++(*taken)[static_cast<size_t>(row)][static_cast<size_t>(column)];
    }
  }
}

template <int kSegments, bool kAligned = false>
void CheckWalk(const SparseIndexView& index) {
  for (int item = 0; item * kItemRows < index.seq_q; ++item) {
    const std::vector<std::vector<int>> kept = KeptOfItem(index, item);
    std::vector<std::vector<int>> taken(kept.size(), std::vector<int>(static_cast<size_t>(index.seq_k)));
    for (const Tile& tile : WalkItem<kSegments, kAligned>(index, item)) {
      for (int i = 0; i < kSegments && kAligned; ++i) {
        ASSERT_TRUE(tile.start[i] % kSegmentRows == 0 || tile.start[i] == index.seq_k) << "segment " << i;
      }
      ASSERT_NO_FATAL_FAILURE(CountPairsOf<kSegments>(index, item, tile, kept, &taken));
    }
    for (size_t row = 0; row < kept.size(); ++row) {
      ASSERT_EQ(taken[row], kept[row]) << "row " << item * kItemRows + static_cast<int>(row);
    }
  }
}

// What the tests below rest on: values come from every lane's same exchange, and lanes that part ways are seen.
TEST(HostWarp, LanesMeetAtEveryExchange) {
  std::array<int, kLanes> sums{};
  EXPECT_TRUE(warp.Run([&](int lane) {
    for (int round = 0; round < 5; ++round) {
      const auto votes = __ballot_sync(~0u, lane % 5 == round);
      const int from_next = __shfl_sync(~0u, 100 * round + lane, lane + 1);
      sums[static_cast<size_t>(lane)] += std::popcount(votes) * from_next;
    }
  }));
  for (int lane = 0; lane < kLanes; ++lane) {
    // Lanes 0 and 1 of every five come 7 times among 32, the others 6 times.
    const int next = (lane + 1) % kLanes;
    EXPECT_EQ(sums[static_cast<size_t>(lane)], 7 * next + 7 * (100 + next) + 6 * (3 * next + 900)) << lane;
  }
  EXPECT_FALSE(warp.Run([](int lane) {
    for (int round = 0; round < (lane == 3 ? 1 : 2); ++round) __any_sync(~0u, true);
  }));
}

class CudaRunWalker : public ::testing::TestWithParam<Pattern> {};

TEST_P(CudaRunWalker, TakesEveryKeptPairOnce) {
  uint32_t seed = 1;
  for (const int32_t tile_rows : {64, 128}) {
    for (const ElementRule& rule : {ElementRule{MaskKind::kNone, 0, 0}, ElementRule{MaskKind::kCausal, 0, 0},
                                    ElementRule{MaskKind::kCausalWindow, 200, 10}}) {
      for (const int32_t length : {1, 65, 500}) {
        SCOPED_TRACE(std::to_string(tile_rows) + " rows a tile, rule " + std::to_string(static_cast<int>(rule.kind)) +
                     ", length " + std::to_string(length));
        const int32_t seq_k = length + (seed % 2 == 0 ? 0 : 233);
        const int32_t first_position = rule.kind == MaskKind::kNone ? 0 : seq_k - length;
        const SparseIndex index = MakeLists({1, 1, length, seq_k, first_position, tile_rows, rule}, GetParam(), seed++);
        ASSERT_NO_FATAL_FAILURE(CheckWalk<4>(index.View()));
        ASSERT_NO_FATAL_FAILURE(CheckWalk<2>(index.View()));
        ASSERT_NO_FATAL_FAILURE((CheckWalk<4, true>(index.View())));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Patterns, CudaRunWalker,
                         ::testing::Values(Pattern::kDense, Pattern::kRandom, Pattern::kShortRuns, Pattern::kColumns,
                                           Pattern::kHalves, Pattern::kHoles, Pattern::kOneKey, Pattern::kOverhang,
                                           Pattern::kSomeEmpty, Pattern::kEmpty),
                         [](const auto& parameter) { return std::string(NameOf(parameter.param)); });

// The first and the newest keys hold the largest scores of most heads, so a row meets them first; what is left follows
// in order.
TEST(CudaRunWalker, WholeTilesOnTheDiagonalGoSecond) {
  for (const int32_t first_position : {0, 300}) {
    const int32_t seq_k = first_position + 500;
    const SparseIndex index =
        MakeLists({1, 1, 500, seq_k, first_position, 128, {MaskKind::kCausal, 0, 0}}, Pattern::kDense, 1);
    for (const int item : {1, 2}) {
      const std::vector<Tile> tiles = WalkItem<4>(index.View(), item);
      const int first_row = first_position + item * kItemRows;
      ASSERT_EQ(tiles.size(), static_cast<size_t>((first_row + 127) / 128 + 1));
      EXPECT_EQ(tiles[0].start[0], 0);
      EXPECT_EQ(tiles[1].start[0], first_row);
      EXPECT_EQ(tiles[1].flags & (kStepWhole | kStepRuled), kStepWhole | kStepRuled);
      for (size_t i = 2; i < tiles.size(); ++i) EXPECT_EQ(tiles[i].start[0], static_cast<int>(i - 1) * 128);
    }
    // The last rows end inside a tile: keys behind them are nobody's, so there is no whole tile on their diagonal.
    EXPECT_EQ(WalkItem<4>(index.View(), 3)[1].start[0], 128);
  }
}

// Where a window begins behind the sinks, a partial run over all keys falls into two parts, and the keys between them
// hold what nobody reads. Lists of 64 rows and of 128, rows in front of the window's end and far behind it.
TEST(CudaRunWalker, LeavesOutWhatTheWindowHasPassed) {
  for (const int32_t tile_rows : {64, 128}) {
    for (const int32_t num_sinks : {0, 10, 300}) {
      const ElementRule rule{MaskKind::kCausalWindow, 40, num_sinks};
      SparseIndex index = MakeLists({1, 1, 400, 700, 300, tile_rows, rule}, Pattern::kDense, 1);
      ASSERT_NO_FATAL_FAILURE(CheckWalk<4>(index.View()));
      const std::vector<Tile> tiles = WalkItem<4>(index.View(), 2);  // rows 256 to 383, positions 556 to 683
      EXPECT_TRUE(std::none_of(tiles.begin(), tiles.end(), [&](const Tile& tile) {
        return std::any_of(tile.start, tile.start + 4,
                           [&](int start) { return start > std::max(0, num_sinks) && start < 556 - 40; });
      }));
    }
  }
}

// The bits that make up a rule, for 32 keys, at the ends of what 32 bits hold.
TEST(CudaRunWalker, BitsOfARuleAreTheRules) {
  constexpr int32_t kLargest = std::numeric_limits<int32_t>::max();
  for (const int32_t window : {1, 31, 4096, kLargest - 1, kLargest}) {
    for (const int32_t num_sinks : {0, 4, kLargest}) {
      for (const int32_t start : {0, 5, 1000, (1 << 28) - 32}) {
        for (const int32_t position : {0, 5, 1010, 1 << 28, kLargest - 256}) {
          for (const MaskKind kind : {MaskKind::kCausal, MaskKind::kCausalWindow}) {
            const ElementRule rule{kind, window, num_sinks};
            uint32_t expected = 0;
            for (int32_t key = 0; key < 32; ++key) expected |= rule.Keeps(position, start + key) ? 1u << key : 0u;
            const uint32_t in_window = kind == MaskKind::kCausalWindow ? WindowKeys(rule, start, position) : ~0u;
            ASSERT_EQ(KeysUpTo(start, position) & in_window, expected)
                << "window " << window << ", sinks " << num_sinks << ", start " << start << ", position " << position;
          }
        }
      }
    }
  }
}

// One key in 40: no cover by 32 keys takes two of them, so each needs a segment. One key in 8: four of them lie in one.
TEST(CudaRunWalker, CoversWithTheFewestSegments) {
  for (const auto& [stride, segments] : {std::pair{40, 100}, {8, 25}}) {
    SparseIndexBuilder::Shape shape;
    shape.seq_q = 1;
    shape.seq_k = 4096;
    shape.first_position = 4095;
    SparseIndexBuilder builder(shape);
    for (int i = 0; i < 100; ++i) builder.AddRange(stride * i, stride * i + 1);
    builder.FinishList();
    const SparseIndex index = builder.Build();
    int used = 0;
    for (const Tile& tile : WalkItem<4>(index.View(), 0)) {
      for (int i = 0; i < 4; ++i) used += (tile.upper[i] | tile.lower[i]) != 0 ? 1 : 0;
    }
    EXPECT_EQ(used, segments) << "one key in " << stride;
  }
}

}  // namespace
}  // namespace headscope::kernels::hopper
