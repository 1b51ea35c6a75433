// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/character_map.h"

#include <cstring>

namespace headscope::model {
namespace {

constexpr uint32_t kLeaf = 1U << 8;         // a text ends at the unit's children
constexpr uint32_t kFarOffset = 1U << 9;    // the offset counts in 256
constexpr uint32_t kValueBit = 1U << 31;    // the unit holds a value and no byte
constexpr size_t kLongestMapped = 1U << 8;  // bytes of a text; published maps have 20

uint32_t OffsetOf(uint32_t unit) {
  return (unit >> 10) << ((unit & kFarOffset) >> 6);
}

}  // namespace

std::optional<CharacterMap> CharacterMap::Read(std::string_view blob) {
  uint32_t trie_bytes = 0;
  if (blob.size() < sizeof trie_bytes) return std::nullopt;
  std::memcpy(&trie_bytes, blob.data(), sizeof trie_bytes);
  blob.remove_prefix(sizeof trie_bytes);
  if (trie_bytes > blob.size() || trie_bytes == 0 || trie_bytes % sizeof(uint32_t) != 0) return std::nullopt;
  CharacterMap map;
  map.units_.resize(trie_bytes / sizeof(uint32_t));
  std::memcpy(map.units_.data(), blob.data(), trie_bytes);
  map.texts_ = blob.substr(trie_bytes);
  if (map.texts_.empty() || map.texts_.back() != '\0') return std::nullopt;
  return map;
}

std::string_view CharacterMap::TextAt(uint32_t place) const {
  if (place >= texts_.size()) return {};
  return texts_.data() + place;  // up to its zero: the last byte is one
}

// Whatever the units say, each byte leads to one unit of the array or ends the search.
template <typename Visit>
void CharacterMap::ForEachPrefix(std::string_view text, const Visit& visit) const {
  size_t at = OffsetOf(units_.front());
  for (size_t i = 0; i < text.size() && i < kLongestMapped; ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    at ^= byte;
    if (byte == 0 || at >= units_.size()) return;
    const uint32_t unit = units_[at];
    if ((unit & (kValueBit | 0xFFU)) != byte) return;
    at ^= OffsetOf(unit);
    if (at >= units_.size()) return;
    if ((unit & kLeaf) != 0 && !visit(i + 1, units_[at] & ~kValueBit)) return;
  }
}

CharacterMap::Match CharacterMap::Longest(std::string_view text) const {
  Match match;
  ForEachPrefix(text, [&](size_t length, uint32_t place) {
    match = {length, TextAt(place)};
    return true;
  });
  return match;
}

CharacterMap::Match CharacterMap::Shortest(std::string_view text) const {
  Match match;
  ForEachPrefix(text, [&](size_t length, uint32_t place) {
    match = {length, TextAt(place)};
    return false;
  });
  return match;
}

}  // namespace headscope::model
