// SPDX-License-Identifier: Apache-2.0
// What a file says, on its way to a terminal.
#include "analysis/types/printable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace headscope::analysis {
namespace {

TEST(Printable, LeavesOrdinaryTextAlone) {
  for (const std::string text : {"", "plain words, 0 to 9", "a \\ backslash", "Grüße, 数学, עברית, ±×", "👩‍🔬",
                                 "नमस्ते", "\xF4\x8F\xBF\xBD"}) {
    EXPECT_EQ(Printable(text), text);
    EXPECT_EQ(PrintableLines(text), text);
    EXPECT_EQ(PrintableJson(text), text);
  }
}

TEST(Printable, ShowsControlCharacters) {
  EXPECT_EQ(Printable("\x1b[2J\x1b]0;title\x07"), "\\x1b[2J\\x1b]0;title\\x07");
  EXPECT_EQ(Printable(std::string("a\0b\x7f", 4)), "a\\x00b\\x7f");
  EXPECT_EQ(Printable("one\r\ntwo\tthree"), "one\\x0d\\ntwo\\tthree");
  EXPECT_EQ(Printable("\u009b2J\u0085"), "\\u009b2J\\u0085") << "C1: some terminals obey these as well";
}

TEST(Printable, KeepsLineBreaksAndTabsWhereLinesAreWanted) {
  EXPECT_EQ(PrintableLines("one\n\ttwo\r\n\x1b[m"), "one\n\ttwo\\x0d\n\\x1b[m");
  EXPECT_EQ(PrintableLines("one\u2028two"), "one\\u2028two");
}

TEST(Printable, ShowsWhatTurnsOrHidesText) {
  EXPECT_EQ(Printable("\u202egpj.exe\u202c \u2066x\u2069 \u200f\u061c"),
            "\\u202egpj.exe\\u202c \\u2066x\\u2069 \\u200f\\u061c");
  EXPECT_EQ(Printable("a\u200bb\ufeffc\u00add"), "a\\u200bb\\ufeffc\\u00add");
  EXPECT_EQ(Printable("\U000e0041"), "\\udb40\\udc41");
}

TEST(Printable, ShowsBytesThatAreNoUtf8) {
  EXPECT_EQ(Printable("a\xff\xfe"
                      "b"),
            "a\\xff\\xfeb");
  EXPECT_EQ(Printable("\x9b\x32J"), "\\x9b2J") << "a C1 byte of an 8-bit terminal";
  EXPECT_EQ(Printable("\xc0\xaf \xe0\x80\xaf \xf0\x80\x80\xaf"), "\\xc0\\xaf \\xe0\\x80\\xaf \\xf0\\x80\\x80\\xaf")
      << "longer than needed";
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "half of a pair";
  EXPECT_EQ(Printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "beyond the last character";
  EXPECT_EQ(Printable("\xe2\x82"), "\\xe2\\x82") << "cut short";
  EXPECT_EQ(Printable("\xe2\x82\x1b"), "\\xe2\\x82\\x1b") << "an escape inside a cut character";
}

TEST(Printable, LeavesNothingToDoASecondTime) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  const std::string once = Printable(all + "\u202e\U000e0001");
  EXPECT_EQ(Printable(once), once);
  EXPECT_EQ(PrintableJson(once), once);
  EXPECT_THAT(once, testing::Not(testing::HasSubstr("\n")));
}

TEST(Printable, WritesJsonThatMeansTheSame) {
  EXPECT_EQ(PrintableJson("{\n  \"name\": \"a\\u001b\x7f\u009b\u202eé\"\n}\n"),
            "{\n  \"name\": \"a\\u001b\\u007f\\u009b\\u202eé\"\n}\n");
}

}  // namespace
}  // namespace headscope::analysis
