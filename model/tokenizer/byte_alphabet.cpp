// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/byte_alphabet.h"

#include <array>
#include <cstdint>

namespace headscope::model {
namespace {

constexpr int kLastCharacter = 0x143;  // 0x100 + 68 displaced bytes - 1

constexpr bool StandsForItself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
}

// Byte of each character of the alphabet, -1 for the characters in between.
constexpr std::array<int16_t, kLastCharacter + 1> MakeTable() {
  std::array<int16_t, kLastCharacter + 1> table{};
  table.fill(-1);
  size_t displaced = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    table[StandsForItself(byte) ? static_cast<size_t>(byte) : displaced++] = static_cast<int16_t>(byte);
  }
  return table;
}
constexpr auto kByteOf = MakeTable();
static_assert(kByteOf[kLastCharacter] == 0xAD, "the soft hyphen is the last displaced byte");

constexpr std::array<uint16_t, 256> MakeInverse() {
  std::array<uint16_t, 256> table{};
  for (size_t character = 0; character < kByteOf.size(); ++character) {
    if (kByteOf[character] >= 0) table[static_cast<size_t>(kByteOf[character])] = static_cast<uint16_t>(character);
  }
  return table;
}
constexpr auto kCharacterOf = MakeInverse();

}  // namespace

uint32_t CharacterOfByte(uint8_t byte) {
  return kCharacterOf[byte];
}

std::optional<std::string> BytesOfVocabularyText(std::string_view text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    // The alphabet needs one or two UTF-8 bytes per character.
    size_t character = static_cast<unsigned char>(text[i]);
    if (character >= 0x80) {
      if (character < 0xC2 || character > 0xC5 || i + 1 == text.size()) return std::nullopt;
      const auto next = static_cast<unsigned char>(text[++i]);
      if ((next & 0xC0) != 0x80) return std::nullopt;
      character = (character & 0x1F) << 6 | (next & 0x3FU);
    }
    if (character > kLastCharacter || kByteOf[character] < 0) return std::nullopt;
    bytes += static_cast<char>(kByteOf[character]);
  }
  return bytes;
}

}  // namespace headscope::model
