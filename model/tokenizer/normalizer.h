// SPDX-License-Identifier: Apache-2.0
// What a tokenizer does to text before it looks for words: Unicode normal forms, letter case, white space.
//
// Source: the normalizers of the tokenizers library, whose results the tests compare with. Normal forms and letter case
// come from utf8proc, but for the characters that are of another Unicode there (library_characters.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/character_map.h"
#include "tokenizer/splitter.h"
#include "tokenizer/token_finder.h"

namespace headscope::model {

// What SentencePiece does to a text, in one step: characters by its map, white space joined, a mark for every space.
struct SentencePieceRules {
  std::shared_ptr<const CharacterMap> map;    // null: none
  bool joins_spaces = false;                  // those at the ends go, and of neighbours all but one
  bool dummy_prefix = true;                   // a mark before the text
  std::vector<std::string> whole;             // pieces that the map leaves as they are
  std::shared_ptr<const TokenFinder> finder;  // of them; null: none
};

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
    kSpaceChinese,
    kNmt,
    kCharacterMap,
    kSentencePiece,
    kByteLevel
  };
  // kStripMarks: all of Unicode's marks go; kStripAccents: those without a width of their own; kClean: control
  // characters go, and every white space is a space; kNmt: some of both; kByteLevel: a character of the byte-level
  // alphabet for every byte.
  Kind kind = Kind::kNfc;
  bool strip_left = true, strip_right = true;
  std::string pattern;                                        // replace: the text that goes, taken literally
  std::string content;                                        // replace, prepend: the text that comes
  std::shared_ptr<const Splitter> expression = nullptr;       // replace: what it matches goes, in place of `pattern`
  std::shared_ptr<const CharacterMap> map = nullptr;          // kCharacterMap
  std::shared_ptr<const SentencePieceRules> rules = nullptr;  // kSentencePiece
};

// Bytes that are not UTF-8 stay as they are. Time and memory in proportion to the text. Throws BadInputError when the
// steps make a text more than 32 times as long, which no normal form does. `at_start`: that the whole
// text begins here; false afterwards if a step took the front of it away, as the tokenizers library sees it.
std::string Normalize(std::string_view text, const std::vector<NormalizerStep>& steps, bool* at_start);

}  // namespace headscope::model
