// SPDX-License-Identifier: Apache-2.0
// Added tokens: names such as <s> that are cut out of a text before its words are looked for.
//
// Source: the added vocabulary of the tokenizers library, in its order: those that are looked for in the text as it is
// given, then, in the normalized text between, the others, whose names are normalized as well.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/token_finder.h"
#include "tokenizer/tokenizer_spec.h"

namespace headscope::model {

class AddedTokens {
 public:
  // Of `tokens`, those with that value of `normalized`; their names are normalized when it is true.
  AddedTokens(const std::vector<AddedToken>& tokens, bool normalized, const std::vector<NormalizerStep>& steps);

  // `plain(std::string_view)` for the stretches between tokens and `token(int32_t id)` for each of them, in order.
  void Cut(std::string_view text, const std::function<void(std::string_view)>& plain,
           const std::function<void(int32_t)>& token) const;

 private:
  struct Rule {
    std::string name;
    int32_t id;
    bool single_word, lstrip, rstrip;
  };
  static std::vector<Rule> MakeRules(const std::vector<AddedToken>& tokens, bool normalized,
                                     const std::vector<NormalizerStep>& steps);
  bool StandsAlone(std::string_view text, size_t begin, size_t end) const;
  std::vector<Rule> rules_;
  TokenFinder finder_;
  Splitter word_;  // matches where a character can be part of a word
};

}  // namespace headscope::model
