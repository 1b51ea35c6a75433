// SPDX-License-Identifier: Apache-2.0
// Byte-pair merging of one piece of text, which begins as its bytes or as its characters.
//
// Method: symbols in a linked list, the possible merges in a queue ordered by (rank, position); entries that a merge
// made stale are skipped when they come up. O(n log n) for a piece of n bytes, where rescanning for the best pair would
// be quadratic. The queue of a long piece has the positions of each rank together, so that merges of one rank go
// through memory from front to back: several times as fast as one heap where a word has a million bytes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tokenizer/piece_encoder.h"
#include "tokenizer/seeded_hash.h"
#include "tokenizer/tokenizer_spec.h"

namespace headscope::model {

// The merge rule of two tokens that stand side by side. 32 bytes a rule at most.
class MergeTable {
 public:
  explicit MergeTable(const std::vector<MergeRule>& merges);
  struct Merge {
    int32_t rank;
    int32_t id;
  };
  const Merge* Find(int32_t left, int32_t right) const;  // nullptr: none
  int32_t end_rank() const { return end_rank_; }         // above all ranks

 private:
  struct Slot {
    uint64_t pair;
    Merge merge;  // rank below 0: free
  };
  size_t SlotOf(uint64_t pair) const;  // where it is, or would be
  SeededHash hash_;
  int32_t end_rank_ = 0;
  std::vector<Slot> slots_;  // a power of two of them, at most half in use
};

class BytePairMerger final : public PieceEncoder {
 public:
  // Keeps views into spec.tokens and spec.words.
  explicit BytePairMerger(const TokenizerSpec& spec);
  void Encode(std::string_view piece, std::vector<int32_t>* ids) const override;
  size_t Independent(std::string_view piece) const override;
  int64_t FewestTokens(size_t piece_bytes) const override {
    return by_bytes_ && marked_.empty() ? static_cast<int64_t>(piece_bytes / longest_token_) : 0;
  }

 private:
  struct Symbol;
  class SymbolList;
  std::vector<Symbol> Symbols(std::string_view piece) const;
  template <typename Queue>
  void MergeAll(std::vector<Symbol>* symbols, Queue queue) const;
  void AddMarked(std::string_view piece, SymbolList* list) const;
  void AddUnmarked(std::string_view piece, SymbolList* list) const;
  std::array<int32_t, 256> byte_ids_;
  bool over_characters_;
  bool by_bytes_;
  bool joins_unknown_;
  int32_t unknown_id_;
  std::string prefix_;        // of what continues a piece
  std::string suffix_;        // of what ends it
  bool words_apart_ = false;  // no merge makes a token in which a space follows something else
  size_t longest_token_ = 1;  // bytes of a piece that one token stands for, at most
  std::vector<std::pair<uint32_t, int32_t>> character_ids_;
  MergeTable merges_;
  std::unordered_map<std::string_view, int32_t, SeededHash> whole_pieces_;  // filled only for ignore_merges
  std::unordered_map<std::string_view, int32_t, SeededHash> marked_;        // filled only with a prefix or a suffix
};

}  // namespace headscope::model
