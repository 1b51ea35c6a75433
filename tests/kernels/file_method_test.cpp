// SPDX-License-Identifier: Apache-2.0
// Methods that are made of a file's contents.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <numeric>

#include "kept_sets.h"
#include "kernels/file_methods.h"
#include "kernels/method_names.h"

namespace headscope::kernels {
namespace {

using testing::CausalMask;
using testing::DecodeShape;
using testing::FreshSeed;
using ::testing::HasSubstr;
using testing::Mask;
using testing::MaskOf;
using testing::RandomProblem;
using testing::SquareShape;

std::unique_ptr<PrefillMethod> Made(BlockMask mask) {
  std::unique_ptr<PrefillMethod> method;
  const Status status = MakeMaskMethod("mask", std::move(mask), &method);
  EXPECT_TRUE(status.ok()) << status.message();
  return method;
}

SparseIndex Chosen(const PrefillMethod& method, const AttentionProblem& problem, const char* parameters = "") {
  SparseIndex index;
  const Status status = method.Select(problem, testing::Values(method.spec(), parameters), {}, &index);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(Validate(index.View()).ok());
  return index;
}

TEST(MaskMethod, KeepsItsBlocksCausally) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(300, 2, 1), &random);
  // Two heads, three blocks of 128 rows, key blocks of 32.
  const auto method = Made({.block_q = 128,
                            .block_k = 32,
                            .num_heads = 2,
                            .num_rows = 3,
                            .begin = {0, 1, 3, 3, 4, 5, 6},
                            .blocks = {1, 0, 9, 0, 2, 5}});
  const SparseIndex index = Chosen(*method, data.View());
  const std::vector<std::vector<int32_t>> lists = {{1}, {0, 9}, {}, {0}, {2}, {5}};
  for (int32_t head = 0; head < 2; ++head) {
    const Mask mask = MaskOf(index, 0, head);
    for (int32_t row = 0; row < 300; ++row) {
      const std::vector<int32_t>& blocks = lists[static_cast<size_t>(3 * head + row / 128)];
      for (int32_t column = 0; column < 300; ++column) {
        const bool named = std::find(blocks.begin(), blocks.end(), column / 32) != blocks.end();
        ASSERT_EQ(mask[static_cast<size_t>(row)][static_cast<size_t>(column)], named && column <= row)
            << head << " " << row << " " << column;
      }
    }
  }
}

TEST(MaskMethod, RefusesWhatItHasNoRowsOrHeadsFor) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(300, 2, 1), &random);
  SparseIndex index;
  const auto message = [&](const PrefillMethod& method) {
    return std::string(method.Select(data.View(), ParameterValues(method.spec()), {}, &index).message());
  };
  EXPECT_THAT(message(*Made({.num_rows = 2, .begin = {0, 0, 0}})), HasSubstr("rows for 256"));
  const auto three = Made({.num_heads = 3, .num_rows = 3, .begin = std::vector<int64_t>(10, 0)});
  EXPECT_TRUE(three->Select(data.View(), ParameterValues(three->spec()), {}, &index).ok());
  AttentionProblem later = data.View();
  later.first_qo_head = 2;
  EXPECT_THAT(three->Select(later, ParameterValues(three->spec()), {}, &index).message(), HasSubstr("has 3 heads"));
  std::unique_ptr<PrefillMethod> none;
  EXPECT_THAT(MakeMaskMethod("mask", BlockMask{.num_rows = 1, .begin = {0, 2}, .blocks = {1}}, &none).message(),
              HasSubstr("begin"));
  EXPECT_THAT(MakeMaskMethod("mask", BlockMask{.num_rows = 1, .begin = {0, 1}, .blocks = {-1}}, &none).message(),
              HasSubstr("blocks holds -1"));
  EXPECT_EQ(none, nullptr);
}

TEST(MaskMethod, AnIndexKeepsWhatItKeptOfAnotherPrompt) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(300, 4, 2), &random), other(SquareShape(300, 4, 2), &random);
  const SparseIndex made = testing::Select("block-sparse", "n_blocks=2", other.View());
  std::unique_ptr<PrefillMethod> method;
  ASSERT_TRUE(MakeMaskMethod("saved", made, {}, &method).ok());
  const SparseIndex index = Chosen(*method, data.View());
  for (int32_t head = 0; head < 4; ++head) EXPECT_EQ(MaskOf(index, 0, head), MaskOf(made, 0, head));
  // One head of the layer by itself.
  AttentionProblem alone = data.View();
  alone.num_qo_heads = alone.num_kv_heads = 1;
  alone.first_qo_head = 3;
  EXPECT_EQ(MaskOf(Chosen(*method, alone), 0, 0), MaskOf(made, 0, 3));
  const RandomProblem longer(SquareShape(301, 4, 2), &random);
  SparseIndex none;
  EXPECT_THAT(method->Select(longer.View(), ParameterValues(method->spec()), {}, &none).message(),
              HasSubstr("seq_q is 301, and the index was made for 300: take one of that shape, or export the first 300 "
                        "tokens of this trace"));
}

TEST(MaskMethod, AnIndexOfATraceIsAskedByLayerAndHead) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(300, 4, 2), &random), other(SquareShape(300, 4, 2), &random);
  const SparseIndex made = testing::Select("block-sparse", "n_blocks=2", other.View());
  const std::vector<HeadOfModel> heads = {{7, 1}, {7, 0}, {2, 0}, {2, 1}};
  std::unique_ptr<PrefillMethod> method;
  ASSERT_TRUE(MakeMaskMethod("saved", made, heads, &method).ok());
  AttentionProblem two = data.View();
  two.num_qo_heads = 2;
  two.num_kv_heads = 1;
  for (const int32_t layer : {2, 7}) {
    two.layer = layer;
    const SparseIndex index = Chosen(*method, two);
    for (int32_t head = 0; head < 2; ++head) {
      const auto place = std::find(heads.begin(), heads.end(), HeadOfModel{layer, head}) - heads.begin();
      EXPECT_EQ(MaskOf(index, 0, head), MaskOf(made, 0, static_cast<int32_t>(place))) << layer << ":" << head;
    }
    EXPECT_LT(index.runs.size() + index.columns.size(), made.runs.size() + made.columns.size());
  }
  SparseIndex none;
  two.layer = 3;
  EXPECT_THAT(method->Select(two, ParameterValues(method->spec()), {}, &none).message(),
              HasSubstr("no lists of layer 3's query head 0 among its 4 heads: take one"));
  const auto refusal = [&](const std::vector<HeadOfModel>& wrong) {
    return std::string(MakeMaskMethod("saved", made, wrong, &method).message());
  };
  EXPECT_THAT(refusal({{1, 1}}), HasSubstr("heads names 1 heads, and num_qo_heads is 4"));
  EXPECT_THAT(refusal({{1, 1}, {1, 2}, {1, 1}, {1, 3}}), HasSubstr("head 1 of layer 1 twice"));
  EXPECT_THAT(refusal({{1, 1}, {1, -2}, {1, 0}, {1, 3}}), HasSubstr("below 0"));
}

TEST(DuoAttention, StreamsTheHeadsBelowTheThreshold) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(SquareShape(500, 4, 2), &random);
  std::unique_ptr<PrefillMethod> method;
  std::unique_ptr<DecodeMethod> decode;
  ASSERT_TRUE(MakeDuoAttention("duo", 2, 2, {0.1, 0.7, 1.4, 0.2}, {}, &method, &decode).ok());
  AttentionProblem problem = data.View();
  const auto streams = [&](int32_t layer, int32_t head, const char* parameters) {
    problem.layer = layer;
    const Mask mask = MaskOf(Chosen(*method, problem, parameters), 0, head);
    if (mask == CausalMask(problem)) return false;
    for (int32_t row = 0; row < 500; ++row) {
      for (int32_t column = 0; column <= row; ++column) {
        const bool kept = column < 5 || column > row / 64 * 64 - 40;
        EXPECT_EQ(mask[static_cast<size_t>(row)][static_cast<size_t>(column)], kept) << row << " " << column;
      }
    }
    return true;
  };
  const std::string window = "n_sink=5,n_local=40,";
  for (int32_t head = 0; head < 4; ++head) {
    EXPECT_EQ(streams(0, head, (window + "threshold=0.5").c_str()), head < 2);
    EXPECT_EQ(streams(1, head, (window + "threshold=0.5").c_str()), head >= 2);
    EXPECT_TRUE(streams(1, head, (window + "sparsity=1").c_str()));
    // A quarter of {0.1, 0.2, 0.7, 1}: what lies below 0.175.
    EXPECT_EQ(streams(0, head, (window + "sparsity=0.25").c_str()), head < 2);
    EXPECT_FALSE(streams(1, head, (window + "sparsity=0.25").c_str()));
  }
  SparseIndex index;
  problem.layer = 2;
  EXPECT_THAT(method->Select(problem, ParameterValues(method->spec()), {}, &index).message(),
              HasSubstr("layer is 2, and the file has lines for layers 0 to 1"));
  problem.layer = 1;
  problem.first_kv_head = 1;
  EXPECT_THAT(method->Select(problem, ParameterValues(method->spec()), {}, &index).message(),
              HasSubstr("KV head is 2, and the file has 2"));
}

// A step keeps what the last row of the same tokens would if a row had a window of its own.
TEST(DuoAttention, StreamsTheSameHeadsInADecodeStep) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(DecodeShape(500, 4, 2), &random);
  std::unique_ptr<PrefillMethod> prefill;
  std::unique_ptr<DecodeMethod> method;
  ASSERT_TRUE(MakeDuoAttention("duo", 2, 2, {0.1, 0.7, 1.4, 0.2}, {}, &prefill, &method).ok());
  EXPECT_EQ(method->spec().phase, Phase::kDecode);
  AttentionProblem problem = data.View();
  const auto select = [&](const char* parameters) {
    DecodeSelection selection;
    const Status status = method->Select(problem, testing::Values(method->spec(), parameters), {}, &selection);
    EXPECT_TRUE(status.ok()) << status.message();
    return selection;
  };
  std::vector<int32_t> all(500), streamed;
  std::iota(all.begin(), all.end(), 0);
  std::copy_if(all.begin(), all.end(), std::back_inserter(streamed),
               [](int32_t token) { return token < 5 || token >= 460; });
  for (int32_t layer = 0; layer < 2; ++layer) {
    problem.layer = layer;
    const DecodeSelection selection = select("n_sink=5,n_local=40");
    for (int32_t head = 0; head < 2; ++head)
      EXPECT_EQ(TokensOfList(selection, head, 500), head == layer ? streamed : all) << layer << ":" << head;
    // 500 and 45 tokens on average and the new one written, keys and values.
    EXPECT_EQ(selection.elements_moved, (500 + 45 + 2) * 2 * problem.head_dim / 2);
    EXPECT_TRUE(IsDense(select("threshold=0"), 500));
    EXPECT_EQ(TokensOfList(select("sparsity=1,n_sink=5,n_local=40"), layer, 500), streamed);
    EXPECT_TRUE(IsDense(select("sparsity=1,n_sink=300,n_local=300"), 500)) << "sinks and window meet";
  }
  // One KV head by itself.
  problem.num_qo_heads = problem.num_kv_heads = 1;
  problem.first_qo_head = 2;
  problem.first_kv_head = 1;
  problem.layer = 1;
  EXPECT_EQ(TokensOfList(select("n_sink=5,n_local=40"), 0, 500), streamed);
  DecodeSelection none;
  problem.layer = -1;
  EXPECT_THAT(method->Select(problem, ParameterValues(method->spec()), {}, &none).message(),
              HasSubstr("the problem is of no layer of a model"));
}

// Where the model's own attention has a window, the first tokens lie before it: a streaming head loses its sinks.
TEST(DuoAttention, CountsSinksInTheWholeSequence) {
  std::mt19937 random(FreshSeed());
  const RandomProblem data(DecodeShape(100, 4, 2), &random);
  std::unique_ptr<PrefillMethod> prefill;
  std::unique_ptr<DecodeMethod> method;
  ASSERT_TRUE(MakeDuoAttention("duo", 1, 2, {1, 0}, {}, &prefill, &method).ok());
  const auto policy = method->NewPolicy(testing::Values(method->spec(), "n_sink=8,n_local=4"));
  DecodeStep step{.problem = data.View(), .first_token = 6};
  step.problem.layer = 0;
  DecodeSelection selection;
  DecodeEvictions evictions;
  const Status status = policy->Step(step, {}, &selection, &evictions);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(NumTokens(selection, 0, 100), 100);
  EXPECT_THAT(TokensOfList(selection, 1, 100), ::testing::ElementsAre(0, 1, 96, 97, 98, 99));
  EXPECT_EQ(selection.elements_moved, (100 + 6 + 2) * 2 * step.problem.head_dim / 2);
}

TEST(FileMethods, AreFoundByTheirNameAndNotListed) {
  std::unique_ptr<PrefillMethod> method;
  std::unique_ptr<DecodeMethod> decode;
  ASSERT_TRUE(MakeDuoAttention("duo-attention[some file]", 1, 1, {1}, {}, &method, &decode).ok());
  const PrefillMethod& added = AddPrefillMethod(std::move(method));
  EXPECT_EQ(FindPrefillMethod("duo-attention[some file]"), &added);
  EXPECT_EQ(FindMethod("duo-attention[some file]").prefill, &added);
  EXPECT_THAT(PrefillMethods(), ::testing::Not(::testing::Contains(&added)));
  const DecodeMethod& added_decode = AddDecodeMethod(std::move(decode));
  EXPECT_EQ(FindDecodeMethod("duo-attention[some file]"), &added_decode);
  EXPECT_EQ(FindMethod("decode/duo-attention[some file]").decode, &added_decode);
  EXPECT_EQ(UniqueName(added_decode.spec()), "decode/duo-attention[some file]");
  EXPECT_THAT(DecodeMethods(), ::testing::Not(::testing::Contains(&added_decode)));
}

}  // namespace
}  // namespace headscope::kernels
