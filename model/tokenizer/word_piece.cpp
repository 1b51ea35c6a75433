// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/word_piece.h"

#include <algorithm>

#include "tokenizer/unicode_text.h"

namespace headscope::model {

WordPiece::WordPiece(const TokenizerSpec& spec)
    : prefix_(spec.continuing_prefix), longest_word_(spec.longest_word), unknown_id_(spec.unknown_id) {
  words_.reserve(spec.words.count());
  spec.words.ForEach([&](int32_t id, std::string_view text) {
    words_.emplace(text, id);
    longest_ = std::max(longest_, text.size());
  });
}

void WordPiece::Encode(std::string_view piece, std::vector<int32_t>* ids) const {
  if (piece.empty()) return;
  std::vector<size_t> ends;  // of its characters; a byte that is no UTF-8 counts as one
  for (size_t at = 0; at < piece.size();) {
    at += std::max<size_t>(FrontCharacter(piece.substr(at)).length, 1);
    ends.push_back(at);
    if (ends.size() > longest_word_) {
      ids->push_back(unknown_id_);
      return;
    }
  }
  const size_t before = ids->size();
  std::string looked_for;
  size_t begin = 0, first = 0;  // the byte, and the character that begins there
  while (begin < piece.size()) {
    looked_for = begin == 0 ? "" : prefix_;
    const size_t prefix = looked_for.size();
    size_t last = ends.size();  // one past the last character tried
    while (last > first && ends[last - 1] - begin + prefix > longest_) --last;
    looked_for += piece.substr(begin, last > first ? ends[last - 1] - begin : 0);
    auto found = words_.end();
    for (; last > first; --last) {
      const std::string_view word = std::string_view(looked_for).substr(0, prefix + ends[last - 1] - begin);
      found = words_.find(word);
      if (found != words_.end()) break;
    }
    if (found == words_.end()) {
      ids->resize(before);
      ids->push_back(unknown_id_);
      return;
    }
    ids->push_back(found->second);
    begin = ends[last - 1];
    first = last;
  }
}

}  // namespace headscope::model
