// SPDX-License-Identifier: Apache-2.0
// Cuts text into the pieces that BPE works on: the steps of a tokenizer's pre-tokenizer, one after the other.
//
// Source: the pre-tokenizers of the tokenizers library (Split, Digits, Metaspace, ByteLevel, UnicodeScripts) and what
// its split behaviours mean.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/splitter.h"

namespace headscope::model {

// What becomes of the parts that a pattern matches.
enum class SplitBehavior : uint8_t {
  kIsolated,            // each is a piece
  kRemoved,             // they are left out
  kMergedWithPrevious,  // each joins the piece before it, unless that is one of them
  kMergedWithNext,      // likewise with the piece after it
  kContiguous           // neighbours among them are one piece
};

struct PreTokenizerStep {
  enum class Kind : uint8_t {
    kSplit,
    kPrefixSpace,  // a space goes before a piece that has none there
    kMetaspace,    // spaces become another character, which also goes before the text
    kScripts       // pieces of one script each (script_runs.h)
  };
  enum class Prefix : uint8_t { kAlways, kFirst, kNever };
  Kind kind = Kind::kSplit;
  std::string pattern;  // split: PCRE2, or a text taken literally; metaspace: what a space becomes
  Splitter::Pattern reads = Splitter::Pattern::kCharacters;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool cuts = false;               // metaspace: each of its marks begins a piece
  bool invert = false;             // what the pattern does not match counts as its matches
  Prefix prefix = Prefix::kNever;  // metaspace: before which pieces; kFirst: that at the beginning of the whole text
};

class PreTokenizer {
 public:
  // Throws std::invalid_argument for a pattern that does not compile.
  explicit PreTokenizer(const std::vector<PreTokenizerStep>& steps);
  // The pieces of `text` in order; a view is valid during the call. `first`: the whole text begins here. Thread-safe.
  using Visit = std::function<void(std::string_view piece)>;
  void ForEachPiece(std::string_view text, bool first, const Visit& visit) const;

 private:
  void Run(size_t step, std::string_view text, bool first, const Visit& visit) const;
  std::vector<PreTokenizerStep> steps_;
  std::vector<Splitter> splitters_;  // by step; other kinds' places are not used
};

}  // namespace headscope::model
