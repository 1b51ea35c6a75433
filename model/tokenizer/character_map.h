// SPDX-License-Identifier: Apache-2.0
// A map of characters as SentencePiece compiles it into a model: texts of a few bytes, and what stands for them.
//
// Source: normalizer.cc of the sentencepiece library, and the double array of the darts-clone library, whose units are
// 32 bits each: a byte that leads there, whether a text ends there, and where the next units lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headscope::model {

class CharacterMap {
 public:
  // `blob` is the file's field, whole. nullopt where it is no map: a damaged one, or one whose texts would leave it.
  static std::optional<CharacterMap> Read(std::string_view blob);

  struct Match {
    size_t length = 0;         // bytes of the text that match; 0: none
    std::string_view becomes;  // may be empty
  };
  // Of the map's texts that `text` begins with, the longest, and the shortest.
  Match Longest(std::string_view text) const;
  Match Shortest(std::string_view text) const;

 private:
  template <typename Visit>
  void ForEachPrefix(std::string_view text, const Visit& visit) const;
  std::string_view TextAt(uint32_t place) const;
  std::vector<uint32_t> units_;
  std::string texts_;  // each ends with a zero
};

}  // namespace headscope::model
