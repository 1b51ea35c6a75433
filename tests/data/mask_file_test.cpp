// SPDX-License-Identifier: Apache-2.0
// Masks and numbers per head that other programs wrote.
#include "data/mask_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <variant>

#include "base/errors.h"
#include "data/index_file.h"

namespace headscope::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

BlockMaskFile ReadBlockMask(const std::string& path) {
  return std::get<BlockMaskFile>(ReadMaskJson(path));
}

class MaskFileTest : public ::testing::Test {
 protected:
  ~MaskFileTest() override { std::filesystem::remove(path_); }

  const std::string& Write(const std::string& text) {
    std::ofstream(path_, std::ios::binary) << text;
    return path_;
  }
  template <typename Read>
  std::string Refusal(const std::string& text, const Read& read) {
    Write(text);
    try {
      read(path_);
    } catch (const BadInputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(path_));
      return error.what();
    }
    return "read";
  }

  const std::string path_ = ::testing::TempDir() + "mask_file_test_" + std::to_string(getpid());
};

constexpr char kMask[] = R"({"BLOCK_SIZE": [128, 64],
  "kv_num_blocks": [[[1, 1], [0, 2]]], "kv_indices": [[[[0, 9], [1, 0]], [[7, 7], [0, 1]]]],
  "full_kv_num_blocks": [[[0, 1], [1, 0]]], "full_kv_indices": [[[[5], [0]], [[0], [5]]]]})";

constexpr char kIndex[] =
    R"({"format": "headscope-index", "version": 2, "method": "a-shape:n_sink=1", "recipe": "trace",
  "num_qo_heads": 1, "num_kv_heads": 1, "head_dim": 8, "seq_q": 130, "seq_k": 130, "first_position": 0, "tile_rows": 128,
  "mask_kind": 1, "window": 0, "num_sinks": 0, "run_begin": [0, 1], "run_count": [1, 1], "column_begin": [0, 0],
  "column_count": [0, 1], "columns": [3], "runs": [[0, 268435584], [0, 268435586]], "heads": [[4, 2]]})";

TEST_F(MaskFileTest, ReadsAnIndexInJson) {
  const std::variant<IndexFile, BlockMaskFile> read = ReadMaskJson(Write(kIndex));
  const auto* const index = std::get_if<IndexFile>(&read);
  ASSERT_NE(index, nullptr);
  EXPECT_EQ(index->method, "a-shape:n_sink=1");
  EXPECT_EQ(index->seq_q, 130);
  EXPECT_EQ(index->tile_rows, 128);
  EXPECT_THAT(index->run_begin, ElementsAre(0, 1));
  EXPECT_THAT(index->columns, ElementsAre(3));
  EXPECT_THAT(index->runs, ElementsAre(0, 268435584, 0, 268435586));
  EXPECT_THAT(index->heads, ElementsAre(4, 2));
}

TEST_F(MaskFileTest, RefusesWhatIsNoIndexInJson) {
  const auto refusal = [this](const std::string& from, const std::string& to) {
    std::string text = kIndex;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return Refusal(text.replace(at, from.size(), to), [](const std::string& path) { ReadMaskJson(path); });
  };
  EXPECT_THAT(refusal("\"version\": 2", "\"version\": 3"), HasSubstr("version: is not 2"));
  EXPECT_THAT(refusal("\"seq_q\": 130", "\"seq_q\": 1e9"), HasSubstr("seq_q"));
  EXPECT_THAT(refusal("\"seq_k\": 130", "\"seq_k\": 99999999999"), HasSubstr("seq_k"));
  EXPECT_THAT(refusal("\"seq_k\": 130, ", ""), HasSubstr("seq_k: is missing"));
  EXPECT_THAT(refusal("[1, 1], \"column_begin", "[1], \"column_begin"), HasSubstr("run_count: has 1 entries"));
  EXPECT_THAT(refusal("[[4, 2]]", "[[4]]"), HasSubstr("pairs"));
  EXPECT_THAT(refusal("[[4, 2]]", "[]"), HasSubstr("heads: has 0 heads, and num_qo_heads is 1"));
  EXPECT_THAT(refusal("[[4, 2]]", "[[4, 2], [4, 3]]"), HasSubstr("heads: has 2 heads, and num_qo_heads is 1"));
  EXPECT_THAT(refusal("\"num_qo_heads\": 1", "\"num_qo_heads\": -2147483648"), HasSubstr("heads: has 1 heads"));
  EXPECT_THAT(refusal("[3]", "{}"), HasSubstr("columns: is not a list"));
  EXPECT_THAT(refusal("[3]", "[18446744073709551615]"), HasSubstr("columns"));
}

// Of two a parser takes the last without a word, and another program maybe the first.
TEST_F(MaskFileTest, RefusesANameTwiceByThatName) {
  const auto read = [](const std::string& path) { ReadMaskJson(path); };
  std::string index = kIndex;
  index.insert(index.rfind('}'), R"(, "seq_\u0071": 130)");
  EXPECT_THAT(Refusal(index, read), HasSubstr(": \"seq_q\": the name appears twice in one object; write it once"));
  for (const std::string text :
       {R"({"a": [{"b": {"c": 1, "d": 2, "c": 1}}]})", R"({"x": {"c": 1}, "y": [{"c": 2, "c": {}}]})"})
    EXPECT_THAT(Refusal(text, read), HasSubstr(": \"c\": the name appears twice"));
  // The same name in objects of their own, and what is no JSON behind two names.
  EXPECT_THAT(Refusal(R"({"a": {"a": [{"a": 1}, {"a": 2}]}})", read), Not(HasSubstr("twice")));
  EXPECT_THAT(Refusal(R"({"a": 1, "a": 2)", read), Not(HasSubstr("twice")));
}

TEST_F(MaskFileTest, ReadsAFlexAttentionBlockMask) {
  const BlockMaskFile mask = ReadBlockMask(Write(kMask));
  EXPECT_EQ(mask.block_q, 128);
  EXPECT_EQ(mask.block_k, 64);
  EXPECT_EQ(mask.num_heads, 2);
  EXPECT_EQ(mask.num_rows, 2);
  EXPECT_THAT(mask.begin, ElementsAre(0, 1, 3, 4, 6));
  EXPECT_THAT(mask.blocks, ElementsAre(0, 1, 0, 0, 0, 1));
  const BlockMaskFile plain = ReadBlockMask(
      Write(R"({"BLOCK_SIZE": 32, "kv_num_blocks": [[[1]]], "kv_indices": [[[[3]]]], "full_kv_num_blocks": null})"));
  EXPECT_EQ(plain.block_q, 32);
  EXPECT_THAT(plain.blocks, ElementsAre(3));
}

TEST_F(MaskFileTest, RefusesDamagedMasksByField) {
  const std::pair<const char*, const char*> refusals[] = {
      {"", "not a JSON object"},
      {"no JSON", "not a JSON object"},
      {"[1]", "not a JSON object"},
      {R"({"kv_num_blocks": [[[1]]]})", "BLOCK_SIZE"},
      {R"({"BLOCK_SIZE": 0})", "BLOCK_SIZE"},
      {R"({"BLOCK_SIZE": 128})", "kv_num_blocks"},
      {R"({"BLOCK_SIZE": 128, "kv_num_blocks": [[[1]], [[1]]]})", "one sequence"},
      {R"({"BLOCK_SIZE": 128, "kv_num_blocks": [[]]})", "no array of heads"},
      {R"({"BLOCK_SIZE": 128, "kv_num_blocks": [[[1]]]})", "kv_indices"},
      {R"({"BLOCK_SIZE": 128, "kv_num_blocks": [[[2]]], "kv_indices": [[[[0]]]]})", "kv_num_blocks"},
      {R"({"BLOCK_SIZE": 128, "kv_num_blocks": [[[1]]], "kv_indices": [[[[-1]]]]})", "kv_indices"},
      {R"({"BLOCK_SIZE": 128, "kv_num_blocks": [[[1]]], "kv_indices": [[[[1e9]]]]})", "whole number"},
      {R"({"BLOCK_SIZE": 128, "kv_num_blocks": [[[1]]], "kv_indices": [[[[99999999999999999999]]]]})", "kv_indices"},
      {R"({"BLOCK_SIZE": 128, "kv_num_blocks": [[[1], [1]]], "kv_indices": [[[[0]]]]})", "another shape"},
      {R"({"BLOCK_SIZE": 128, "kv_num_blocks": [[[1]]], "kv_indices": [[[[0]]]], "full_kv_num_blocks": [[[0]]]})",
       "full_kv_indices"}};
  for (const auto& [text, words] : refusals) {
    EXPECT_THAT(Refusal(text, [](const std::string& path) { ReadMaskJson(path); }), HasSubstr(words)) << text;
  }
  EXPECT_THROW(ReadBlockMask(path_ + ".missing"), BadInputError);
}

TEST_F(MaskFileTest, ReadsNumbersPerHead) {
  const HeadNumbers numbers = ReadHeadNumbers(Write("0.5\t-1e-05\t1\r\n\n 0 0.25 2.0"));
  EXPECT_EQ(numbers.num_layers, 2);
  EXPECT_EQ(numbers.num_heads, 3);
  EXPECT_THAT(numbers.values, ElementsAre(0.5, -1e-05, 1, 0, 0.25, 2));
}

// Its published loader is NumPy's loadtxt: what that writes (savetxt, with a header) and what else it reads.
TEST_F(MaskFileTest, ReadsNumbersPerHeadAsNumPyDoes) {
  const HeadNumbers numbers = ReadHeadNumbers(
      Write("# trained at 1e-5\n5.000000000000000000e-01\t1.000000000000000000e+00\n+.25\t-0 # the last\n#\t7\n"));
  EXPECT_EQ(numbers.num_layers, 2);
  EXPECT_THAT(numbers.values, ElementsAre(0.5, 1, 0.25, 0));
  for (const char* const text : {"+\t1", "+-1\t1", "++1\t1", "0.5\t+ 1", "0.5.25", "1-0.5", "0.5+1", "1e-5.5\t1"}) {
    const std::string refusal = Refusal(text, [](const std::string& path) { ReadHeadNumbers(path); });
    EXPECT_THAT(refusal, HasSubstr("holds something other than finite numbers")) << text;
  }
}

// DuoAttention's patterns have these in a config.json; a model's config.json in the same folder is none.
TEST(StreamingSizes, AreThoseOfTheConfigBesideTheNumbers) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / ("streaming_sizes_" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const std::string numbers = (folder / "full_attention_heads.tsv").string();
  const auto config = [&](const std::string& text) { std::ofstream(folder / "config.json") << text; };
  EXPECT_FALSE(ReadStreamingSizes(numbers));
  config(R"({"model_type": "llama", "hidden_size": 64})");
  EXPECT_FALSE(ReadStreamingSizes(numbers));
  config(R"({"sink_size": 64, "recent_size": 1024, "else": []})");
  ASSERT_TRUE(ReadStreamingSizes(numbers));
  EXPECT_EQ(ReadStreamingSizes(numbers)->sink, 64);
  EXPECT_EQ(ReadStreamingSizes(numbers)->recent, 1024);
  for (const char* const size : {"0", "1.5", "\"128\"", "1048577", "null"}) {
    config(std::string(R"({"sink_size": 64, "recent_size": )") + size + "}");
    try {
      ReadStreamingSizes(numbers);
      ADD_FAILURE() << size;
    } catch (const BadInputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("config.json"));
      EXPECT_THAT(error.what(), HasSubstr("recent_size"));
    }
  }
  config("{");
  EXPECT_THROW(ReadStreamingSizes(numbers), BadInputError);
  std::filesystem::remove_all(folder);
}

TEST_F(MaskFileTest, RefusesOtherLinesByNumber) {
  const auto refusal = [&](const char* text) {
    return Refusal(text, [](const std::string& path) { ReadHeadNumbers(path); });
  };
  EXPECT_THAT(refusal("1\t2\n3\n"), HasSubstr("line 2"));
  EXPECT_THAT(refusal("1\tx\n"), HasSubstr("line 1"));
  EXPECT_THAT(refusal("1\n\nnan\n"), HasSubstr("line 3"));
  EXPECT_THAT(refusal("\n \n"), HasSubstr("holds no number"));
}

}  // namespace
}  // namespace headscope::data
