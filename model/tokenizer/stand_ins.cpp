// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/stand_ins.h"

#include <algorithm>
#include <bitset>
#include <cstdint>

#include "tokenizer/later_characters.h"

namespace headscope::model {
namespace {

constexpr uint32_t kBlock = 64;  // characters
constexpr uint32_t kBlocks = 0x110000 / kBlock;

// The blocks of characters that have one of them, so that others need no search.
const std::bitset<kBlocks>& BlocksOfLaterOnes() {
  static const std::bitset<kBlocks> blocks = [] {
    std::bitset<kBlocks> found;
    for (const LaterCharacters& range : AllLaterCharacters())
      for (uint32_t block = range.first / kBlock; block <= range.last / kBlock; ++block) found.set(block);
    return found;
  }();
  return blocks;
}

// The one that stands for `code`; 0: itself.
uint32_t StandIn(uint32_t code) {
  const std::span<const LaterCharacters> all = AllLaterCharacters();
  const auto range = std::ranges::lower_bound(all, code, {}, &LaterCharacters::last);
  return range != all.end() && range->first <= code ? range->older : 0;
}

}  // namespace

std::optional<std::string> WithStandIns(std::string_view text) {
  const std::bitset<kBlocks>& blocks = BlocksOfLaterOnes();
  std::optional<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const auto lead = static_cast<unsigned char>(text[at]);
    if (lead < 0xE0) {  // all of them have three bytes or four
      at += lead < 0xC0 ? 1 : 2;
      continue;
    }
    const size_t length = lead < 0xF0 ? 3 : 4;
    uint32_t code = lead & (lead < 0xF0 ? 0x0FU : 0x07U);
    for (size_t i = 1; i < length; ++i) code = code << 6 | (static_cast<unsigned char>(text[at + i]) & 0x3FU);
    if (blocks.test(code / kBlock)) {
      if (uint32_t older = StandIn(code); older != 0) {
        if (!out) out.emplace(text);
        for (size_t i = length - 1; i > 0; --i, older >>= 6) (*out)[at + i] = static_cast<char>(0x80 | (older & 0x3F));
        (*out)[at] = static_cast<char>((length == 3 ? 0xE0 : 0xF0) | older);
      }
    }
    at += length;
  }
  return out;
}

}  // namespace headscope::model
