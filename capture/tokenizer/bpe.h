// Byte-pair merging of one piece of text.
//
// Method: symbols in a linked list, the possible merges in a heap ordered by (rank, position); entries that a merge
// made stale are skipped when they come up. O(n log n) for a piece of n bytes, where rescanning for the best pair would
// be quadratic.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/tokenizer_spec.h"

namespace headscope::capture {

class BytePairMerger {
 public:
  explicit BytePairMerger(const TokenizerSpec& spec);
  // Appends the ids of `piece` (any bytes).
  void Encode(std::string_view piece, std::vector<int32_t>* ids) const;

 private:
  struct Merge {
    int32_t rank;
    int32_t id;
  };
  const Merge* FindMerge(int32_t left, int32_t right) const;

  std::array<int32_t, 256> byte_ids_{};
  std::unordered_map<uint64_t, Merge> merges_;  // by (left id, right id)
  std::unordered_map<std::string_view, int32_t>
      whole_pieces_;  // filled only for ignore_merges; views into the spec's strings
};

}  // namespace headscope::capture
