// SPDX-License-Identifier: Apache-2.0
// Prompts from files of many encodings.
#include "capture/prompt_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "base/errors.h"
#include "base/random.h"
#include "prompt_file_fuzz.h"

namespace headscope::capture {
namespace {

using std::string_view_literals::operator""sv;
using ::testing::HasSubstr;

// Characters of one byte to four, as each encoding has them.
constexpr std::u32string_view kCharacters = U"a prompt: \u00e9\u20ac\u5929 \U0001f642";

std::string Encoded(size_t bytes_each, bool big_endian, bool with_mark) {
  std::string bytes;
  const auto put = [&](uint32_t unit) {
    for (size_t i = 0; i < bytes_each; ++i)
      bytes += static_cast<char>(unit >> 8 * (big_endian ? bytes_each - 1 - i : i));
  };
  if (with_mark) put(0xFEFF);
  for (const char32_t character : kCharacters) {
    if (bytes_each == 4 || character < 0x10000) {
      put(character);
    } else {
      put(0xD800 + ((character - 0x10000) >> 10));
      put(0xDC00 + ((character - 0x10000) & 0x3FF));
    }
  }
  return bytes;
}

TEST(PromptFile, WideTextsAreRefusedByTheirEncoding) {
  const auto refused = [](const std::string& bytes, const std::string& encoding) {
    EXPECT_EQ(FuzzPromptFile(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()), 1);
    EXPECT_THAT([&] { TextOfPromptFile(bytes, "f.txt"); },
                ::testing::ThrowsMessage<BadInputError>(::testing::AllOf(
                    HasSubstr("f.txt: is " + encoding + " by its"), HasSubstr("iconv -f " + encoding + " -t UTF-8"))));
  };
  for (const bool big_endian : {false, true}) {
    refused(Encoded(2, big_endian, true), "UTF-16");
    refused(Encoded(4, big_endian, true), "UTF-32");
    refused(Encoded(2, big_endian, false), big_endian ? "UTF-16BE" : "UTF-16LE");
  }
}

TEST(PromptFile, OtherBytesAreTheTextOrRefused) {
  const std::string text = "a prompt: \u00e9\u20ac\u5929 \U0001f642";
  EXPECT_EQ(TextOfPromptFile(text, "f"), text);
  EXPECT_EQ(TextOfPromptFile("\xEF\xBB\xBF" + text, "f"), text);
  EXPECT_EQ(TextOfPromptFile("", "f"), "");
  const auto refusal = [](std::string_view bytes) {
    try {
      return TextOfPromptFile(std::string(bytes), "f");
    } catch (const BadInputError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_THAT(refusal("caf\xe9"), HasSubstr("f: is not UTF-8 at byte 3; convert it, as iconv -f LATIN1"));
  EXPECT_THAT(refusal("a surrogate \xED\xA0\x80"), HasSubstr("not UTF-8 at byte 12"));
  EXPECT_THAT(refusal("an overlong \xC0\xAF"), HasSubstr("not UTF-8 at byte 12"));
  EXPECT_THAT(refusal("beyond \xF4\x90\x80\x80"), HasSubstr("not UTF-8 at byte 7"));
  EXPECT_THAT(refusal("a text with one\0"sv), HasSubstr("holds a byte 0 at byte 15"));
}

TEST(PromptFile, DamagedFilesAreAcceptedOrRefused) {
  Random random(11);
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = "\xEF\xBB\xBF a prompt: \u00e9\u20ac\u5929 \U0001f642";
    bytes = bytes.substr(random.Below(6));
    for (size_t edit = random.Below(3); edit < 3; ++edit)
      bytes[random.Below(bytes.size())] = static_cast<char>(random.Below(4) == 0 ? 0 : random.Next());
    refused += FuzzPromptFile(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  }
  EXPECT_GT(refused, 10000);
  EXPECT_LT(refused, 20000);
}

}  // namespace
}  // namespace headscope::capture
