// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/token_finder.h"

#include <gtest/gtest.h>

#include <string>

#include "base/random.h"
#include "support/attempts.h"

namespace headscope::model {
namespace {

using Spans = std::vector<std::pair<uint32_t, uint32_t>>;  // pattern, begin

Spans Found(const std::vector<std::string>& patterns, const std::string& text) {
  Spans spans;
  for (const TokenFinder::Match& match : TokenFinder({patterns.begin(), patterns.end()}).Find(text))
    spans.emplace_back(match.pattern, match.begin);
  return spans;
}

// The definition in plain words.
Spans FoundNaively(const std::vector<std::string>& patterns, const std::string& text) {
  Spans spans;
  for (size_t at = 0; at < text.size();) {
    size_t best = patterns.size();
    for (size_t i = 0; i < patterns.size(); ++i) {
      if (text.compare(at, patterns[i].size(), patterns[i]) != 0) continue;
      if (best == patterns.size() || patterns[i].size() > patterns[best].size()) best = i;
    }
    if (best < patterns.size()) spans.emplace_back(static_cast<uint32_t>(best), static_cast<uint32_t>(at));
    at += best < patterns.size() ? patterns[best].size() : 1;
  }
  return spans;
}

TEST(TokenFinder, TakesTheLeftmostAndOfThoseTheLongest) {
  EXPECT_EQ(Found({"ab", "abcd", "bc", "cdx"}, "abcdx abcx"), (Spans{{1, 0}, {0, 6}}));
  EXPECT_EQ(Found({"a", "a"}, "aa"), (Spans{{0, 0}, {0, 1}}));
  EXPECT_EQ(Found({}, "aa"), Spans());
  EXPECT_EQ(Found({"aa"}, ""), Spans());
}

TEST(TokenFinder, IsTheNaiveSearchOnRandomTokens) {
  Random random(5);
  const auto word = [&](size_t longest, size_t letters) {
    std::string text;
    for (size_t i = 1 + random.Below(longest); i > 0; --i) text += static_cast<char>('a' + random.Below(letters));
    return text;
  };
  for (int trial = 0; trial < 3000; ++trial) {
    const size_t letters = 1 + random.Below(3);
    std::vector<std::string> patterns;
    for (size_t i = random.Below(8); i > 0; --i) patterns.push_back(word(6, letters));
    const std::string text = word(60, letters);
    ASSERT_EQ(Found(patterns, text), FoundNaively(patterns, text)) << text;
  }
}

// Twice the work may take three times as long and no more. A search that tries every token at every place took minutes
// for the first of these, and one that looks again after each match would for the second.
TEST(TokenFinder, TimeIsInProportionHoweverAlikeTheTokensBegin) {
  const auto search = [](std::vector<std::string> patterns, std::string text) {
    return [patterns = std::move(patterns), text = std::move(text)] { Found(patterns, text); };
  };
  const auto alike = [](size_t count) {
    std::vector<std::string> patterns;
    for (size_t i = 0; i < count; ++i) patterns.push_back("the cat " + std::to_string(100000 + i));
    return patterns;
  };
  std::string text;
  for (int i = 0; i < 120000; ++i) text += "the cat ";
  EXPECT_TRUE(
      TakesLess(search(alike(40000), text), 3, search(alike(20000), text.substr(0, text.size() / 2)), /*slack=*/0.05));
  const auto ladder = [](size_t length) {
    return std::vector<std::string>{"a", std::string(length, 'a') + "b", std::string(length, 'b') + "a"};
  };
  EXPECT_TRUE(TakesLess(search(ladder(400000), std::string(800000, 'a')), 3,
                        search(ladder(200000), std::string(400000, 'a')), /*slack=*/0.05));
}

}  // namespace
}  // namespace headscope::model
