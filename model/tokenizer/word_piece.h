// SPDX-License-Identifier: Apache-2.0
// WordPiece: a word is its longest known beginning, then the longest known continuation of that, and so on; a word with
// a stretch that nothing continues is unknown as a whole.
//
// Source: the WordPiece model of the tokenizers library. A word has at most spec.longest_word characters, longer ones
// are unknown, and a byte is compared at most as often as the longest entry of the vocabulary has bytes.
#pragma once

#include <string_view>
#include <vector>

#include "tokenizer/piece_encoder.h"
#include "tokenizer/tokenizer_spec.h"
#include "tokenizer/word_tree.h"

namespace headscope::model {

class WordPiece final : public PieceEncoder {
 public:
  explicit WordPiece(const TokenizerSpec& spec);  // keeps views into it
  void Encode(std::string_view piece, std::vector<int32_t>* ids) const override;
  int64_t FewestTokens(size_t) const override { return 1; }  // one unknown word may be as long as the text

 private:
  WordTree beginnings_;      // all words as they are written
  WordTree continuations_;   // those with the prefix, without it
  size_t longest_word_ = 0;  // characters
  int32_t unknown_id_ = 0;
};

}  // namespace headscope::model
