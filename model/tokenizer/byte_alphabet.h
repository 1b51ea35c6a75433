// SPDX-License-Identifier: Apache-2.0
// The byte-level alphabet: 256 printable characters that stand for the 256 bytes in a vocabulary's text.
//
// Bytes 21-7E, A1-AC and AE-FF stand for themselves (as Latin-1); the other 68, in order, are U+0100, U+0101, ...
// Source: bytes_to_unicode of OpenAI's GPT-2 encoder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace headscope::model {

// The bytes that a vocabulary entry stands for; nullopt when it holds a character outside the alphabet (or is not
// UTF-8).
std::optional<std::string> BytesOfVocabularyText(std::string_view text);

// The character that stands for a byte.
uint32_t CharacterOfByte(uint8_t byte);

}  // namespace headscope::model
