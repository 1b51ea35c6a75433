// SPDX-License-Identifier: Apache-2.0
// Finds added tokens in text: the leftmost, and of those that begin there the longest.
//
// Method: an Aho-Corasick automaton of the tokens written backwards walks the text from its end. What it knows at a
// byte is the longest token that begins there, for every byte, in one pass; so time is in proportion to the text
// however alike the tokens begin, and where a forward search would look again after each match nothing is looked at
// twice. Memory: 13 bytes for each byte of the tokens, 8 for each place of a text where one begins.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace headscope::model {

class TokenFinder {
 public:
  // The number of each pattern is its place in the list; of equal ones the first is found. None may be empty.
  explicit TokenFinder(const std::vector<std::string_view>& patterns);

  struct Match {
    uint32_t pattern;
    uint32_t begin;
  };
  // Matches in order, none overlapping another. Throws std::invalid_argument for a text of 4 GiB.
  std::vector<Match> Find(std::string_view text) const;

 private:
  void MakeStates(const std::vector<std::string_view>& patterns);
  void MakeFallbacks();
  uint32_t Child(uint32_t state, unsigned char byte) const;  // 0: none
  uint32_t Step(uint32_t state, unsigned char byte) const;
  // By state, the root first and then the others by depth: so the states that one leads to lie side by side, from
  // children_[state] to children_[state + 1], in the order of the bytes that lead to them.
  std::vector<unsigned char> bytes_;  // that leads to the state
  std::vector<uint32_t> children_;
  std::vector<uint32_t> fallbacks_;    // the longest proper suffix that is a state
  std::vector<uint32_t> patterns_;     // one more than the longest pattern that is a suffix; 0: none
  std::array<uint32_t, 256> first_{};  // the root's children by byte
  std::vector<uint32_t> lengths_;      // of the patterns
};

}  // namespace headscope::model
