// SPDX-License-Identifier: Apache-2.0
// WordLevel: a piece is a word of the vocabulary, or unknown.
//
// Source: the WordLevel model of the tokenizers library.
#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/piece_encoder.h"
#include "tokenizer/seeded_hash.h"
#include "tokenizer/tokenizer_spec.h"

namespace headscope::model {

class WordLevel final : public PieceEncoder {
 public:
  explicit WordLevel(const TokenizerSpec& spec) : unknown_id_(spec.unknown_id) {  // keeps views into it
    words_.reserve(spec.words.count());
    spec.words.ForEach([&](int32_t id, std::string_view text) { words_.emplace(text, id); });
  }
  void Encode(std::string_view piece, std::vector<int32_t>* ids) const override {
    if (piece.empty()) return;
    const auto found = words_.find(piece);
    ids->push_back(found == words_.end() ? unknown_id_ : found->second);
  }
  int64_t FewestTokens(size_t) const override { return 1; }

 private:
  std::unordered_map<std::string_view, int32_t, SeededHash> words_;
  int32_t unknown_id_ = 0;
};

}  // namespace headscope::model
