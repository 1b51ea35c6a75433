// SPDX-License-Identifier: Apache-2.0
// Cuts text at what a pattern matches: a regular expression with Unicode classes, one of bytes, or a literal text.
//
// The text is looked through for bytes that are not UTF-8 once; the expression sees the valid stretches between, one by
// one, without another look. Such bytes match nothing, so they come out as parts of their own and no byte is lost.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace headscope::model {

class Splitter {
 public:
  enum class Pattern : uint8_t {
    kCharacters,  // PCRE2 with Unicode properties, of the tokenizers library's Unicode
    kBytes,       // PCRE2 to which each byte is a character, valid UTF-8 or not
    kLiteral
  };
  // Throws std::invalid_argument if the expression does not compile.
  explicit Splitter(const std::string& pattern, Pattern kind = Pattern::kCharacters);

  // Matches and the stretches between them, in order, as views into `text`. Thread-safe. Throws BadInputError when the
  // expression needs more steps than a split of words ever does.
  using Visit = std::function<void(std::string_view part, bool matches)>;
  void ForEachPart(std::string_view text, const Visit& visit) const;

 private:
  void SplitByExpression(std::string_view text, const Visit& visit) const;
  void SplitLiteral(std::string_view text, const Visit& visit) const;
  struct Free {
    void operator()(void* code) const;
  };
  std::unique_ptr<void, Free> code_;  // pcre2_code
  Pattern kind_;
  bool has_classes_ = false;  // of characters, by their properties
  std::string literal_;
};

}  // namespace headscope::model
