// SPDX-License-Identifier: Apache-2.0
// Names of tokens that are cut out of a text, where white space beside one is what another one is made of. What is
// expected is what the tokenizers library (0.23.3) gives, but where a comment says otherwise.
#include "tokenizer/added_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace headscope::model {
namespace {

using ::testing::ElementsAre;

// The text between names as it stands, and the ids of names.
std::vector<std::string> Parts(std::string_view text, const std::vector<AddedToken>& tokens) {
  std::vector<std::string> parts;
  AddedTokens(tokens, false, {})
      .Cut(
          text, [&](std::string_view plain) { parts.emplace_back(plain); },
          [&](int32_t id) { parts.push_back("#" + std::to_string(id)); });
  return parts;
}

// Once, such a name was a token all the same, which stood for nothing.
TEST(AddedTokens, ANameOfTakenWhiteSpaceGoesWithIt) {
  const std::vector<AddedToken> names = {{.content = "<a>", .id = 1, .rstrip = true},
                                         {.content = "\t", .id = 2, .lstrip = true},
                                         {.content = "\tb", .id = 3, .lstrip = true}};
  EXPECT_THAT(Parts("<a>\tx", names), ElementsAre("#1", "x"));
  EXPECT_THAT(Parts("<a> \tx", names), ElementsAre("#1", "x"));
  EXPECT_THAT(Parts("x \tx", names), ElementsAre("x", "#2", "x"));
  EXPECT_THAT(Parts("<a>\tbx", names), ElementsAre("#1", "#3", "x")) << "part of it is left";
  // That library stops at these with an error.
  EXPECT_THAT(Parts("<a>\t x", names), ElementsAre("#1", "x"));
  EXPECT_THAT(Parts("<a>\t\tx\tx", names), ElementsAre("#1", "x", "#2", "x"));
}

TEST(AddedTokens, ANameThatTakesWhiteSpaceToBothSidesGoesWithIt) {
  const std::vector<AddedToken> names = {{.content = "<a>", .id = 1, .rstrip = true},
                                         {.content = "\t", .id = 2, .lstrip = true, .rstrip = true}};
  EXPECT_THAT(Parts("<a> \t \t x", names), ElementsAre("#1", "x"));
  EXPECT_THAT(Parts("x \t \t x", names), ElementsAre("x", "#2", "x"));
}

TEST(AddedTokens, ANameThatTakesNothingBeforeItStaysAToken) {
  const std::vector<AddedToken> names = {{.content = "<a>", .id = 1, .rstrip = true}, {.content = "\t", .id = 2}};
  EXPECT_THAT(Parts("<a>\tx", names), ElementsAre("#1", "#2", "x"));
  EXPECT_THAT(Parts("<a> \t x", names), ElementsAre("#1", "#2", " x"));
  EXPECT_THAT(Parts("<a>\t\tx", names), ElementsAre("#1", "#2", "#2", "x"));
}

// Once, it was the first of them in the file.
TEST(AddedTokens, OfNamesThatAreOneWhenNormalizedASpecialTokenIsFound) {
  const std::vector<NormalizerStep> lowercase = {
      {.kind = NormalizerStep::Kind::kLowercase, .pattern = {}, .content = {}}};
  const std::vector<AddedToken> names = {{.content = "AB", .id = 1, .normalized = true},
                                         {.content = "Ab", .id = 2, .special = true, .normalized = true},
                                         {.content = "aB", .id = 3, .special = true, .normalized = true}};
  std::vector<int32_t> ids;
  AddedTokens(names, true, lowercase)
      .Cut(
          "ab", [](std::string_view plain) { ADD_FAILURE() << plain; }, [&](int32_t id) { ids.push_back(id); });
  EXPECT_THAT(ids, ElementsAre(2));
}

}  // namespace
}  // namespace headscope::model
