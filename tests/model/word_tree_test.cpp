// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/word_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

namespace headscope::model {
namespace {

// Against a look at every word, for words of few letters, so that many begin alike.
TEST(WordTree, FindsTheLongestWordThatATextBeginsWith) {
  std::mt19937 random(7);
  const auto draw = [&](size_t shortest, size_t longest) {
    std::string text(shortest + random() % (longest - shortest + 1), ' ');
    for (char& letter : text) letter = "ab\xc3\xff"[random() % 4];
    return text;
  };
  int found = 0, missed = 0;
  for (int trial = 0; trial < 300; ++trial) {
    std::map<std::string, int32_t> words;
    for (size_t i = random() % 60; i > 0; --i) words.emplace(draw(1, 9), static_cast<int32_t>(words.size()));
    std::vector<std::pair<std::string_view, int32_t>> given(words.begin(), words.end());
    std::shuffle(given.begin(), given.end(), random);
    const WordTree tree(given);
    for (int text_number = 0; text_number < 100; ++text_number) {
      const std::string text = draw(0, 12);
      size_t bytes = 0;
      for (const auto& [word, id] : words) bytes = text.starts_with(word) ? std::max(bytes, word.size()) : bytes;
      const WordTree::Match match = tree.Longest(text);
      ASSERT_EQ(match.bytes, bytes);
      ASSERT_EQ(match.id, bytes == 0 ? -1 : words.at(text.substr(0, bytes)));
      (bytes > 0 ? found : missed) += 1;
    }
  }
  EXPECT_GT(found, 5000);
  EXPECT_GT(missed, 1000);
}

TEST(WordTree, OfTwoEqualWordsTheSmallerIdCounts) {
  EXPECT_EQ(WordTree({{"ab", 7}, {"a", 3}, {"ab", 5}}).Longest("abc").id, 5);
  EXPECT_EQ(WordTree().Longest("a").bytes, 0U);
}

}  // namespace
}  // namespace headscope::model
