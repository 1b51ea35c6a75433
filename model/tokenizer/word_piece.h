// SPDX-License-Identifier: Apache-2.0
// WordPiece: a word is its longest known beginning, then the longest known continuation of that, and so on; a word with
// a stretch that nothing continues is unknown as a whole.
//
// Source: the WordPiece model of the tokenizers library. A word has at most spec.longest_word characters, longer ones
// are unknown, so the time is in proportion to the text.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/piece_encoder.h"
#include "tokenizer/seeded_hash.h"
#include "tokenizer/tokenizer_spec.h"

namespace headscope::model {

class WordPiece final : public PieceEncoder {
 public:
  explicit WordPiece(const TokenizerSpec& spec);  // keeps views into it
  void Encode(std::string_view piece, std::vector<int32_t>* ids) const override;
  int64_t FewestTokens(size_t) const override { return 1; }  // one unknown word may be as long as the text

 private:
  std::unordered_map<std::string_view, int32_t, SeededHash> words_;  // as they are written, prefix and all
  std::string prefix_;                                               // of continuations
  size_t longest_ = 0;                                               // bytes of a word that may be known
  size_t longest_word_ = 0;                                          // characters
  int32_t unknown_id_ = 0;
};

}  // namespace headscope::model
