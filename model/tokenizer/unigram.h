// SPDX-License-Identifier: Apache-2.0
// Unigram: of all ways to cut a piece into known tokens the one whose scores add up to the most. A character that no
// token stands for costs more than any token.
//
// Source: "Subword Regularization" (arXiv 1804.10959), section 3.2, and for ties and unknown characters the Unigram
// models of the tokenizers library, which adds scores in double precision, and of sentencepiece, in single. Method: the
// best cut up to each byte, from the shortest on (Viterbi), with the tokens in a trie. A token has at most
// spec.kLongestWord bytes, so the time is in proportion to the text.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/piece_encoder.h"
#include "tokenizer/tokenizer_spec.h"

namespace headscope::model {

// All known texts that another begins with. A node's children stand side by side.
class WordTrie {
 public:
  // Sorted texts without repeats and without an empty one.
  explicit WordTrie(const std::vector<std::pair<std::string_view, int32_t>>& sorted);
  // `visit(size_t length, int32_t id)`, the shortest first.
  template <typename Visit>
  void ForEachPrefix(std::string_view text, const Visit& visit) const {
    uint32_t at = 0;
    for (size_t length = 0; length < text.size(); ++length) {
      at = Child(at, static_cast<uint8_t>(text[length]));
      if (at == 0) return;
      if (nodes_[at].id >= 0) visit(length + 1, nodes_[at].id);
    }
  }
  int32_t Find(std::string_view text) const;  // -1: none

 private:
  struct Node {
    uint32_t first_child = 0;
    uint16_t num_children = 0;
    uint8_t byte = 0;
    int32_t id = -1;
  };
  uint32_t Child(uint32_t node, uint8_t byte) const;  // 0: none
  std::vector<Node> nodes_;                           // the first is the root
  std::array<uint32_t, 256> roots_{};                 // its children by their byte
};

class Unigram final : public PieceEncoder {
 public:
  explicit Unigram(const TokenizerSpec& spec);  // keeps views into it
  void Encode(std::string_view piece, std::vector<int32_t>* ids) const override;
  int64_t FewestTokens(size_t piece_bytes) const override;

 private:
  template <typename Score>
  void EncodeWith(std::string_view piece, std::vector<int32_t>* ids) const;
  void PutUnknown(std::string_view text, std::vector<int32_t>* ids) const;
  WordTrie trie_;
  std::vector<double> scores_;         // by id
  std::array<int32_t, 256> byte_ids_;  // -1: not spelled by bytes
  double unknown_score_ = 0;
  int32_t unknown_id_ = -1;
  bool in_single_precision_ = false;
  size_t longest_ = 1;
};

}  // namespace headscope::model
