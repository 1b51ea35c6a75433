// SPDX-License-Identifier: Apache-2.0
// What the prefill methods that keep blocks promise, each of its own: limits are dense, more budget keeps more, heads
// share the work.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "internal/bfloat16_scores.h"
#include "internal/integer_scores.h"
#include "kept_sets.h"
#include "kernels/method.h"
#include "kernels/several_settings.h"

namespace headscope::kernels {
namespace {

using testing::CausalMask;
using testing::FreshSeed;
using testing::IsSubset;
using testing::Mask;
using testing::MaskOf;
using testing::ProblemShape;
using testing::RandomProblem;
using testing::Select;
using testing::SquareShape;

// What is done once for several settings is what each of them does alone.
TEST(SeveralSettings, AreChosenAtOnceAsOneByOne) {
  std::mt19937 random(FreshSeed());
  size_t num_methods = 0;
  for (const PrefillMethod* const method : PrefillMethods()) {
    const auto* const several = dynamic_cast<const SelectsSeveral*>(method);
    if (several == nullptr) continue;
    ++num_methods;
    for (const auto& [num_qo_heads, num_kv_heads] : {std::pair<int32_t, int32_t>(1, 1), {4, 2}}) {
      ProblemShape shape = SquareShape(200 + static_cast<int32_t>(random() % 300));
      shape.num_qo_heads = num_qo_heads;
      shape.num_kv_heads = num_kv_heads;
      const RandomProblem data(shape, &random);
      std::vector<ParameterValues> settings(3, ParameterValues(method->spec()));
      for (size_t i = 0; i < settings.size(); ++i)
        ASSERT_EQ(
            settings[i].Set(method->spec(), method->spec().parameters.front().name, 0.3 + 0.3 * static_cast<double>(i)),
            "");
      std::vector<SparseIndex> at_once;
      ASSERT_TRUE(several->SelectEach(data.View(), settings, {}, &at_once).ok());
      ASSERT_EQ(at_once.size(), settings.size());
      for (size_t i = 0; i < settings.size(); ++i) {
        SparseIndex alone;
        ASSERT_TRUE(method->Select(data.View(), settings[i], {}, &alone).ok());
        EXPECT_EQ(CountPairs(at_once[i].View()).kept, CountPairs(alone.View()).kept);
        for (int32_t head = 0; head < num_qo_heads; ++head) {
          for (int32_t row = 0; row < shape.seq_q; ++row) {
            std::vector<ColumnRange> own, other;
            AppendKeptRanges(at_once[i].View(), 0, head, row, &own);
            AppendKeptRanges(alone.View(), 0, head, row, &other);
            EXPECT_EQ(own, other) << method->spec().name << " row " << row;
          }
        }
      }
      std::stop_source stop;
      stop.request_stop();
      const Status stopped = several->SelectEach(data.View(), settings, {.stop = stop.get_token()}, &at_once);
      EXPECT_EQ(stopped.code(), StatusCode::kCancelled);
      EXPECT_EQ(at_once.size(), settings.size()) << "what was there stays";
    }
  }
  EXPECT_GT(num_methods, 0U);
}

TEST(BlockSparse, KeepsMinOfBudgetAndCausalBlocksPerRow) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(640), &random);
  const Mask mask = MaskOf(Select("block-sparse", "n_blocks=3", data.View()));
  for (size_t row = 63; row < mask.size(); row += 64) {  // a block's last row sees all of its own block
    const auto kept = std::count(mask[row].begin(), mask[row].end(), true);
    EXPECT_EQ(kept, static_cast<int64_t>(std::min<size_t>(3, row / 64 + 1) * 64)) << "row " << row;
  }
  EXPECT_EQ(MaskOf(Select("block-sparse", "n_blocks=10", data.View())), CausalMask(data.View()));
}

TEST(BlockSparse, GrowsWithItsBudget) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(700), &random);
  Mask smaller = MaskOf(Select("block-sparse", "n_blocks=1", data.View()));
  for (const char* parameters : {"n_blocks=2", "n_blocks=4", "n_blocks=7"}) {
    const Mask larger = MaskOf(Select("block-sparse", parameters, data.View()));
    EXPECT_TRUE(IsSubset(smaller, larger));
    EXPECT_FALSE(IsSubset(larger, smaller));
    smaller = larger;
  }
}

TEST(BlockSparse, DoesNotDependOnScaleCapOrTheOrderInsideABlock) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(640), &random);
  const SparseIndex expected = Select("block-sparse", "n_blocks=2", data.View());
  data.scale = 3.0f;
  data.soft_cap = 5.0f;
  EXPECT_EQ(Select("block-sparse", "n_blocks=2", data.View()).runs, expected.runs);
  for (int32_t d = 0; d < 16; ++d) {  // reverses block 4 of K
    for (int32_t i = 0; i < 32; ++i) {
      const float first = data.k.Get(0, 0, 256 + i, d);
      data.k.Set(0, 0, 256 + i, d, data.k.Get(0, 0, 319 - i, d));
      data.k.Set(0, 0, 319 - i, d, first);
    }
  }
  EXPECT_EQ(Select("block-sparse", "n_blocks=2", data.View()).runs, expected.runs);
}

// Blocks of 64 of a causal mask: block [i][j] is kept when its last row keeps its first column.
std::vector<std::vector<bool>> BlocksOf(const Mask& mask) {
  const size_t num_blocks = mask.size() / 64;
  std::vector<std::vector<bool>> blocks(num_blocks, std::vector<bool>(num_blocks));
  for (size_t i = 0; i < num_blocks; ++i) {
    for (size_t j = 0; j <= i; ++j) blocks[i][j] = mask[64 * i + 63][64 * j];
  }
  return blocks;
}

TEST(S2Attention, StrideOneAndManyLocalBlocksAreDense) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(640, 4), &random);
  EXPECT_EQ(MaskOf(Select("s2-attention", "vertical_stride=1", data.View()), 0, 2), CausalMask(data.View()));
  EXPECT_EQ(MaskOf(Select("s2-attention", "local_blocks=10", data.View()), 0, 3), CausalMask(data.View()));
}

TEST(S2Attention, HeadsTogetherSeeEverythingWhenThereAreAsManyAsTheStride) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(1280, 8, 2, 8), &random);
  auto union_of_heads = [&](const std::string& parameters) {
    const SparseIndex index = Select("s2-attention", parameters, data.View());
    Mask all(1280, std::vector<bool>(1280));
    for (int32_t head = 0; head < 8; ++head) {
      const Mask mask = MaskOf(index, 0, head);
      for (size_t row = 0; row < mask.size(); ++row) {
        std::transform(mask[row].begin(), mask[row].end(), all[row].begin(), all[row].begin(), std::logical_or<>());
      }
    }
    return all;
  };
  for (const std::string sign : {"0", "1"}) {
    EXPECT_EQ(union_of_heads("vertical_stride=8,subtract_offset=" + sign), CausalMask(data.View()));
    EXPECT_EQ(union_of_heads("vertical_stride=5,offset=3,subtract_offset=" + sign), CausalMask(data.View()));
    EXPECT_NE(union_of_heads("vertical_stride=16,subtract_offset=" + sign), CausalMask(data.View()));
  }
  // Eight query heads that share two patterns cannot cover a stride of eight.
  EXPECT_NE(union_of_heads("vertical_stride=8,per_kv_head=1"), CausalMask(data.View()));
  EXPECT_EQ(union_of_heads("vertical_stride=2,per_kv_head=1"), CausalMask(data.View()));
}

TEST(S2Attention, HeadsAStrideApartAreTheSame) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(640, 7, 7, 8), &random);
  const SparseIndex index = Select("s2-attention", "vertical_stride=5", data.View());
  EXPECT_EQ(MaskOf(index, 0, 0), MaskOf(index, 0, 5));
  EXPECT_EQ(MaskOf(index, 0, 1), MaskOf(index, 0, 6));
  EXPECT_NE(MaskOf(index, 0, 0), MaskOf(index, 0, 1));
}

// A problem may hold one head of a layer: it keeps its own shard, not head 0's.
TEST(S2Attention, OneHeadAloneKeepsWhatItKeepsAmongAll) {
  std::mt19937 random(FreshSeed());
  const RandomProblem layer(SquareShape(640, 6, 3, 8), &random);
  const RandomProblem alone(SquareShape(640, 1, 1, 8), &random);
  for (const char* parameters : {"vertical_stride=5", "vertical_stride=5,per_kv_head=1",
                                 "vertical_stride=4,head_step=3,offset=2,subtract_offset=1"}) {
    const SparseIndex all = Select("s2-attention", parameters, layer.View());
    for (int32_t head = 0; head < 6; ++head) {
      AttentionProblem problem = alone.View();
      problem.first_qo_head = head;
      problem.first_kv_head = head / 2;
      EXPECT_EQ(MaskOf(Select("s2-attention", parameters, problem), 0, 0), MaskOf(all, 0, head))
          << parameters << ", head " << head;
    }
  }
}

// The first layers of a model stay dense; a head of no known layer is in none of them.
TEST(S2Attention, FirstLayersAttendToEverything) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(640, 4, 2, 8), &random);
  AttentionProblem problem = data.View();
  const auto mask = [&](int32_t layer, const std::string& parameters) {
    problem.layer = layer;
    return MaskOf(Select("s2-attention", "vertical_stride=4" + parameters, problem), 0, 3);
  };
  const auto sparse = mask(-1, "");
  EXPECT_NE(sparse, CausalMask(problem));
  for (const int32_t layer : {0, 1}) EXPECT_EQ(mask(layer, ""), CausalMask(problem));
  for (const int32_t layer : {2, 9}) EXPECT_EQ(mask(layer, ""), sparse);
  EXPECT_EQ(mask(0, ",dense_layers=0"), sparse);
  EXPECT_EQ(mask(4, ",dense_layers=5"), CausalMask(problem));
  EXPECT_EQ(mask(-1, ",dense_layers=5"), sparse);
}

TEST(S2Attention, KeepsLocalBlocksAndForgetsDistantOnesForGood) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(1920, 3, 3, 8), &random);
  const SparseIndex index = Select("s2-attention", "local_blocks=3,vertical_stride=4,max_distance=17", data.View());
  for (int32_t head = 0; head < 3; ++head) {
    const auto blocks = BlocksOf(MaskOf(index, 0, head));
    for (size_t i = 0; i < blocks.size(); ++i) {
      for (size_t j = i < 2 ? 0 : i - 2; j <= i; ++j) EXPECT_TRUE(blocks[i][j]);
      for (size_t j = 0; j + 17 <= i; ++j) EXPECT_FALSE(blocks[i][j]);
      // A KV cache that dropped a distant block never needs it again.
      for (size_t j = 0; i + 1 < blocks.size() && j + 3 <= i; ++j) EXPECT_LE(blocks[i + 1][j], blocks[i][j]);
    }
  }
}

// Equation 2: several strides, each for a stretch of distances.
TEST(S2Attention, GoesByAnotherStrideFarAway) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(1920, 6, 6, 8), &random);
  const std::string near = "local_blocks=2,vertical_stride=3";
  const SparseIndex one = Select("s2-attention", near, data.View());
  const SparseIndex two = Select("s2-attention", near + ",far_factor=2,far_distance=10", data.View());
  std::vector<std::vector<int>> owners(30, std::vector<int>(30));  // heads that keep a block
  for (int32_t head = 0; head < 6; ++head) {
    const auto of_one = BlocksOf(MaskOf(one, 0, head)), blocks = BlocksOf(MaskOf(two, 0, head));
    for (size_t i = 0; i < blocks.size(); ++i) {
      for (size_t j = 0; j <= i; ++j) {
        owners[i][j] += blocks[i][j];
        EXPECT_EQ(blocks[i][j], i - j < 10 ? of_one[i][j] : (j + static_cast<size_t>(head)) % 6 == 0);
        // A KV cache that dropped a distant block never needs it again.
        if (i + 1 < blocks.size() && i - j >= 2) {
          EXPECT_LE(blocks[i + 1][j], blocks[i][j]);
        }
      }
    }
  }
  // As many heads as the far stride see everything together: near blocks twice, far ones once.
  for (size_t i = 0; i < owners.size(); ++i) {
    for (size_t j = 0; j <= i; ++j) EXPECT_EQ(owners[i][j], i - j < 2 ? 6 : i - j < 10 ? 2 : 1);
  }
  const auto same = [&](const std::string& far) {
    const SparseIndex index = Select("s2-attention", near + far, data.View());
    return MaskOf(index, 0, 0) == MaskOf(one, 0, 0) && MaskOf(index, 0, 3) == MaskOf(one, 0, 3);
  };
  EXPECT_TRUE(same(",far_factor=1,far_distance=3"));
  EXPECT_TRUE(same(",far_factor=2,far_distance=30"));
  EXPECT_FALSE(same(",far_factor=2,far_distance=29"));
}

// Section 4.4: a stride of its own for the local blocks, which together the heads still see.
TEST(S2Attention, GoesByAStrideOfItsOwnNearby) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(1280, 4, 4, 8), &random);
  const SparseIndex index = Select("s2-attention", "local_blocks=6,vertical_stride=4,local_stride=2", data.View());
  std::vector<std::vector<int>> owners(20, std::vector<int>(20));
  for (int32_t head = 0; head < 4; ++head) {
    const auto blocks = BlocksOf(MaskOf(index, 0, head));
    for (size_t i = 0; i < blocks.size(); ++i) {
      for (size_t j = 0; j <= i; ++j) {
        owners[i][j] += blocks[i][j];
        EXPECT_EQ(blocks[i][j], (j + static_cast<size_t>(head)) % (i - j < 6 ? 2 : 4) == 0);
        // The distant stride is a multiple: a KV cache may drop what a row dropped.
        if (i + 1 < blocks.size()) {
          EXPECT_LE(blocks[i + 1][j], blocks[i][j]);
        }
      }
    }
  }
  for (size_t i = 0; i < owners.size(); ++i) {
    for (size_t j = 0; j <= i; ++j) EXPECT_EQ(owners[i][j], i - j < 6 ? 2 : 1);
  }
}

// Every step of the parameter is a stride: no value of it is refused with any of the other's.
TEST(S2Attention, TakesEveryFarFactorWithEveryStride) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(640, 4, 2, 8), &random);
  const auto blocks = [&](const std::string& parameters) {
    return BlocksOf(MaskOf(Select("s2-attention", parameters + ",far_distance=2", data.View()), 0, 1));
  };
  for (const int stride : {1, 3, 4, 16384}) {
    for (const int factor : {1, 2, 5, 1024}) {
      const auto kept = blocks("vertical_stride=" + std::to_string(stride) + ",far_factor=" + std::to_string(factor));
      for (size_t i = 0; i < kept.size(); ++i) {
        for (size_t j = 0; j + 2 <= i; ++j)
          EXPECT_EQ(kept[i][j], (j + 1) % (static_cast<size_t>(stride) * static_cast<size_t>(factor)) == 0);
      }
    }
  }
}

TEST(S2Attention, ReachesThePublishedReductionsAt8192Tokens) {
  std::mt19937 random(FreshSeed());
  const std::pair<int32_t, double> published[] = {{16, 14.32}, {64, 42.89}};
  for (const auto& [heads, reduction] : published) {
    const RandomProblem data(SquareShape(8192, heads, 1, 8), &random);
    const SparseIndex index =
        Select("s2-attention", "local_blocks=1,vertical_stride=" + std::to_string(heads), data.View());
    int64_t kept = 0;  // of the last row, over all heads
    std::vector<ColumnRange> ranges;
    for (int32_t head = 0; head < heads; ++head) AppendKeptRanges(index.View(), 0, head, 8191, &ranges);
    for (const ColumnRange& range : ranges) kept += range.end - range.begin;
    EXPECT_NEAR(8192.0 * heads / static_cast<double>(kept), reduction, 0.005);
  }
}

// XAttention's block sums in float64: [row block][key block] of 128, in groups of `stride`.
std::vector<std::vector<double>> AntidiagonalMasses(const RandomProblem& data, int32_t stride) {
  const int32_t tokens = data.shape.seq_q, dim = data.shape.head_dim, groups = (tokens + stride - 1) / stride;
  const int32_t blocks = (tokens + 127) / 128, groups_of_block = 128 / stride;
  std::vector<std::vector<double>> masses(static_cast<size_t>(blocks),
                                          std::vector<double>(static_cast<size_t>(blocks)));
  std::vector<double> scores(static_cast<size_t>(groups));
  for (int32_t query = 0; query < groups; ++query) {
    // A last group that lacks rows is causal as that of its last row, which is of the same group of keys.
    for (int32_t key = 0; key <= query; ++key) {
      double sum = 0;
      for (int32_t i = 0; i < stride; ++i) {
        const int32_t row = query * stride + stride - 1 - i, column = key * stride + i;
        if (row >= tokens || column >= tokens) continue;
        for (int32_t d = 0; d < dim; ++d)
          sum += static_cast<double>(data.q.Get(0, 0, row, d)) * static_cast<double>(data.k.Get(0, 0, column, d));
      }
      scores[static_cast<size_t>(key)] = sum / stride / std::sqrt(dim);
    }
    const auto end = scores.begin() + query + 1;
    const double largest = *std::max_element(scores.begin(), end);
    const double total = std::accumulate(
        scores.begin(), end, 0.0, [&](double before, double score) { return before + std::exp(score - largest); });
    for (int32_t key = 0; key <= query; ++key) {
      masses[static_cast<size_t>(query / groups_of_block)][static_cast<size_t>(key / groups_of_block)] +=
          std::exp(scores[static_cast<size_t>(key)] - largest) / total;
    }
  }
  return masses;
}

// The same blocks as by float64, wherever fp32 sums can tell them apart. `far`: how unlike the blocks are, from hardly
// to so much that few hold everything.
void ExpectTheBlocksOfTheExactSums(DType dtype) {
  std::mt19937 random(FreshSeed());
  constexpr double kTold = 1e-4;  // of a row block's mass
  for (const double far : {0.0, 0.7, 1.5, 4.0}) {
    for (const auto& [stride, tokens] : {std::pair{8, 2048}, {8, 1900}, {16, 2048}, {64, 2500}}) {
      auto shape = SquareShape(tokens, 1, 1, 16);
      shape.dtype = dtype;
      RandomProblem data(shape, &random, 1.0f);
      std::normal_distribution<float> normal;
      for (int32_t token = 0; token < tokens; ++token) {
        if (token % 128 != 0) continue;
        const float shift = static_cast<float>(far) * normal(random);
        for (int32_t row = token; row < std::min(token + 128, tokens); ++row)
          data.k.Set(0, 0, row, 3, data.k.Get(0, 0, row, 3) + shift);
      }
      for (int32_t row = 0; row < tokens; ++row) data.q.Set(0, 0, row, 3, data.q.Get(0, 0, row, 3) + 4.0f);
      const std::vector<std::vector<double>> masses = AntidiagonalMasses(data, stride);
      for (const double tau : {0.5, 0.9, 0.99}) {
        const std::string parameters = "tau=" + std::to_string(tau) + ",stride=" + std::to_string(stride);
        const Mask mask = MaskOf(Select("x-attention", parameters, data.View()));
        for (size_t block = 0; block < masses.size(); ++block) {
          const size_t last = std::min(128 * block + 128, mask.size()) - 1, num = block + 1;
          std::vector<size_t> ranking(num);
          std::iota(ranking.begin(), ranking.end(), size_t{0});
          std::ranges::stable_sort(ranking, std::greater(), [&](size_t key) { return masses[block][key]; });
          const double total = std::accumulate(masses[block].begin(), masses[block].end(), 0.0);
          double before = 0;
          size_t count = 0;
          bool is_told = true;
          for (; count < num && before < tau * total; ++count) {
            before += masses[block][ranking[count]];
            is_told &= std::abs(before - tau * total) > kTold * total;
          }
          if (count < num) is_told &= masses[block][ranking[count - 1]] - masses[block][ranking[count]] > kTold * total;
          if (!is_told) continue;
          for (size_t rank = 0; rank < num; ++rank) {
            ASSERT_EQ(mask[last][128 * ranking[rank]], rank < count)
                << parameters << ", " << tokens << " tokens, far " << far << ": row block " << block << ", key block "
                << ranking[rank];
          }
        }
      }
    }
  }
}

// By whole numbers first, and by fp32 alone.
TEST(XAttention, KeepsTheBlocksOfTheExactSums) {
  for (const internal::IntegerUse use : {internal::IntegerUse::kAlways, internal::IntegerUse::kNever}) {
    internal::UseIntegers(use);
    ExpectTheBlocksOfTheExactSums(DType::kFloat32);
  }
  internal::UseIntegers(internal::IntegerUse::kWherePaying);
}

// Rounded scores choose only where they are sure, so that the way does not show: with grouped heads, prompts that go
// on, ragged ends, blocks of clear and of hardly different masses, and numbers that are none. Of numbers that are 8
// bits shorter many a rounded score would choose otherwise.
TEST(XAttention, KeepsByWholeNumbersWhatItKeepsByFp32) {
  std::mt19937 random(FreshSeed());
  std::normal_distribution<float> normal;
  int num_lists = 0, num_different = 0;
  for (int trial = 0; trial < 24; ++trial) {
    const int32_t tokens = 1 + static_cast<int32_t>(random() % 3000);
    ProblemShape shape =
        SquareShape(tokens, 4, trial % 2 == 0 ? 2 : 1, std::vector<int32_t>{8, 40, 64, 96}[random() % 4]);
    shape.dtype = trial % 3 == 0 ? DType::kBFloat16 : DType::kFloat32;
    shape.first_position = trial % 4 == 3 ? static_cast<int32_t>(random() % 500) : 0;
    shape.seq_k += shape.first_position;
    RandomProblem data(shape, &random, 1.0f);
    const float far = std::vector<float>{0.0f, 1.0f, 6.0f}[random() % 3];
    for (int32_t key = 0; key < shape.seq_k; ++key) {
      if (key % 128 == 0) data.k.Set(0, 0, key, 2, 2 * far * normal(random));
      for (int32_t d = 0; d < 4; ++d) data.k.Set(0, 0, key, d, data.k.Get(0, 0, key, d) + far);
    }
    if (trial == 5) data.q.Set(0, 1, tokens / 2, 1, std::numeric_limits<float>::infinity());
    if (trial == 6) data.k.Set(0, 0, tokens / 2, 1, std::numeric_limits<float>::quiet_NaN());
    internal::ShortenIntegers(trial % 2 == 0 ? 0 : 8);
    for (const char* const parameters :
         {"", "force_ends=1", "tau=0.6,stride=16", "tau=0.99,stride=4", "tau=1,stride=64"}) {
      internal::UseIntegers(internal::IntegerUse::kAlways);
      const SparseIndex first = Select("x-attention", parameters, data.View());
      internal::UseIntegers(internal::IntegerUse::kNever);
      const SparseIndex alone = Select("x-attention", parameters, data.View());
      for (int32_t head = 0; head < 4; ++head) {
        for (int32_t row = 0; row < tokens; row += 128) {
          std::vector<ColumnRange> ours, theirs;
          AppendKeptRanges(first.View(), 0, head, row, &ours);
          AppendKeptRanges(alone.View(), 0, head, row, &theirs);
          ++num_lists;
          num_different += !std::ranges::equal(ours, theirs, [](const ColumnRange& a, const ColumnRange& b) {
            return a.begin == b.begin && a.end == b.end;
          });
        }
      }
    }
  }
  internal::ShortenIntegers(0);
  internal::UseIntegers(internal::IntegerUse::kWherePaying);
  // Of two blocks that tie to within fp32's rounding each way may take another.
  EXPECT_LE(num_different, 1 + num_lists / 1000);
}

// Numbers of bfloat16 are multiplied by what a machine has for them: fp32 products, an instruction, a matrix unit.
class XAttentionOnUnit : public ::testing::TestWithParam<internal::BFloat16Unit> {};

TEST_P(XAttentionOnUnit, KeepsTheBlocksOfTheExactSums) {
  internal::LimitBFloat16(GetParam());
  const bool has = internal::BestBFloat16Unit() == GetParam();
  if (has) ExpectTheBlocksOfTheExactSums(DType::kBFloat16);
  internal::LimitBFloat16(internal::BFloat16Unit::kTiles);
  if (!has) GTEST_SKIP() << "this machine has no such unit";
}

INSTANTIATE_TEST_SUITE_P(Units, XAttentionOnUnit,
                         ::testing::Values(internal::BFloat16Unit::kNone, internal::BFloat16Unit::kVectors,
                                           internal::BFloat16Unit::kTiles));

}  // namespace
}  // namespace headscope::kernels
