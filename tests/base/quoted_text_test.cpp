// SPDX-License-Identifier: Apache-2.0
#include "base/quoted_text.h"

#include <gtest/gtest.h>

namespace headscope {
namespace {

TEST(QuotedText, StandsInDoubleQuotes) {
  EXPECT_EQ(Quoted("last:8"), R"("last:8")");
  EXPECT_EQ(Quoted(""), R"("")");
  EXPECT_EQ(Quoted("it's"), R"("it's")");
  EXPECT_EQ(Quoted("Grüße, 世界"), R"("Grüße, 世界")");
}

TEST(QuotedText, EndsWhereItEnds) {
  EXPECT_EQ(Quoted(R"(a"b\c)"), R"("a\"b\\c")");
  EXPECT_EQ(Quoted("a\nb\tc\rd\x1b[31me\x7f"), R"("a\nb\tc\x0dd\x1b[31me\x7f")");
  EXPECT_EQ(Quoted(std::string_view("a\0b", 3)), R"("a\x00b")");
}

TEST(QuotedText, IsCutBetweenCharacters) {
  EXPECT_EQ(Quoted("abcdef", 6), R"("abcdef")");
  EXPECT_EQ(Quoted("abcdefg", 6), R"("abcdef"...)");
  EXPECT_EQ(Quoted("世界", 6), R"("世界")");
  EXPECT_EQ(Quoted("世界", 5), R"("世"...)");
  EXPECT_EQ(Quoted("世界", 3), R"("世"...)");
  EXPECT_EQ(Quoted("世界", 2), R"(""...)");
  EXPECT_EQ(Quoted("\x80\x80\x80\x80\x80\x80", 5).substr(0, 3), "\"\x80\x80") << "no UTF-8: some of it is shown";
  EXPECT_EQ(Quoted(std::string(1000, 'x')), '"' + std::string(100, 'x') + "\"...");
}

}  // namespace
}  // namespace headscope
