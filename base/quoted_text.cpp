// SPDX-License-Identifier: Apache-2.0
#include "base/quoted_text.h"

#include "base/utf8.h"

namespace headscope {
namespace {

void AppendEscaped(char character, std::string* out) {
  constexpr std::string_view kHex = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(character);
  if (character == '"' || character == '\\') {
    out->append(1, '\\').append(1, character);
  } else if (character == '\n') {
    out->append("\\n");
  } else if (character == '\t') {
    out->append("\\t");
  } else if (byte < 0x20 || byte == 0x7f) {
    out->append("\\x").append(1, kHex[byte >> 4]).append(1, kHex[byte & 15]);
  } else {
    out->append(1, character);
  }
}

}  // namespace

std::string Quoted(std::string_view text, size_t most_bytes) {
  const bool is_cut = text.size() > most_bytes;
  if (is_cut) {
    size_t end = most_bytes;
    while (end > 0 && most_bytes - end < 3 && IsInsideCharacter(text[end])) --end;
    text = text.substr(0, end);
  }
  std::string quoted = "\"";
  for (const char character : text) AppendEscaped(character, &quoted);
  return quoted.append(is_cut ? "\"..." : "\"");
}

}  // namespace headscope
