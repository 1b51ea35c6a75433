// SPDX-License-Identifier: Apache-2.0
// What a tokenizer does to text before it looks for words: Unicode normal forms, letter case, white space.
//
// Source: the normalizers of the tokenizers library, whose results the tests compare with. Normal forms and letter case
// come from utf8proc; its tables are of a newer Unicode than that library's, which differ in a few letters that newer
// scripts brought.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace headscope::model {

struct NormalizerStep {
  enum class Kind : uint8_t {
    kNfc,
    kNfd,
    kNfkc,
    kNfkd,
    kLowercase,
    kStrip,
    kReplace,
    kPrepend,
    kStripMarks,
    kStripAccents,
    kClean,
    kSpaceChinese
  };
  // kStripMarks: all of Unicode's marks go; kStripAccents: those without a width of their own; kClean: control
  // characters go, and every white space is a space.
  Kind kind = Kind::kNfc;
  bool strip_left = true, strip_right = true;
  std::string pattern;  // replace: the text that goes, taken literally
  std::string content;  // replace, prepend: the text that comes
};

// Bytes that are not UTF-8 stay as they are. Time and memory in proportion to the text. Throws BadInputError when the
// steps make a text more than 32 times as long, which no normal form does.
std::string Normalize(std::string_view text, const std::vector<NormalizerStep>& steps);

}  // namespace headscope::model
