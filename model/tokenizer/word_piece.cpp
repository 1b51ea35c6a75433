// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/word_piece.h"

#include <algorithm>
#include <utility>

#include "tokenizer/unicode_text.h"

namespace headscope::model {

WordPiece::WordPiece(const TokenizerSpec& spec) : longest_word_(spec.longest_word), unknown_id_(spec.unknown_id) {
  const std::string_view prefix = spec.continuing_prefix;
  std::vector<std::pair<std::string_view, int32_t>> beginnings, continuations;
  beginnings.reserve(spec.words.count());
  spec.words.ForEach([&](int32_t id, std::string_view text) {
    if (text.empty()) return;
    beginnings.emplace_back(text, id);
    if (text.size() > prefix.size() && text.starts_with(prefix))
      continuations.emplace_back(text.substr(prefix.size()), id);
  });
  beginnings_ = WordTree(std::move(beginnings));
  continuations_ = WordTree(std::move(continuations));
}

void WordPiece::Encode(std::string_view piece, std::vector<int32_t>* ids) const {
  if (piece.empty()) return;
  size_t characters = 0;  // a byte that is no UTF-8 counts as one
  for (size_t at = 0; at < piece.size(); ++characters) {
    if (characters == longest_word_) {
      ids->push_back(unknown_id_);
      return;
    }
    at += std::max<size_t>(FrontCharacter(piece.substr(at)).length, 1);
  }
  const size_t before = ids->size();
  // What is known is UTF-8 and so ends where a character of the word does.
  for (size_t begin = 0; begin < piece.size();) {
    const WordTree::Match found = (begin == 0 ? beginnings_ : continuations_).Longest(piece.substr(begin));
    if (found.bytes == 0) {
      ids->resize(before);
      ids->push_back(unknown_id_);
      return;
    }
    ids->push_back(found.id);
    begin += found.bytes;
  }
}

}  // namespace headscope::model
