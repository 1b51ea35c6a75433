// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/piece_encoder.h"

#include <stdexcept>

#include "tokenizer/bpe.h"
#include "tokenizer/unigram.h"
#include "tokenizer/word_level.h"
#include "tokenizer/word_piece.h"

namespace headscope::model {

std::unique_ptr<PieceEncoder> MakePieceEncoder(const TokenizerSpec& spec) {
  switch (spec.kind) {
    case TokenKind::kBytePairs:
      return std::make_unique<BytePairMerger>(spec);
    case TokenKind::kWordPiece:
      return std::make_unique<WordPiece>(spec);
    case TokenKind::kWordLevel:
      return std::make_unique<WordLevel>(spec);
    case TokenKind::kUnigram:
      return std::make_unique<Unigram>(spec);
  }
  throw std::logic_error("a kind of tokens without a case");
}

}  // namespace headscope::model
