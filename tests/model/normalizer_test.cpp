// SPDX-License-Identifier: Apache-2.0
// Normal forms, letter case and accents of every character, as the tokenizers library has them: what
// tests/oracle/library_characters.py wrote.
#include "tokenizer/normalizer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint_files.h"
#include "tokenizer/unicode_text.h"

namespace headscope::model {
namespace {

using Kind = NormalizerStep::Kind;

// The text that the oracle has of a character: with marks on both sides.
std::string AmongMarks(uint32_t code) {
  std::string text = "a\u0334\u0327\u0301";
  AppendCharacter(code, &text);
  return text + "\u0345\u0327\u0301";
}

// Once, several hundred characters, most of newer scripts, were taken as utf8proc's Unicode has them.
TEST(Normalizer, TakesEveryCharacterAsTheTokenizersLibraryDoes) {
  const std::string expected = ReadWholeFile(HEADSCOPE_BINARY_DIR "/oracle/normalized.bin");
  const std::vector<std::vector<Kind>> normalizers = {{Kind::kNfc},
                                                      {Kind::kNfd},
                                                      {Kind::kNfkc},
                                                      {Kind::kNfkd},
                                                      {Kind::kLowercase},
                                                      {Kind::kStripMarks},
                                                      {Kind::kNfd, Kind::kStripAccents},
                                                      {Kind::kClean}};
  size_t at = 0;
  for (size_t number = 0; number < normalizers.size(); ++number) {
    std::vector<NormalizerStep> steps;
    for (const Kind kind : normalizers[number]) steps.push_back({.kind = kind, .pattern = {}, .content = {}});
    int differ = 0;
    const auto compare = [&](uint32_t first, uint32_t end) {
      for (uint32_t code = first; code < end; ++code) {
        ASSERT_LT(at, expected.size());
        const size_t length = static_cast<unsigned char>(expected[at]);
        const std::string wanted = expected.substr(at + 1, length);
        at += 1 + length;
        bool at_start = true;
        if (Normalize(AmongMarks(code), steps, &at_start) == wanted) continue;
        if (++differ < 5) ADD_FAILURE() << "normalizer " << number << " differs for " << std::hex << code;
      }
    };
    compare(0x80, 0xD800);
    compare(0xE000, 0x32000);
    compare(0xE0000, 0xE0200);
    EXPECT_EQ(differ, 0) << "normalizer " << number;
  }
  EXPECT_EQ(at, expected.size());
}

// Of two letters that make one in a newer Unicode.
TEST(Normalizer, JoinsNoLettersThatTheLibraryLeavesApart) {
  bool at_start = true;
  const std::vector<NormalizerStep> nfc = {{.kind = Kind::kNfc, .pattern = {}, .content = {}}};
  EXPECT_EQ(Normalize("\U00011935\U00011930", nfc, &at_start), "\U00011935\U00011930");
  EXPECT_EQ(Normalize("e\u0301", nfc, &at_start), "\u00e9");
}

}  // namespace
}  // namespace headscope::model
