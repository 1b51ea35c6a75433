// SPDX-License-Identifier: Apache-2.0
#include "model/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/errors.h"
#include "checkpoint_files.h"
#include "model/model_config.h"
#include "tokenizer/character_map.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/script_runs.h"
#include "tokenizer/splitter.h"
#include "tokenizer/unicode_text.h"

namespace headscope::model {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

// HEADSCOPE_TOKENIZER_CASES names another folder that tests/oracle/tokenizer_cases.py wrote, such as one of many more
// strings.
std::string OracleFolder() {
  const char* chosen = std::getenv("HEADSCOPE_TOKENIZER_CASES");
  return chosen != nullptr ? std::string(chosen) + "/" : HEADSCOPE_BINARY_DIR "/oracle/tokenizer/";
}
const std::string kOracle = OracleFolder();

// The cases that tests/oracle/tokenizer_cases.py wrote for one tokenizer.
class Cases {
 public:
  explicit Cases(const std::string& kind) : bytes_(ReadWholeFile(kOracle + kind + "/cases.bin")) {}
  bool Done() const { return at_ == bytes_.size(); }
  std::string Text() {
    const size_t length = Length();
    at_ += length;
    return bytes_.substr(at_ - length, length);
  }
  std::vector<int32_t> Ids() {
    std::vector<int32_t> ids(Length());
    std::memcpy(ids.data(), bytes_.data() + at_, ids.size() * sizeof(int32_t));
    at_ += ids.size() * sizeof(int32_t);
    return ids;
  }

 private:
  uint32_t Length() {
    uint32_t length = 0;
    std::memcpy(&length, bytes_.data() + at_, sizeof length);
    at_ += sizeof length;
    return length;
  }
  std::string bytes_;
  size_t at_ = 0;
};

// The number of cases that were compared; 0 where one differs.
int CompareCases(const std::string& kind, const std::string& file, bool comes_back, bool decodes,
                 const ModelConfig* config = nullptr) {
  Cases cases(kind);
  const Tokenizer tokenizer = Tokenizer::Load(kOracle + kind + file, config);
  int checked = 0;
  while (!cases.Done()) {
    const std::string text = cases.Text();
    const std::vector<int32_t> ids = tokenizer.Encode(text, false);
    EXPECT_EQ(ids, cases.Ids()) << kind << " text " << ::testing::PrintToString(text.substr(0, 400));
    if (text.size() <= 1000) {
      std::vector<int32_t> special = tokenizer.Encode(text, true);
      special.resize(std::min(special.size(), size_t{4}));
      EXPECT_EQ(special, cases.Ids()) << kind << " text " << ::testing::PrintToString(text.substr(0, 400));
    }
    const std::string decoded = cases.Text();
    if (comes_back) {
      EXPECT_EQ(tokenizer.Decode(ids, true), text) << kind;
    }
    if (decodes && decoded.find("\xEF\xBF\xBD") == std::string::npos) {  // which it puts for what is no UTF-8
      EXPECT_EQ(tokenizer.Decode(ids, true), decoded) << kind;
    }
    if (::testing::Test::HasFailure()) return 0;
    ++checked;
  }
  return checked;
}

class TokenizerOracle : public ::testing::TestWithParam<const char*> {};

// Once, every tokenizer with a normalizer was refused, Qwen's among them, and so were Digits, add_prefix_space, all
// behaviours but Isolated, every flag of an added token, the tokenizers of Llama 2 and Mistral, maps of characters,
// unknown characters and marks of words in BPE.
TEST_P(TokenizerOracle, GivesTheIdsOfTheLibrary) {
  const std::string kind = GetParam();
  // Nothing but bytes and merges: what goes in comes out.
  const std::set<std::string> whole = {"own",      "gpt2",        "llama3",         "tekken",   "o200k",
                                       "deepseek", "deepseek_v2", "deepseek_coder", "line_ends"};
  // What the library puts together in another way: names that are normalized, signs without their spaces, a mark for
  // what is unknown.
  const std::set<std::string> otherwise = {"nfkd_lower",    "bert",          "bert_cased", "bert_whole",
                                           "unigram",       "unigram_bytes", "pieces_bpe", "pieces_bpe_bytes",
                                           "pieces_unigram"};
  const bool pieces = kind == "sentencepiece" || kind.starts_with("pieces_");
  EXPECT_GT(CompareCases(kind, pieces ? "/tokenizer.model" : "/tokenizer.json", whole.contains(kind),
                         !otherwise.contains(kind)),
            800);
}
INSTANTIATE_TEST_SUITE_P(
    Forms, TokenizerOracle,
    ::testing::Values("own", "gpt2", "llama3", "qwen", "nested", "llama3_trained", "gpt2_prefix", "tekken", "o200k",
                      "o200k_removed", "kimi", "deepseek", "deepseek_v2", "deepseek_coder", "bloom", "falcon",
                      "falcon_own", "digits_of_bytes", "gpt2_short", "cl100k", "seed_coder", "letters", "letters_whole",
                      "letters_composed", "letters_by_normalizer", "digits_from_end", "scripts_by_range",
                      "scripts_by_escapes", "line_ends", "nfd_digits", "nfkc_digits", "nfkd_lower", "behaviors",
                      "llama2", "mistral", "gemma", "unknown", "unknown_apart", "byte_names", "without_decoder",
                      "bytes_without_decoder", "marks_without_decoder", "fallback_without_decoder",
                      "suffix_without_decoder", "whole_pieces", "gpt1", "clip", "continued", "word_level",
                      "bytes_by_normalizer", "bert", "bert_cased", "bert_whole", "unigram", "unigram_bytes",
                      "unigram_whitespace", "xlm_roberta", "sentencepiece", "pieces_bpe", "pieces_bpe_bytes",
                      "pieces_unigram", "pieces_unigram_bytes", "pieces_llama", "pieces_chatglm", "pieces_gemma"),
    [](const auto& form) { return std::string(form.param); });

struct Ranked {
  const char* kind;
  const char* file;
  const char* model_type;
  RopeType rope;
};

ModelConfig ConfigOf(const char* model_type, RopeType rope) {
  ModelConfig config;
  config.model_type = model_type;
  config.ropes = {{.type = rope, .short_factors = {}, .long_factors = {}}};
  return config;
}

class RankedOracle : public ::testing::TestWithParam<Ranked> {};

// Once, "is not a SentencePiece model" was all that was said of such a tokenizer.model.
TEST_P(RankedOracle, GivesTheIdsOfTiktoken) {
  const ModelConfig config = ConfigOf(GetParam().model_type, GetParam().rope);
  // tokenization_qwen.py gives what it has normalized back.
  EXPECT_GT(CompareCases(GetParam().kind, GetParam().file, config.model_type != "qwen", true, &config), 800);
}
INSTANTIATE_TEST_SUITE_P(
    Forms, RankedOracle,
    ::testing::Values(Ranked{"ranked_llama3", "/tokenizer.model", "llama", RopeType::kDefault},
                      Ranked{"ranked_llama31", "/tokenizer.model", "llama", RopeType::kLlama3},
                      Ranked{"ranked_llama_names", "/tokenizer.model", "llama", RopeType::kDefault},
                      Ranked{"ranked_glm", "/tokenizer.model", "chatglm", RopeType::kDefault},
                      Ranked{"ranked_glm_names", "/tokenizer.model", "chatglm", RopeType::kDefault},
                      Ranked{"ranked_qwen", "/qwen.tiktoken", "qwen", RopeType::kDefault},
                      Ranked{"ranked_kimi", "/tiktoken.model", "kimi_k2", RopeType::kYarn}),
    [](const auto& form) { return std::string(form.param.kind); });

class ChangedRanks : public ::testing::Test {
 protected:
  std::string bytes = ReadWholeFile(kOracle + "ranked_llama3/tokenizer.model");
  std::string beside;
  std::string Refusal(const char* model_type = "llama", const char* file = "tokenizer.model") const {
    const TemporaryFolder folder;
    const ModelConfig config = ConfigOf(model_type, RopeType::kDefault);
    if (!beside.empty()) folder.Write("tokenizer_config.json", beside);
    try {
      Tokenizer::Load(folder.Write(file, bytes), *model_type == '\0' ? nullptr : &config);
    } catch (const BadInputError& error) {
      return error.what();
    }
    return "accepted";
  }
};

TEST_F(ChangedRanks, AreRefusedByLineOrRank) {
  const std::string whole = bytes;
  EXPECT_EQ(Refusal(), "accepted");
  EXPECT_THAT(Refusal("mistral"), AllOf(HasSubstr("mistral"), HasSubstr("tokenizer.json")));
  EXPECT_THAT(Refusal(""), HasSubstr("a file without its model"));
  bytes = "\r\n" + whole + "\n\n";
  EXPECT_THAT(Refusal(), HasSubstr("SentencePiece")) << "what begins otherwise is told by its first line";
  EXPECT_EQ(Refusal("qwen", "qwen.tiktoken"), "accepted") << "empty lines are passed over, as tiktoken does";
  for (const char* line : {"QUJD", "QUJD ", "QUJD x", "QUJD -1", "QUJD 1 2", "QUJ 9000", "QU=D 9000",
                           "QUJD 99999999999", " 9000", "QUJD 16777216", "Q UJD 9000"}) {
    bytes = whole + line + "\n";
    EXPECT_THAT(Refusal(), HasSubstr("line 901")) << line;
  }
  bytes = whole + "QUJDRA== 16000000\n";
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("rank 16000000"), HasSubstr("far outside")));
  bytes = whole + "QUJDRA== 300\n";
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("rank 300"), HasSubstr("two tokens")));
  bytes = whole + "IQ== 950\n";  // an exclamation mark
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("rank 950"), HasSubstr("same token")));
  bytes = whole.substr(whole.find('\n') + 1);
  EXPECT_THAT(Refusal(), HasSubstr("have none for the byte"));
  std::string longest;
  for (int i = 0; i < 171; ++i) longest += "QUFB";
  bytes = whole + longest + " 950\n";
  EXPECT_THAT(Refusal(), HasSubstr("more than 512 bytes"));
}

TEST_F(ChangedRanks, NamesBesideThemAreHeldAgainstThem) {
  const auto refusal_with = [&](const json& names) {
    beside = json{{"added_tokens_decoder", names}}.dump();
    return Refusal();
  };
  const json begin = {{"content", "<|begin_of_text|>"}};
  EXPECT_EQ(refusal_with({{"900", begin}}), "accepted");
  EXPECT_THAT(refusal_with({{"9", begin}}), HasSubstr("the id 9"));
  EXPECT_THAT(refusal_with({{"16000000", begin}}), HasSubstr("far outside the vocabulary"));
  EXPECT_THAT(refusal_with({{"900", {{"content", "<|end|>"}}}}), HasSubstr("<|begin_of_text|>"));
  EXPECT_THAT(refusal_with({{"900", {{"content", ""}}}}), HasSubstr("added_tokens_decoder.900.content"));
  EXPECT_THAT(refusal_with({{"900", 5}}), HasSubstr("added_tokens_decoder.900"));
  EXPECT_THAT(refusal_with({{"x", begin}}), HasSubstr("is not an id"));
  EXPECT_THAT(refusal_with({{"-1", begin}}), HasSubstr("is not an id"));
  EXPECT_THAT(refusal_with("names"), HasSubstr("must be an object"));
  beside = "{";
  EXPECT_THAT(Refusal(), HasSubstr("tokenizer_config.json"));
}

// Scripts were those of the host's Unicode, where characters have moved since that of the tokenizers library, which
// tests/oracle/script_table.py compares in whole.
TEST(ScriptRuns, AreThoseOfTheTokenizersLibrary) {
  const auto runs = [](std::string_view text) {
    std::vector<std::string> found;
    ForEachScriptRun(text, [&](std::string_view run) { found.emplace_back(run); });
    return found;
  };
  using ::testing::ElementsAre;
  EXPECT_THAT(runs("\u0301\u0953\u0301"), ElementsAre("\u0301", "\u0953", "\u0301")) << "once one run";
  EXPECT_THAT(runs("a\u0560a"), ElementsAre("a\u0560a")) << "once three: it is newer than that library's Unicode";
  EXPECT_THAT(runs(" a \u4e00\u3042\u30fc!\xff-\U0010ffff"),
              ElementsAre("a ", "\u4e00\u3042\u30fc", "!\xff-\U0010ffff"));
  EXPECT_THAT(runs(" "), ElementsAre());
}

// Of every character there is; a host's PCRE2 may be older than that library's Unicode.
TEST(Splitter, ClassesAreThoseOfTheTokenizersLibrary) {
  // In the order of tests/oracle/later_characters.py.
  constexpr const char* kClasses[] = {R"(\p{L})",  R"(\p{N})",  R"(\p{P})",      R"(\p{S})",          R"(\p{M})",
                                      R"(\p{Z})",  R"(\p{C})",  R"(\p{Lu})",     R"(\p{Ll})",         R"(\p{Lt})",
                                      R"(\p{Lm})", R"(\p{Lo})", R"(\p{sc:Han})", R"(\p{White_Space})"};
  const auto wanted = ReadArray<uint32_t>(HEADSCOPE_BINARY_DIR "/oracle/classes.u32");
  ASSERT_EQ(wanted.size(), 0x110000U - 0x800U);
  for (uint32_t number = 0; number < std::size(kClasses); ++number) {
    const Splitter splitter(kClasses[number]);
    uint32_t differ = 0, members = 0;
    for (uint32_t i = 0; i < wanted.size(); ++i) {
      const uint32_t code = i < 0xD800 ? i : i + 0x800;
      std::string text;
      AppendCharacter(code, &text);
      bool matches = false;
      splitter.ForEachPart(text, [&](std::string_view, bool found) { matches = found; });
      members += matches ? 1 : 0;
      if (matches == ((wanted[i] >> number & 1) != 0)) continue;
      ++differ;
      if (differ < 5) ADD_FAILURE() << kClasses[number] << " differs for " << std::hex << code;
    }
    EXPECT_EQ(differ, 0U) << kClasses[number];
    EXPECT_GT(members, 10U) << kClasses[number];
  }
}

// Every normalizer with every pre-tokenizer and every model.
TEST(TokenizerStages, GiveTheIdsOfTheLibraryInEveryCombination) {
  std::istringstream kinds(ReadWholeFile(kOracle + "cross/kinds"));
  int combinations = 0;
  for (std::string kind; std::getline(kinds, kind); ++combinations)
    ASSERT_GT(CompareCases(kind, "/tokenizer.json", false, false), 50);
  EXPECT_GT(combinations, 1500);
}

// A map of one text, A, as SentencePiece compiles it: the array's units, and what stands for A.
std::string MapOfA(const std::string& becomes) {
  std::vector<uint32_t> units(0x42);
  units[0] = 1U << 10;
  units[0x40] = 1U << 10 | 1U << 8 | 0x41U;
  units[0x41] = 1U << 31;
  const auto bytes = static_cast<uint32_t>(units.size() * sizeof(uint32_t));
  std::string blob(sizeof bytes, '\0');
  std::memcpy(blob.data(), &bytes, sizeof bytes);
  blob.append(reinterpret_cast<const char*>(units.data()), bytes);
  return blob.append(becomes).append(1, '\0');
}

TEST(CharacterMap, FindsWhatStandsForAText) {
  const std::string blob = MapOfA("xyz");
  const auto map = CharacterMap::Read(blob);
  ASSERT_TRUE(map.has_value());
  EXPECT_EQ(map->Longest("AB").length, 1U);
  EXPECT_EQ(map->Longest("AB").becomes, "xyz");
  EXPECT_EQ(map->Shortest("B").length, 0U);
  EXPECT_EQ(map->Longest("").length, 0U);
  EXPECT_FALSE(CharacterMap::Read(blob.substr(0, blob.size() - 1)).has_value()) << "the last text does not end";
  EXPECT_FALSE(CharacterMap::Read(std::string("\xFF\xFF\xFF\x7F\0", 5)).has_value()) << "longer than the file";
  EXPECT_FALSE(CharacterMap::Read("").has_value());
}

// Units that lead outside the array or to texts that are not there end a search.
TEST(CharacterMap, DamagedMapsAreSearchedWithinTheirBytes) {
  const std::string whole = MapOfA("xyz");
  for (size_t bit = 32; bit < 8 * whole.size() - 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    const auto map = CharacterMap::Read(damaged);
    ASSERT_TRUE(map.has_value());
    for (const char* text : {"A", "AAAA", "BCD", "@@", "\xFF\xC3\xA9"}) {
      EXPECT_LE(map->Longest(text).length, std::strlen(text));
      EXPECT_LE(map->Shortest(text).becomes.size(), damaged.size());
    }
  }
}

TEST(CharacterMap, ATextThatGrowsTooLongIsRefused) {
  auto rules = std::make_shared<SentencePieceRules>();
  rules->joins_spaces = true;  // the spaces would be dropped, and yet be looked at one by one
  rules->map = std::make_shared<const CharacterMap>(*CharacterMap::Read(MapOfA(std::string(1 << 20, ' '))));
  const std::vector<NormalizerStep> steps = {
      {.kind = NormalizerStep::Kind::kSentencePiece, .pattern = {}, .content = {}, .rules = rules}};
  bool at_start = true;
  EXPECT_THROW(Normalize(std::string(100, 'A'), steps, &at_start), BadInputError);
  EXPECT_EQ(Normalize("b  c ", steps, &at_start), "\u2581b\u2581c");
}

TEST(Tokenizer, AnyBytesComeBack) {
  const Tokenizer tokenizer = Tokenizer::Load(ReferenceModel() + "/tokenizer.json");
  uint32_t state = 1;
  for (int trial = 0; trial < 500; ++trial) {
    std::string bytes;
    for (int i = 0; i < trial % 97; ++i) bytes += static_cast<char>((state = state * 1664525U + 1013904223U) >> 24);
    ASSERT_EQ(tokenizer.Decode(tokenizer.Encode(bytes, false), true), bytes);
  }
}

// Time in proportion to length, within a logarithm: what looks at the whole text for every part of it takes 64 times as
// long for 8 times the text. Of CPU time, since other programs take the clock's, and of the least of three runs, since
// they take the caches too.
//
// Found in a text of n bytes, of which each takes a seconds, is what takes more than 3.2 a / n + 0.016 s / n^2 for each
// pair of its bytes: at 5 MB/s 2.8 ps in a quarter of a megabyte, 0.7 ps in a whole one.
void ExpectTimeInProportion(const Tokenizer& tokenizer, const std::string& text, size_t eighth,
                            const std::string& what) {
  const auto seconds = [&](const std::string& of) {
    const std::clock_t begin = std::clock();
    const size_t count = tokenizer.Encode(of, false).size();
    EXPECT_TRUE(count > 0 || of.size() < text.size()) << "white space alone may be nothing";
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  const double most = 24 * seconds(text.substr(0, eighth)) + 0.01;
  double least = seconds(text);
  for (int run = 1; run < 3 && least >= most; ++run) least = std::min(least, seconds(text));
  EXPECT_LT(least, most) << what;
}

constexpr size_t kLongText = 250'000, kLongestText = 1'000'000;

// `part` as often as it fits, and where an eighth of that ends.
std::pair<std::string, size_t> Repeated(const std::string& part) {
  std::string text;
  while (text.size() < kLongText) text += part;
  return {text, text.size() / part.size() / 8 * part.size()};
}

TEST(Tokenizer, LongTextsTakeTimeInProportion) {
  const Tokenizer tokenizer = Tokenizer::Load(ReferenceModel() + "/tokenizer.json");
  std::string prose = ReadWholeFile(HEADSCOPE_SOURCE_DIR "/data/prompts/prose.txt");
  while (tokenizer.Encode(prose, false).size() < 131072) prose += prose;
  ExpectTimeInProportion(tokenizer, prose, prose.size() / 8, "prose");
}

struct Form {
  const char* kind;
  const char* file;
  const char* model_type = "";
};

class LongTexts : public ::testing::TestWithParam<Form> {};

// A quarter of a megabyte that no space parts: one letter, letters at random, a character of three bytes, line breaks,
// spaces before something else; and a whole one, all words of the prose as one.
TEST_P(LongTexts, WithoutSpacesTakeTimeInProportion) {
  const ModelConfig config = ConfigOf(GetParam().model_type, RopeType::kDefault);
  const Tokenizer tokenizer = Tokenizer::Load(kOracle + GetParam().kind + GetParam().file, &config);
  std::string letters, words;
  uint32_t state = 1;
  while (letters.size() < kLongText)
    letters += static_cast<char>('a' + ((state = state * 1664525U + 1013904223U) >> 24) % 26);
  const std::string prose = ReadWholeFile(HEADSCOPE_SOURCE_DIR "/data/prompts/prose.txt");
  while (words.size() < kLongestText)
    std::ranges::copy_if(prose, std::back_inserter(words), [](char c) { return c > 32; });
  ExpectTimeInProportion(tokenizer, letters, kLongText / 8, "letters");
  ExpectTimeInProportion(tokenizer, words, kLongestText / 8, "words");
  for (const char* part : {"a", "\u4e00", "\n", " ", "\u3000", "'", "e\u0301"}) {
    const auto [text, eighth] = Repeated(part);
    ExpectTimeInProportion(tokenizer, text + "x", eighth,
                           part);  // what is at the end may be looked for from everywhere
    ExpectTimeInProportion(tokenizer, text + "\u4e00", eighth, part);
  }
}
INSTANTIATE_TEST_SUITE_P(
    Forms, LongTexts,
    ::testing::Values(Form{"gpt2", "/tokenizer.json"}, Form{"llama3_trained", "/tokenizer.json"},
                      Form{"qwen", "/tokenizer.json"}, Form{"deepseek_v2", "/tokenizer.json"},
                      Form{"line_ends", "/tokenizer.json"}, Form{"ranked_llama3", "/tokenizer.model", "llama"},
                      Form{"ranked_kimi", "/tiktoken.model", "kimi_k2"}, Form{"llama2", "/tokenizer.json"},
                      Form{"mistral", "/tokenizer.json"}, Form{"gemma", "/tokenizer.json"},
                      Form{"clip", "/tokenizer.json"}, Form{"word_level", "/tokenizer.json"},
                      Form{"bert", "/tokenizer.json"}, Form{"unigram", "/tokenizer.json"},
                      Form{"xlm_roberta", "/tokenizer.json"}, Form{"pieces_bpe", "/tokenizer.model"},
                      Form{"pieces_llama", "/tokenizer.model"}, Form{"pieces_unigram", "/tokenizer.model"}),
    [](const auto& form) { return std::string(form.param.kind); });

// The expressions that split words give nothing back twice: capitals that are tried as the beginning of a word, marks
// that could belong to either side of it, white space before no line break.
TEST(Tokenizer, SplitsOfWordsTakeTimeInProportion) {
  for (const char* kind :
       {"llama3_trained", "tekken", "o200k", "kimi", "deepseek", "deepseek_v2", "deepseek_coder", "bloom", "falcon_own",
        "cl100k", "seed_coder", "digits_from_end", "scripts_by_range", "line_ends"}) {
    const Tokenizer tokenizer = Tokenizer::Load(kOracle + kind + "/tokenizer.json");
    for (const char* part : {"A", "aA", "\u00aaA", "A\u0301", "\u0301A", "\u0301", "'s", "A's", "1a", " ", " \n",
                             "\u3000x", "\u4e00A", "/\n", "!a", " '", "  \u4e00", "7"}) {
      const auto [text, eighth] = Repeated(part);
      ExpectTimeInProportion(tokenizer, text + ".", eighth,
                             kind + std::string(" of ") + ::testing::PrintToString(part));
    }
  }
}

// Ten million spaces were merged for seconds before anybody counted them.
TEST(Tokenizer, APieceThatIsTooLongIsRefusedByItsLength) {
  const Tokenizer tokenizer = Tokenizer::Load(ReferenceModel() + "/tokenizer.json");
  const std::string spaces(100000, ' ');
  const auto count = static_cast<int64_t>(tokenizer.Encode(spaces, false).size());
  EXPECT_EQ(static_cast<int64_t>(tokenizer.Encode(spaces, false, count).size()), count) << "as many as are allowed";
  try {
    tokenizer.Encode(std::string(10'000'000, ' '), false, 16384);
    FAIL() << "took all";
  } catch (const TooManyTokens& too_many) {
    EXPECT_GT(too_many.at_least, 16384);
    EXPECT_LE(too_many.at_least, 100 * count + 1) << "never more than there are";
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
  EXPECT_THAT(refusal_with("/normalizer", {{"type", "Nfx"}}),
              AllOf(HasSubstr("normalizer"), HasSubstr("Nfx"), HasSubstr("NFC"), HasSubstr("headscope.record")));
  EXPECT_THAT(refusal_with("/normalizer", {{"type", "Replace"}, {"pattern", {{"Regex", "a"}}}, {"content", "b"}}),
              HasSubstr("normalizer.pattern.Regex"));
  EXPECT_THAT(refusal_with("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "AAAA"}}),
              HasSubstr("normalizer.precompiled_charsmap"));
  EXPECT_THAT(refusal_with("/model/type", "WordPiece"), HasSubstr("model.type")) << "beside ByteLevel";
  EXPECT_THAT(refusal_with("/model/type", "WordLevel"), HasSubstr("model.type")) << "beside ByteLevel";
  EXPECT_THAT(refusal_with("/model/type", "Words"), HasSubstr("model.type"));
  EXPECT_EQ(refusal_with("/model/byte_fallback", true), "accepted") << "every byte has a token anyway";
  EXPECT_THAT(refusal_with("/model/dropout", 0.1), HasSubstr("dropout"));
  EXPECT_THAT(refusal_with("/pre_tokenizer", {{"type", "UnicodeScript"}}), HasSubstr("pre_tokenizer"));
  EXPECT_THAT(refusal_with("/pre_tokenizer", {{"type", "FixedLength"}, {"length", 0}}),
              HasSubstr("pre_tokenizer.length"));
  EXPECT_THAT(refusal_with("/pre_tokenizer/pretokenizers/0/pattern/Regex", "(a+)+$"), HasSubstr("pattern.Regex"));
  const char* const regex = "/pre_tokenizer/pretokenizers/0/pattern/Regex";
  EXPECT_EQ(refusal_with(regex, "[\u4e00-\u9fff\u00e9]+"), "accepted");
  EXPECT_EQ(refusal_with(regex, "[\u0080-\U0010ffff]+"), "accepted") << "surrogates lie within";
  for (const char* none :
       {"[]+", "[a]+", "[\u4e00-z]+", "[^\u4e00]+", "[\u4e00-]+", "[\u4e00]*", "[\u4e00]", "[\u4e00]++",
        "[\u9fff-\u4e00]+", "[\u4e00&&\u4e01]+", "[[\u4e00]]+", R"([\ud800]+)", R"([\u4e0]+)",
        R"([\u4e00-\x{110000}]+)", R"([\x{}]+)", R"([\x{4e00]+)", R"([\x{41}]+)", R"([\u])", R"([\p{L}]+)"})
    EXPECT_THAT(refusal_with(regex, none), HasSubstr("pattern.Regex")) << none;
  const auto behind_bytes = [&](const json& step) {
    return refusal_with("/pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {{{"type", "ByteLevel"}}, step}}});
  };
  EXPECT_EQ(behind_bytes({{"type", "Digits"}, {"individual_digits", true}}), "accepted");
  EXPECT_THAT(behind_bytes({{"type", "Punctuation"}}), HasSubstr("is not supported after ByteLevel"));
  EXPECT_THAT(behind_bytes({{"type", "Split"}, {"pattern", {{"Regex", "\\p{N}"}}}, {"behavior", "Isolated"}}),
              HasSubstr("is not supported after ByteLevel, but for [0-9][0-9][0-9]"));
  EXPECT_THAT(behind_bytes({{"type", "ByteLevel"}}), HasSubstr("is not supported after ByteLevel"));
  EXPECT_THAT(refusal_with("/pre_tokenizer/pretokenizers/0/behavior", "Doubled"), HasSubstr("behavior"));
  EXPECT_THAT(refusal_with("/post_processor/type", "BertProcessing"), HasSubstr("post_processor.cls"));
  EXPECT_THAT(refusal_with("/post_processor/type", "Quoting"), HasSubstr("post_processor.type"));
  EXPECT_THAT(refusal_with("/decoder/type", "WordPiece"), HasSubstr("decoder.type"));
  EXPECT_THAT(refusal_with("/added_tokens/0/lstrip", "yes"), HasSubstr("added_tokens[0].lstrip"));
  EXPECT_THAT(refusal_with("/added_tokens/0/id", 16000000), HasSubstr("added_tokens"));
  EXPECT_EQ(refusal_with("/truncation", {{"max_length", 5}}), "accepted") << "a text is taken whole";
  EXPECT_THAT(refusal_with("/model/merges/0", {"nowhere", "x"}), HasSubstr("merges[0]"));
  EXPECT_THAT(refusal_with("/model/merges/0", 5), HasSubstr("merges[0]"));
  EXPECT_THAT(refusal_with("/model/vocab/!", 4000000000U), HasSubstr("vocab"));
  spec = original;
  spec["model"]["vocab"].erase("!");
  EXPECT_THAT(Refusal(), HasSubstr("vocab"));
}

}  // namespace
}  // namespace headscope::model
