// SPDX-License-Identifier: Apache-2.0
// What the prefill methods since the four papers promise: limits are dense, more budget keeps more, what was planted is
// found, and nobody beats the oracles.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "kept_sets.h"
#include "kernels/narrow_floats.h"
#include "kernels/prompt_passes.h"

namespace headscope::kernels {
namespace {

using testing::CausalMask;
using testing::FreshSeed;
using testing::IsSubset;
using testing::Mask;
using testing::MaskOf;
using testing::RandomProblem;
using testing::Select;
using testing::SquareShape;

struct Setting {
  const char* method;
  const char* parameters;
};

class Keeps : public ::testing::TestWithParam<Setting> {};

TEST_P(Keeps, EverythingAtItsLimit) {
  std::mt19937 random(FreshSeed());
  for (const int32_t length : {1, 130, 500}) {
    const RandomProblem data(SquareShape(length, 2, 1), &random);
    EXPECT_EQ(MaskOf(Select(GetParam().method, GetParam().parameters, data.View()), 0, 1), CausalMask(data.View()))
        << length;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Limits, Keeps,
    ::testing::Values(
        Setting{"streaming-llm", "n_sink=0,n_local=500"}, Setting{"streaming-llm", "n_sink=499,n_local=1"},
        Setting{"lm-infinite", "n_global=0,n_local=500"}, Setting{"big-bird", "n_global=8"},
        Setting{"big-bird", "n_window=8"}, Setting{"big-bird", "n_random=8"},
        Setting{"infllm-prefill", "block_size=32,n_local=64,top_k=16,chunk=1"},
        Setting{"infllm-prefill", "n_local=500,top_k=0"}, Setting{"infllm-prefill", "n_init=500,n_local=1,top_k=0"},
        Setting{"flex-prefill", "gamma=1,tau=0,min_budget=0"}, Setting{"flex-prefill", "gamma=1,tau=1,min_budget=0"},
        Setting{"flex-prefill", "gamma=0,tau=0,min_budget=512"},
        Setting{"flex-prefill", "gamma=0,tau=1,min_budget=512,form=code"}, Setting{"x-attention", "tau=1"},
        Setting{"x-attention", "tau=1,force_ends=1"}, Setting{"sparge-attn", "tau=1,theta=-1"},
        Setting{"sparge-attn", "rule=top_k,tau=0,theta=1"}, Setting{"sparge-attn", "rule=top_k,tau=1"},
        Setting{"moba", "top_k=8,block_size=64"}, Setting{"moba", "top_k=8,block_size=64,rows=mean"},
        Setting{"nsa", "n_blocks=8,n_local=0"}, Setting{"nsa", "n_local=500"},
        Setting{"infllm-v2", "top_k=8,n_local=1"}, Setting{"infllm-v2", "top_k=0,n_first=8,n_local=1"},
        Setting{"hyper-attention", "min_seq_len=500"}, Setting{"hyper-attention", "block_size=500,min_seq_len=64"},
        Setting{"static-index", "n_vertical=500,at=1"}, Setting{"oracle-top-k", "k=500"},
        Setting{"oracle-blocks", "n_blocks=8"}, Setting{"oracle-top-p", "p=1"}));

struct Growth {
  const char* method;
  const char* smaller;
  const char* larger;
};

class Grows : public ::testing::TestWithParam<Growth> {};

TEST_P(Grows, WithItsBudget) {
  std::mt19937 random(FreshSeed());
  bool strictly = false;
  for (int trial = 0; trial < 3; ++trial) {
    const RandomProblem data(SquareShape(900, 2, 1), &random);
    const Mask smaller = MaskOf(Select(GetParam().method, GetParam().smaller, data.View()), 0, 1);
    const Mask larger = MaskOf(Select(GetParam().method, GetParam().larger, data.View()), 0, 1);
    EXPECT_TRUE(IsSubset(smaller, larger));
    strictly |= !IsSubset(larger, smaller);
  }
  EXPECT_TRUE(strictly);
}

INSTANTIATE_TEST_SUITE_P(
    Budgets, Grows,
    ::testing::Values(Growth{"streaming-llm", "n_local=20,n_dilated=200", "n_local=60,n_dilated=400"},
                      Growth{"lm-infinite", "n_local=20", "n_local=60"}, Growth{"big-bird", "n_random=1", "n_random=3"},
                      Growth{"big-bird", "n_random=3,n_window=1", "n_random=3,n_window=4"},
                      Growth{"infllm-prefill", "block_size=32,n_local=64,chunk=1,top_k=1",
                             "block_size=32,n_local=64,chunk=1,top_k=4"},
                      Growth{"flex-prefill", "gamma=0.5,tau=0,min_budget=0", "gamma=0.8,tau=0,min_budget=0"},
                      Growth{"flex-prefill", "gamma=0.5,tau=1,min_budget=0", "gamma=0.8,tau=1,min_budget=0"},
                      Growth{"flex-prefill", "gamma=0.5,tau=0,min_budget=0,form=code",
                             "gamma=0.8,tau=0,min_budget=0,form=code"},
                      Growth{"x-attention", "tau=0.5", "tau=0.8"},
                      Growth{"x-attention", "tau=0.5,force_ends=1", "tau=0.8,force_ends=1"},
                      Growth{"sparge-attn", "tau=0.5,theta=0", "tau=0.8,theta=0"},
                      Growth{"sparge-attn", "rule=top_k,tau=0.3,theta=0", "rule=top_k,tau=0.6,theta=0"},
                      Growth{"moba", "top_k=2,block_size=64", "top_k=4,block_size=64"},
                      Growth{"nsa", "n_blocks=3,n_local=0,rows=sum", "n_blocks=6,n_local=0,rows=sum"},
                      Growth{"infllm-v2", "top_k=1,n_local=1,rows=sum", "top_k=3,n_local=1,rows=sum"},
                      Growth{"oracle-top-k", "k=50", "k=200"}, Growth{"oracle-blocks", "n_blocks=2", "n_blocks=5"},
                      Growth{"oracle-top-p", "p=0.5", "p=0.8"}));

TEST(Patterns, OfSinksAndAWindowAreAShape) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(700), &random);
  const Mask expected = MaskOf(Select("a-shape", "n_sink=9,n_local=77", data.View()));
  EXPECT_EQ(MaskOf(Select("streaming-llm", "n_sink=9,n_local=77", data.View())), expected);
  EXPECT_EQ(MaskOf(Select("lm-infinite", "n_global=9,n_local=77", data.View())), expected);
}

// SampleAttention compares with windows and global tokens of 8 % of the prompt (its section 5.1): 1600 tokens' are 128.
TEST(Patterns, OfAShareAreThoseOfAsManyTokens) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(1600), &random);
  const auto runs = [&](const std::string& method, const std::string& parameters) {
    return MaskOf(Select(method, parameters, data.View()));
  };
  EXPECT_EQ(runs("streaming-llm", "local_share=0.08"), runs("streaming-llm", "n_local=128"));
  EXPECT_EQ(runs("streaming-llm", "local_share=0.08,n_dilated=400"),
            runs("streaming-llm", "n_local=128,n_dilated=400"));
  EXPECT_EQ(runs("big-bird", "global_share=0.08,window_share=0.08"), runs("big-bird", "n_global=2,n_window=2"));
  EXPECT_EQ(runs("big-bird", "global_share=0.001"), runs("big-bird", "n_global=1"));
  EXPECT_EQ(runs("big-bird", "window_share=1"), CausalMask(data.View()));
}

// A pass of a prompt sees a part of it; what goes by the prompt's length is told.
TEST(Patterns, OfAShareAreThatOfTheWholePromptInEveryPass) {
  const auto at = [](const char* name, const char* given, int64_t num_tokens) {
    const PrefillMethod& method = *FindPrefillMethod(name);
    const ParameterValues values = testing::Values(method.spec(), given);
    return AtPromptLength(method, values, num_tokens).Difference(method.spec(), ParameterValues(method.spec()));
  };
  EXPECT_EQ(at("streaming-llm", "local_share=0.08", 4096), "n_local=327");
  EXPECT_EQ(at("streaming-llm", "local_share=0.08", 0), "local_share=0.08");
  EXPECT_EQ(at("streaming-llm", "local_share=0.08", 3), "n_local=1");
  EXPECT_EQ(at("streaming-llm", "n_local=7", 4096), "n_local=7");
  EXPECT_EQ(at("big-bird", "global_share=0.08,window_share=0.01", 4096), "n_global=5,n_window=1");
  EXPECT_EQ(at("sample-attention", "by_length=glm4", 4096), "alpha_c=0.98,alpha_s=0.9");
  EXPECT_EQ(at("sample-attention", "by_length=glm4", 100 << 10), "alpha_c=0.9,alpha_s=0.9,chunk_n=2");
  EXPECT_EQ(at("vertical-slash", "n_slash=9", 4096), "n_slash=9");
}

TEST(StreamingLlm, DilatedFormLeavesOutTokensByTheirPlace) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(600), &random);
  const Mask mask = MaskOf(Select("streaming-llm", "n_sink=3,n_local=1,n_dilated=300,interval=2", data.View()));
  const size_t row = 512;  // the first of its tile
  for (size_t column = 0; column <= row; ++column) {
    const bool kept = column < 3 || column == row || (column > row - 300 && column % 3 == 0);
    EXPECT_EQ(mask[row][column], kept) << column;
  }
}

// A chunk looks up the unit that its queries point to, and keeps what fills no unit yet; the prompt ahead of it has no
// part in that.
TEST(InfLlmPrefill, LooksUpWhatAChunkPointsTo) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(1000), &random);
  const std::string parameters = "block_size=32,n_init=16,n_local=100,top_k=1,n_repr=2,chunk=2";
  // Keys of one unit point where all queries do, more than others can by chance.
  const int32_t begin = 16 + 9 * 32;
  for (int32_t row = 0; row < 1000; ++row) {
    for (int32_t d = 0; d < data.shape.head_dim; ++d) {
      data.q.Set(0, 0, row, d, data.q.Get(0, 0, row, d) + 4.0f);
      if (row >= begin && row < begin + 32) data.k.Set(0, 0, row, d, 3.0f);
    }
  }
  const Mask mask = MaskOf(Select("infllm-prefill", parameters, data.View()));
  for (size_t row = 0; row < mask.size(); ++row) {
    const size_t chunk = row / 128 * 128;
    const size_t units = chunk + 1 < 116 ? 0 : (chunk + 1 - 116) / 32, rest = 16 + units * 32;
    for (size_t column = 0; column <= row; ++column) {
      if (column < 16 || column >= rest) {
        EXPECT_TRUE(mask[row][column]) << row << " " << column;
      } else if (units > 9) {
        EXPECT_EQ(mask[row][column], column >= 304 && column < 336) << row << " " << column;
      }
    }
    EXPECT_TRUE(mask[row][row >= 99 ? row - 99 : 0]) << "the window";
  }
  // Queries behind a chunk change nothing in it where they follow no token of its units closely enough to score it.
  RandomProblem other = data;
  for (int32_t row = 896; row < 1000; ++row)
    for (int32_t d = 0; d < data.shape.head_dim; ++d) other.q.Set(0, 0, row, d, -data.q.Get(0, 0, row, d));
  const Mask changed = MaskOf(Select("infllm-prefill", parameters, other.View()));
  for (size_t row = 0; row < 896; ++row) EXPECT_EQ(changed[row], mask[row]) << row;
  EXPECT_NE(changed[999], mask[999]);
}

// A prompt in passes of whole chunks: behind the earlier ones' queries each chooses what the whole prompt's rows do.
TEST(InfLlmPrefill, ChoosesInPassesWhatItChoosesAtOnce) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(1000, 2, 1), &random);
  const PrefillMethod& method = *FindPrefillMethod("infllm-prefill");
  const ParameterValues values =
      testing::Values(method.spec(), "block_size=16,n_init=16,n_local=100,top_k=2,n_repr=1,chunk=1");
  const auto* const behind = dynamic_cast<const GoesByEarlierQueries*>(&method);
  ASSERT_NE(behind, nullptr);
  const AttentionProblem whole = data.View();
  SparseIndex at_once;
  ASSERT_TRUE(method.Select(whole, values, {}, &at_once).ok());
  int64_t differ_alone = 0;
  for (int32_t first = 0; first < 1000; first += 256) {
    AttentionProblem pass = whole;
    pass.first_position = first;
    pass.seq_q = std::min(256, 1000 - first);
    pass.seq_k = first + pass.seq_q;
    pass.q.data = static_cast<const char*>(whole.q.data) + first * whole.q.row_stride * SizeOf(whole.dtype);
    SparseIndex index, alone;
    ASSERT_TRUE(behind->SelectBehind({whole.q, 0, first}, pass, values, {}, &index).ok());
    ASSERT_TRUE(method.Select(pass, values, {}, &alone).ok());
    for (int32_t head = 0; head < 2; ++head) {
      const Mask expected = MaskOf(at_once, 0, head), mask = MaskOf(index, 0, head), without = MaskOf(alone, 0, head);
      for (int32_t row = 0; row < pass.seq_q; ++row) {
        std::vector<bool> of_row = expected[static_cast<size_t>(first + row)];
        of_row.resize(static_cast<size_t>(pass.seq_k));
        EXPECT_EQ(mask[static_cast<size_t>(row)], of_row) << first + row;
        differ_alone += without[static_cast<size_t>(row)] != of_row ? 1 : 0;
      }
    }
  }
  EXPECT_GT(differ_alone, 0) << "the earlier queries make no difference here";
}

// What stands for a unit is made once: behind the pass that closed it nothing reads the unit's keys.
TEST(InfLlmPrefill, KeepsWhatStandsForAUnit) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(1000, 2, 1), &random);
  const PrefillMethod& method = *FindPrefillMethod("infllm-prefill");
  const ParameterValues values =
      testing::Values(method.spec(), "block_size=16,n_init=16,n_local=100,top_k=2,n_repr=1,chunk=1");
  const auto* const behind = dynamic_cast<const GoesByEarlierQueries*>(&method);
  ASSERT_NE(behind, nullptr);
  const AttentionProblem whole = data.View();
  SparseIndex at_once;
  ASSERT_TRUE(method.Select(whole, values, {}, &at_once).ok());
  RandomProblem fading = data;
  std::unique_ptr<KeptOfPasses> kept;
  // 193 rows: a last chunk of one, whose window ends with the pass.
  for (int32_t first = 0, end = 0; first < 1000; first = end) {
    end = first == 256 ? first + 193 : first == 449 ? 512 : std::min(first + 256, 1000);
    AttentionProblem pass = fading.View();
    pass.first_position = first;
    pass.seq_q = end - first;
    pass.seq_k = end;
    pass.q.data = static_cast<const char*>(whole.q.data) + first * whole.q.row_stride * SizeOf(whole.dtype);
    SparseIndex index;
    ASSERT_TRUE(behind->SelectBehind({whole.q, 0, first, &kept}, pass, values, {}, &index).ok());
    for (int32_t head = 0; head < 2; ++head) {
      const Mask expected = MaskOf(at_once, 0, head), mask = MaskOf(index, 0, head);
      for (int32_t row = 0; row < pass.seq_q; ++row) {
        if (first + row >= 448 && first + row < 512) continue;  // of a chunk that the passes cut in two
        std::vector<bool> of_row = expected[static_cast<size_t>(first + row)];
        of_row.resize(static_cast<size_t>(pass.seq_k));
        EXPECT_EQ(mask[static_cast<size_t>(row)], of_row) << first + row;
      }
    }
    const int32_t last_chunk = first + (pass.seq_q - 1) / 64 * 64, closed = std::max(0, last_chunk + 1 - 116) / 16;
    for (int32_t token = 16; token < 16 + 16 * closed; ++token)
      for (int32_t d = 0; d < data.shape.head_dim; ++d) fading.k.Set(0, 0, token, d, 100.0f);
  }
}

TEST(BigBird, DrawsBySeedHeadAndRow) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(2000, 2, 1, 8), &random), other(SquareShape(2000, 2, 1, 8), &random);
  const auto mask = [&](const RandomProblem& of, const std::string& seed, int32_t head) {
    return MaskOf(Select("big-bird", "n_random=3,seed=" + seed, of.View()), 0, head);
  };
  EXPECT_EQ(mask(data, "5", 0), mask(other, "5", 0));
  EXPECT_NE(mask(data, "5", 0), mask(data, "6", 0));
  EXPECT_NE(mask(data, "5", 0), mask(data, "5", 1));
  const Mask drawn = mask(data, "5", 0);
  for (const size_t row : {1983u, 1279u}) {  // last rows of their blocks: 2 + 3 + 3 blocks of 64
    EXPECT_EQ(std::count(drawn[row].begin(), drawn[row].end(), true), 8 * 64) << row;
  }
}

// Exact probabilities of one head's row.
std::vector<double> Probabilities(const RandomProblem& data, int32_t row) {
  std::vector<double> p;
  double sum = 0;
  const int32_t head_dim = data.shape.head_dim;
  for (int32_t column = 0; column <= row; ++column) {
    double dot = 0;
    for (int32_t d = 0; d < head_dim; ++d)
      dot += static_cast<double>(data.q.Get(0, 0, row, d)) * static_cast<double>(data.k.Get(0, 0, column, d));
    p.push_back(std::exp(dot / std::sqrt(static_cast<double>(head_dim))));
    sum += p.back();
  }
  for (double& x : p) x /= sum;
  return p;
}

struct Kept {
  double mass = 0;
  int64_t pairs = 0;
};

// Of the rows [begin, end): mean mass, and pairs.
Kept KeptOf(const RandomProblem& data, const Mask& mask, int32_t begin, int32_t end) {
  Kept kept;
  for (int32_t row = begin; row < end; ++row) {
    const std::vector<double> p = Probabilities(data, row);
    for (size_t column = 0; column < p.size(); ++column) {
      if (!mask[static_cast<size_t>(row)][column]) continue;
      kept.mass += p[column] / (end - begin);
      ++kept.pairs;
    }
  }
  return kept;
}

TEST(Oracles, NobodyKeepsMoreWithAsManyBlocks) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(640), &random);
  const Mask oracle = MaskOf(Select("oracle-blocks", "n_blocks=3", data.View()));
  const Mask pooled = MaskOf(Select("block-sparse", "n_blocks=3", data.View()));
  double gained = 0;
  for (int32_t begin = 192; begin < 640; begin += 64) {
    const double best = KeptOf(data, oracle, begin, begin + 64).mass;
    const double other = KeptOf(data, pooled, begin, begin + 64).mass;
    EXPECT_GE(best, other - 1e-6);
    gained += best - other;
  }
  EXPECT_GT(gained, 0.01);
}

TEST(Oracles, TopPReachesItsShareAndNoMore) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(640), &random);
  const Mask mask = MaskOf(Select("oracle-top-p", "p=0.7", data.View()));
  for (int32_t begin = 0; begin < 640; begin += 64) {
    EXPECT_GE(KeptOf(data, mask, begin, begin + 64).mass, 0.7 - 1e-6);
    const int64_t blocks =
        std::count(mask[static_cast<size_t>(begin) + 63].begin(), mask[static_cast<size_t>(begin) + 63].end(), true) /
        64;
    if (blocks < 2) continue;
    const Mask fewer = MaskOf(Select("oracle-blocks", "n_blocks=" + std::to_string(blocks - 1), data.View()));
    EXPECT_LT(KeptOf(data, fewer, begin, begin + 64).mass, 0.7 + 1e-6);
  }
}

TEST(Oracles, TopKBeatsTheColumnsOfTheLastRows) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(512), &random);
  const Mask best = MaskOf(Select("oracle-top-k", "k=60", data.View()));
  const Mask lines = MaskOf(Select("vertical-slash", "n_vertical=60,n_slash=0", data.View()));
  for (const int32_t begin : {128, 256, 384})
    EXPECT_GE(KeptOf(data, best, begin, begin + 128).mass, KeptOf(data, lines, begin, begin + 128).mass - 1e-6);
}

// Of the last 64 rows half give most to the sink, and the little that is left to block 1; the others give all to keys,
// and a little less of it to block 3 than those to block 1. By shares of the keys alone block 1 has most.
TEST(Oracles, RowsThatGiveMostToASinkWeighLess) {
  constexpr int32_t kLength = 512;
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(kLength), &random, 0.3f);
  for (int32_t row = 0; row < kLength; ++row) {
    const bool to_sink = row % 2 == 0;
    data.q.Set(0, 0, row, 0, to_sink ? -60.0f : 40.0f);  // scores are a quarter of these
    data.q.Set(0, 0, row, 1, to_sink ? 20.0f : 0.0f);
    data.q.Set(0, 0, row, 2, to_sink ? 0.0f : 16.0f);
    data.k.Set(0, 0, row, 0, 1.0f);
    data.k.Set(0, 0, row, 1, row / 64 == 1 ? 1.0f : 0.0f);
    data.k.Set(0, 0, row, 2, row / 64 == 3 ? 1.0f : 0.0f);
  }
  const float sink = 0;
  AttentionProblem problem = data.View();
  for (const auto& [method, parameters] :
       {Setting{"oracle-blocks", "n_blocks=1"}, Setting{"oracle-top-p", "p=0.3"}, Setting{"oracle-top-k", "k=64"}}) {
    for (const bool has_sink : {true, false}) {
      problem.sinks = has_sink ? &sink : nullptr;
      const std::vector<bool> kept = MaskOf(Select(method, parameters, problem)).back();
      const int32_t block = has_sink ? 3 : 1;
      for (int32_t column = 0; column < kLength; ++column)
        ASSERT_EQ(kept[static_cast<size_t>(column)], column / 64 == block) << method << ", column " << column;
    }
  }
}

// Keys of block `block` of 64 and every query look the same way.
RandomProblem PlantedBlock(int32_t length, int32_t block, std::mt19937* random) {
  RandomProblem data(SquareShape(length), random, 0.3f);
  for (int32_t row = 0; row < length; ++row) data.q.Set(0, 0, row, 3, 3.0f);
  for (int32_t row = 64 * block; row < 64 * block + 64; ++row) data.k.Set(0, 0, row, 3, 5.0f);
  return data;
}

class Finds : public ::testing::TestWithParam<Setting> {};

TEST_P(Finds, APlantedBlock) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data = PlantedBlock(1000, 6, &random);
  const Mask mask = MaskOf(Select(GetParam().method, GetParam().parameters, data.View()));
  int64_t kept = 0;
  for (size_t row = 640; row < mask.size(); ++row) {
    for (size_t column = 384; column < 448; ++column) ASSERT_TRUE(mask[row][column]) << row << " " << column;
    kept += std::count(mask[row].begin(), mask[row].end(), true);
  }
  EXPECT_LT(kept, 360 * 800) << "and it leaves something out";
}

INSTANTIATE_TEST_SUITE_P(
    Planted, Finds,
    ::testing::Values(Setting{"flex-prefill", "gamma=0.5,tau=0,min_budget=256,form=code"},
                      Setting{"flex-prefill", "gamma=0.97,tau=1,min_budget=0"},  // of the whole map
                      Setting{"x-attention", "tau=0.5"}, Setting{"x-attention", "tau=0.5,stride=32,force_ends=1"},
                      Setting{"sparge-attn", "tau=0.9,theta=-1"}, Setting{"sparge-attn", "rule=top_k,tau=0.2,theta=-1"},
                      Setting{"moba", "top_k=2,block_size=64"}, Setting{"moba", "top_k=2,block_size=64,rows=mean"},
                      Setting{"nsa", "n_blocks=4,n_local=0"}, Setting{"nsa", "n_blocks=4,n_local=0,rows=sum"},
                      Setting{"infllm-v2", "top_k=2,n_local=1"}, Setting{"infllm-v2", "top_k=2,n_local=1,rows=sum"},
                      Setting{"oracle-top-k", "k=64"}, Setting{"oracle-blocks", "n_blocks=1"},
                      Setting{"oracle-top-p", "p=0.9"}));

// What points the same way is kept; what the queries point away from is not.
TEST(HashSparse, KeepsTheKeysOfAQuerysBucket) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(640), &random, 0.001f);
  for (int32_t row = 0; row < 640; ++row) {
    data.q.Set(0, 0, row, 3, 1.0f);
    data.k.Set(0, 0, row, 3, row % 3 == 0 ? 2.0f : -2.0f);
  }
  const Mask mask = MaskOf(Select("hash-sparse", "num_buckets=16", data.View()));
  for (size_t row = 0; row < 640; ++row) {
    for (size_t column = 0; column <= row; ++column) ASSERT_EQ(mask[row][column], column % 3 == 0);
  }
}

TEST(HyperAttention, KeepsTheNearestKeysExactlyAndOthersWhereTheyMeetTheirQueries) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(1024), &random, 0.001f);
  for (int32_t row = 0; row < 1024; ++row) {
    data.q.Set(0, 0, row, 3, row % 2 == 0 ? 1.0f : -1.0f);
    data.k.Set(0, 0, row, 3, row / 128 % 2 == 0 ? 1.0f : -1.0f);  // blocks of 128 keys, either way
  }
  // Rows that look one way alone, so that 64 rows agree.
  for (int32_t row = 512; row < 1024; ++row) data.q.Set(0, 0, row, 3, row < 768 ? 1.0f : -1.0f);
  const Mask mask =
      MaskOf(Select("hyper-attention", "block_size=256,sample_size=0,min_seq_len=512,num_planes=1", data.View()));
  for (size_t row = 0; row < 1024; ++row) {
    for (size_t column = 0; column <= row; ++column) {
      const bool met = (row < 768) == (column / 128 % 2 == 0);
      ASSERT_EQ(mask[row][column], column / 512 == row / 512 || met) << row << " " << column;
    }
  }
}

TEST(StaticIndex, ChoosesByRowsElsewhere) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(1000), &random, 0.2f);
  for (int32_t row = 0; row < 1000; ++row) data.q.Set(0, 0, row, row < 500 ? 2 : 5, 8.0f);
  data.k.Set(0, 0, 100, 2, 8.0f);  // what the first half looks at
  data.k.Set(0, 0, 101, 5, 8.0f);  // and the second
  const std::string lines = "n_vertical=1,n_slash=1,forced_slashes=1";
  const Mask early = MaskOf(Select("static-index", lines + ",at=0.5", data.View()));
  EXPECT_TRUE(early[900][100]);
  EXPECT_FALSE(early[900][101]);
  EXPECT_EQ(MaskOf(Select("static-index", lines + ",at=1", data.View())),
            MaskOf(Select("vertical-slash", lines, data.View())));
}

TEST(FlexPrefill, ChoosesItsPatternByTheDivergence) {
  std::mt19937 random(FreshSeed());
  // Equal keys inside blocks and equal queries: means say everything. Random ones: they say little.
  RandomProblem blocks(SquareShape(1024), &random);
  for (int32_t row = 0; row < 1024; ++row) {
    for (int32_t d = 0; d < 16; ++d) {
      blocks.k.Set(0, 0, row, d, blocks.k.Get(0, 0, row / 128 * 128, d));
      blocks.q.Set(0, 0, row, d, blocks.q.Get(0, 0, 0, d));
    }
  }
  const std::string common = "gamma=0.6,min_budget=0,tau=";
  const auto mask = [&](const RandomProblem& data, const char* tau) {
    return MaskOf(Select("flex-prefill", common + tau, data.View()));
  };
  EXPECT_EQ(mask(blocks, "0.3"), mask(blocks, "1")) << "query-aware";
  const RandomProblem lines(SquareShape(1024), &random, 3.0f);
  EXPECT_EQ(mask(lines, "0.01"), mask(lines, "0")) << "vertical-slash";
  EXPECT_NE(mask(lines, "1"), mask(lines, "0"));
}

// Table 6, on both sides of every range's end.
TEST(SampleAttention, TakesThePapersSettingsByLength) {
  std::mt19937 random(FreshSeed());
  struct Range {
    int32_t first, last;
    const char *glm4, *internlm2, *internlm2_fast;
  };
  for (const Range& range : {Range{300, 16383, "alpha_c=0.98,alpha_s=0.9,chunk_n=1",
                                   "alpha_c=0.98,alpha_s=0.95,chunk_n=1", "alpha_c=0.85,alpha_s=0.85,chunk_n=1"},
                             Range{16384, 49151, "alpha_c=0.95,alpha_s=0.95,chunk_n=1",
                                   "alpha_c=0.95,alpha_s=0.9,chunk_n=1", "alpha_c=0.8,alpha_s=0.8,chunk_n=1"},
                             Range{49152, 81919, "alpha_c=0.95,alpha_s=0.95,chunk_n=1",
                                   "alpha_c=0.92,alpha_s=0.92,chunk_n=1", "alpha_c=0.8,alpha_s=0.8,chunk_n=1"},
                             Range{81920, 114687, "alpha_c=0.9,alpha_s=0.9,chunk_n=2",
                                   "alpha_c=0.92,alpha_s=0.9,chunk_n=2", "alpha_c=0.8,alpha_s=0.8,chunk_n=1"},
                             Range{114688, 140000, "alpha_c=0.95,alpha_s=0.85,chunk_n=1",
                                   "alpha_c=0.95,alpha_s=0.9,chunk_n=2", "alpha_c=0.8,alpha_s=0.8,chunk_n=1"}}) {
    for (const int32_t length : {range.first, range.last}) {
      const RandomProblem data({1, 1, 1, 8, 300, length, length - 300, DType::kFloat32}, &random);
      const auto runs = [&](const char* parameters) {
        return Select("sample-attention", parameters, data.View()).runs;
      };
      EXPECT_EQ(runs("by_length=glm4"), runs(range.glm4)) << length;
      EXPECT_EQ(runs("by_length=internlm2"), runs(range.internlm2)) << length;
      EXPECT_EQ(runs("by_length=internlm2-fast"), runs(range.internlm2_fast)) << length;
    }
  }
}

TEST(SpargeAttn, KeepsBlocksThatNoMeanStandsFor) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(640), &random, 0.01f);
  for (int32_t row = 0; row < 640; ++row) {  // all alike ..
    data.q.Set(0, 0, row, 0, 1.0f);
    data.k.Set(0, 0, row, 0, 1.0f);
  }
  for (int32_t row = 128; row < 192; ++row) data.k.Set(0, 0, row, 0, row % 2 == 0 ? 1.0f : -1.0f);  // .. but block 2
  for (const char* similarity : {"paper", "cosine"}) {
    const Mask mask =
        MaskOf(Select("sparge-attn", std::string("tau=0,theta=0.5,similarity=") + similarity, data.View()));
    for (size_t row = 256; row < 640; ++row) {
      EXPECT_TRUE(mask[row][128]);
      const auto kept = std::count(mask[row].begin(), mask[row].end(), true);
      // The likeliest block as well, which for the first half of a tile's rows may lie ahead.
      EXPECT_GE(kept, row % 128 < 64 ? 64 : 65);
      EXPECT_LE(kept, 128);
    }
  }
}

TEST(SharedChoices, AreOneForTheGroupAndKeepWhatIsForced) {
  std::mt19937 random(FreshSeed());
  RandomProblem data(SquareShape(800, 4, 2, 8), &random);
  // Every query looks for one block, another one in either KV head: of random keys one block may be either's best.
  const std::array<int32_t, 2> first_keys{3 * 64, 6 * 64};
  for (int32_t head = 0; head < 4; ++head) {
    for (int32_t row = 0; row < 800; ++row) data.q.Set(0, head, row, 0, 2.0f);
  }
  for (int32_t head = 0; head < 2; ++head) {
    for (int32_t row = 0; row < 64; ++row) data.k.Set(0, head, first_keys[head] + row, 0, 8.0f);
  }
  for (const Setting& setting :
       {Setting{"nsa", "n_blocks=4,n_local=0,rows=sum"}, Setting{"infllm-v2", "top_k=2,n_local=100,rows=sum"}}) {
    const SparseIndex index = Select(setting.method, setting.parameters, data.View());
    EXPECT_TRUE(MaskOf(index, 0, 0) == MaskOf(index, 0, 1));
    EXPECT_TRUE(MaskOf(index, 0, 2) == MaskOf(index, 0, 3));
    EXPECT_TRUE(MaskOf(index, 0, 0) != MaskOf(index, 0, 2));
    for (int32_t head = 0; head < 2; ++head) EXPECT_TRUE(MaskOf(index, 0, 2 * head)[799][first_keys[head]]);
    const Mask mask = MaskOf(index, 0, 3);
    for (size_t row = 0; row < mask.size(); ++row) {
      for (const size_t column : {size_t{0}, row, row / 64 * 64, row < 64 ? 0 : row - 64})
        EXPECT_TRUE(mask[row][column]) << setting.method << " row " << row << " column " << column;
    }
  }
}

// Keys that lie behind each other are read where they lie, others from a copy: 700 rows are whole groups and a rest.
TEST(XAttention, ChoosesAlikeWhereverItsKeysLie) {
  std::mt19937 random(FreshSeed());
  auto shape = SquareShape(700, 2, 1);
  shape.dtype = DType::kBFloat16;
  const RandomProblem data(shape, &random);
  std::vector<uint16_t> keys;
  for (int32_t row = 0; row < 700; ++row) {
    for (int32_t d = 0; d < shape.head_dim; ++d) keys.push_back(RoundToBFloat16(data.k.Get(0, 0, row, d)));
  }
  AttentionProblem packed = data.View();
  ASSERT_NE(packed.k.row_stride, shape.head_dim);
  packed.k = {keys.data(), 0, 0, shape.head_dim};
  for (const char* parameters : {"tau=0.5", "tau=0.7,stride=16", "tau=0.7,stride=64"}) {
    for (const int32_t head : {0, 1}) {
      EXPECT_EQ(MaskOf(Select("x-attention", parameters, packed), 0, head),
                MaskOf(Select("x-attention", parameters, data.View()), 0, head))
          << parameters;
    }
  }
}

// A trace that was recorded in bf16 and is read as fp32 holds the same numbers: so are its blocks, and those of a
// problem of which one query is no such number are as good as the same.
TEST(XAttention, ChoosesAlikeFromTheSameNumbersInFp32) {
  std::mt19937 random(FreshSeed());
  auto shape = SquareShape(700, 2, 1);
  shape.dtype = DType::kBFloat16;
  const RandomProblem of_bf16(shape, &random);
  shape.dtype = DType::kFloat32;
  RandomProblem of_fp32(shape, &random);
  const auto copy = [&](const testing::OwnedTensor& from, int32_t heads, testing::OwnedTensor* to) {
    for (int32_t head = 0; head < heads; ++head) {
      for (int32_t row = 0; row < 700; ++row) {
        for (int32_t d = 0; d < shape.head_dim; ++d) to->Set(0, head, row, d, from.Get(0, head, row, d));
      }
    }
  };
  copy(of_bf16.q, 2, &of_fp32.q);
  copy(of_bf16.k, 1, &of_fp32.k);
  for (const char* parameters : {"tau=0.5", "tau=0.7,stride=16"}) {
    for (const int32_t head : {0, 1}) {
      EXPECT_EQ(MaskOf(Select("x-attention", parameters, of_fp32.View()), 0, head),
                MaskOf(Select("x-attention", parameters, of_bf16.View()), 0, head))
          << parameters;
    }
  }
  const Mask before = MaskOf(Select("x-attention", "tau=0.5", of_fp32.View()), 0, 1);
  const float value = of_fp32.q.Get(0, 1, 300, 3);
  of_fp32.q.Set(0, 1, 300, 3, std::nextafter(value, 10.0f));
  const Mask after = MaskOf(Select("x-attention", "tau=0.5", of_fp32.View()), 0, 1);
  int64_t changed = 0;
  for (size_t row = 0; row < before.size(); ++row) {
    for (size_t column = 0; column < before[row].size(); ++column) changed += before[row][column] != after[row][column];
  }
  // At most one block at the edge of the share.
  EXPECT_LE(changed, 128 * 128);
}

}  // namespace
}  // namespace headscope::kernels
