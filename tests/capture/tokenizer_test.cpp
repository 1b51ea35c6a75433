#include "capture/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "capture/errors.h"
#include "checkpoint_files.h"

namespace headscope::capture {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

const std::string kOracle = HEADSCOPE_BINARY_DIR "/oracle/tokenizer/";

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

class TokenizerOracle : public ::testing::TestWithParam<const char*> {};

TEST_P(TokenizerOracle, GivesTheIdsOfTheTokenizersLibraryAndComesBack) {
  const json cases = json::parse(ReadWholeFile(kOracle + "cases.json"));
  const Tokenizer tokenizer = Tokenizer::Load(kOracle + GetParam() + "/tokenizer.json");
  int checked = 0;
  for (const json& one : cases) {
    if (one["tokenizer"] != GetParam()) continue;
    const std::string text = FromHex(one["text"]);
    const std::vector<int32_t> ids = tokenizer.Encode(text, false);
    ASSERT_EQ(ids, one["ids"].get<std::vector<int32_t>>()) << "text " << one["text"].get<std::string>().substr(0, 400);
    std::vector<int32_t> special = tokenizer.Encode(text, true);
    special.resize(std::min(special.size(), size_t{4}));
    ASSERT_EQ(special, one["ids_special"].get<std::vector<int32_t>>());
    ASSERT_EQ(tokenizer.Decode(ids, true), text);
    ++checked;
  }
  EXPECT_GT(checked, 1000);
}
INSTANTIATE_TEST_SUITE_P(Splits, TokenizerOracle, ::testing::Values("own", "gpt2", "llama3"));

TEST(Tokenizer, AnyBytesComeBack) {
  const Tokenizer tokenizer = Tokenizer::Load(ReferenceModel() + "/tokenizer.json");
  uint32_t state = 1;
  for (int trial = 0; trial < 500; ++trial) {
    std::string bytes;
    for (int i = 0; i < trial % 97; ++i) bytes += static_cast<char>((state = state * 1664525U + 1013904223U) >> 24);
    ASSERT_EQ(tokenizer.Decode(tokenizer.Encode(bytes, false), true), bytes);
  }
}

// Time in proportion to length, within a logarithm: merging that looks at the whole text for every merge would take 64
// times as long for 8 times the text. Of CPU time, since other programs take the clock's.
TEST(Tokenizer, LongTextsTakeTimeInProportion) {
  const Tokenizer tokenizer = Tokenizer::Load(ReferenceModel() + "/tokenizer.json");
  const auto seconds = [&](const std::string& text) {
    const std::clock_t begin = std::clock();
    EXPECT_FALSE(tokenizer.Encode(text, false).empty());
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  std::string prose = ReadWholeFile(HEADSCOPE_SOURCE_DIR "/data/prompts/prose.txt");
  while (tokenizer.Encode(prose, false).size() < 131072) prose += prose;
  // One unbroken run of letters is the worst case for merging.
  for (const std::string& text : {prose, std::string(300000, 'a'), std::string(300000, ' ')}) {
    const double eighth = seconds(text.substr(0, text.size() / 8));
    EXPECT_LT(seconds(text), 24 * eighth + 0.05);
  }
}

TEST(Tokenizer, SpecialTokensAreLeftOutOfTextUnlessAskedFor) {
  const Tokenizer tokenizer = Tokenizer::Load(ReferenceModel() + "/tokenizer.json");
  const std::vector<int32_t> ids = tokenizer.Encode("a</s>b", true);
  EXPECT_EQ(tokenizer.Decode(ids), "ab");
  EXPECT_EQ(tokenizer.Decode(ids, true), "<s>a</s>b");
  EXPECT_EQ(tokenizer.TokenBytes(0), "<s>");
  EXPECT_THROW(tokenizer.TokenBytes(4096), std::out_of_range);
  EXPECT_THROW(tokenizer.TokenBytes(-1), std::out_of_range);
}

class ChangedTokenizer : public ::testing::Test {
 protected:
  json spec = json::parse(ReadWholeFile(ReferenceModel() + "/tokenizer.json"));
  std::string Refusal() const {
    const TemporaryFolder folder;
    try {
      Tokenizer::Load(folder.Write("tokenizer.json", spec.dump()));
    } catch (const BadInputError& error) {
      return error.what();
    }
    return "accepted";
  }
};

TEST_F(ChangedTokenizer, UnknownStagesAreRefusedByName) {
  ASSERT_EQ(Refusal(), "accepted");
  const json original = spec;
  const auto refusal_with = [&](const char* pointer, const json& value) {
    spec = original;
    spec[json::json_pointer(pointer)] = value;
    return Refusal();
  };
  EXPECT_THAT(refusal_with("/normalizer", {{"type", "NFC"}}), HasSubstr("normalizer"));
  EXPECT_THAT(refusal_with("/model/type", "WordPiece"), HasSubstr("model.type"));
  EXPECT_THAT(refusal_with("/model/byte_fallback", true), HasSubstr("byte_fallback"));
  EXPECT_THAT(refusal_with("/model/dropout", 0.1), HasSubstr("dropout"));
  EXPECT_THAT(refusal_with("/model/end_of_word_suffix", "</w>"), HasSubstr("end_of_word_suffix"));
  EXPECT_THAT(refusal_with("/pre_tokenizer", {{"type", "Metaspace"}}), HasSubstr("pre_tokenizer"));
  EXPECT_THAT(refusal_with("/pre_tokenizer/pretokenizers/0/pattern/Regex", "(a+)+$"), HasSubstr("pattern.Regex"));
  EXPECT_THAT(refusal_with("/pre_tokenizer/pretokenizers/0/behavior", "Removed"), HasSubstr("behavior"));
  EXPECT_THAT(refusal_with("/pre_tokenizer/pretokenizers/1/add_prefix_space", true), HasSubstr("add_prefix_space"));
  EXPECT_THAT(refusal_with("/post_processor/type", "BertProcessing"), HasSubstr("post_processor.type"));
  EXPECT_THAT(refusal_with("/decoder/type", "WordPiece"), HasSubstr("decoder.type"));
  EXPECT_THAT(refusal_with("/added_tokens/0/lstrip", true), HasSubstr("added_tokens[0].lstrip"));
  EXPECT_THAT(refusal_with("/added_tokens/0/id", 16000000), HasSubstr("added_tokens"));
  EXPECT_THAT(refusal_with("/truncation", {{"max_length", 5}}), HasSubstr("truncation"));
  EXPECT_THAT(refusal_with("/model/merges/0", {"nowhere", "x"}), HasSubstr("merges[0]"));
  EXPECT_THAT(refusal_with("/model/merges/0", 5), HasSubstr("merges[0]"));
  EXPECT_THAT(refusal_with("/model/vocab/!", 4000000000U), HasSubstr("vocab"));
  spec = original;
  spec["model"]["vocab"].erase("!");
  EXPECT_THAT(Refusal(), HasSubstr("vocab"));
}

}  // namespace
}  // namespace headscope::capture
