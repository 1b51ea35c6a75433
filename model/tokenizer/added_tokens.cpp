// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/added_tokens.h"

#include <algorithm>

#include "tokenizer/unicode_text.h"

namespace headscope::model {

AddedTokens::AddedTokens(const std::vector<AddedToken>& tokens, bool normalized,
                         const std::vector<NormalizerStep>& steps)
    : rules_(MakeRules(tokens, normalized, steps)),
      finder_([&] {
        std::vector<std::string_view> names;
        for (const Rule& rule : rules_) names.emplace_back(rule.name);
        return TokenFinder(names);
      }()),
      word_(R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}])") {}

std::vector<AddedTokens::Rule> AddedTokens::MakeRules(const std::vector<AddedToken>& tokens, bool normalized,
                                                      const std::vector<NormalizerStep>& steps) {
  std::vector<Rule> rules;
  // Of names that are one when they are normalized the first is found; that library has special tokens before others.
  for (const bool special : {true, false}) {
    for (const AddedToken& token : tokens) {
      if (token.normalized != normalized || token.special != special) continue;
      bool at_start = false;
      rules.push_back({normalized && !token.as_normalized ? Normalize(token.content, steps, &at_start) : token.content,
                       token.id, token.single_word, token.lstrip, token.rstrip});
      if (rules.back().name.empty()) rules.pop_back();  // white space that is stripped: nothing to find
    }
  }
  return rules;
}

bool AddedTokens::StandsAlone(std::string_view text, size_t begin, size_t end) const {
  const auto is_word = [&](std::string_view character) {
    bool found = false;
    word_.ForEachPart(character, [&](std::string_view, bool matches) { found = found || matches; });
    return found;
  };
  const std::string_view before = text.substr(0, begin);
  const std::string_view after = text.substr(end);
  return !is_word(before.substr(before.size() - BackCharacter(before).length)) &&
         !is_word(after.substr(0, FrontCharacter(after).length));
}

void AddedTokens::Cut(std::string_view text, const std::function<void(std::string_view)>& plain,
                      const std::function<void(int32_t)>& token) const {
  size_t done = 0;
  for (const TokenFinder::Match& match : finder_.Find(text)) {
    const Rule& rule = rules_[match.pattern];
    size_t begin = match.begin;
    size_t end = begin + rule.name.size();
    if (rule.single_word && !StandsAlone(text, begin, end)) continue;
    if (rule.rstrip) end += WhiteSpaceAtFront(text.substr(end));
    if (rule.lstrip) {
      // White space that an earlier token took is not taken again, and a name that is nothing else goes with it.
      if (end <= done) continue;
      begin = begin > done ? begin - WhiteSpaceAtBack(text.substr(done, begin - done)) : done;
    }
    if (begin > done) plain(text.substr(done, begin - done));
    token(rule.id);
    done = end;
  }
  if (done < text.size()) plain(text.substr(done));
}

}  // namespace headscope::model
