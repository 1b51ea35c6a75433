// SPDX-License-Identifier: Apache-2.0
#include "analysis/types/printable.h"

#include <cstdint>

#include "analysis/types/number_text.h"

namespace headscope::analysis {
namespace {

struct Decoded {
  uint32_t character = 0;
  size_t bytes = 0;  // 0: what begins here is no UTF-8
};

// The character at the beginning of `text`, which is not empty: the shortest form, no surrogates, up to U+10FFFF.
Decoded Decode(std::string_view text) {
  const auto first = static_cast<uint8_t>(text[0]);
  if (first < 0x80) return {first, 1};
  const size_t bytes = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
  if (bytes == 0 || text.size() < bytes) return {};
  uint32_t character = first & (0xFFU >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<uint8_t>(text[i]);
    if ((next & 0xC0U) != 0x80) return {};
    character = character << 6 | (next & 0x3FU);
  }
  const uint32_t least = bytes == 2 ? 0x80 : bytes == 3 ? 0x800 : 0x10000;
  if (character < least || character > 0x10FFFF || (character >= 0xD800 && character <= 0xDFFF)) return {};
  return {character, bytes};
}

struct Range {
  uint32_t first, last;
};

// Beyond ASCII: C1 controls, line and paragraph separators, what turns the direction of writing, what is invisible and
// may make two names look like one. Joiners (U+200C, U+200D) and variation selectors belong to ordinary writing.
constexpr Range kShapeless[] = {{0x80, 0x9F},     {0xAD, 0xAD},     {0x61C, 0x61C},    {0x180E, 0x180E},
                                {0x200B, 0x200B}, {0x200E, 0x200F}, {0x2028, 0x202E},  {0x2060, 0x206F},
                                {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB}, {0xE0000, 0xE007F}};

bool Shapeless(uint32_t character) {
  for (const Range& range : kShapeless) {
    if (character >= range.first && character <= range.last) return true;
  }
  return false;
}

// As JSON writes it: beyond 16 bits as two halves.
void AppendCodePoint(std::string* out, uint32_t character) {
  if (character > 0xFFFF) {
    out->append(Format("\\u%04x\\u%04x", 0xD800U + ((character - 0x10000U) >> 10),
                       0xDC00U + ((character - 0x10000U) & 0x3FFU)));
  } else {
    out->append(Format("\\u%04x", character));
  }
}

enum class Form { kLine, kLines, kJson };

std::string Escape(std::string_view text, Form form) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Decoded decoded = Decode(text);
    const size_t bytes = decoded.bytes == 0 ? 1 : decoded.bytes;
    const uint32_t character = decoded.bytes == 0 ? static_cast<uint8_t>(text[0]) : decoded.character;
    const bool space = character == '\n' || character == '\t';
    if (decoded.bytes == 0) {
      if (form == Form::kJson) {
        out.append("\\ufffd");
      } else {
        out.append(Format("\\x%02x", character));
      }
    } else if (space && form != Form::kLine) {
      out.push_back(text[0]);
    } else if (space) {
      out.append(character == '\n' ? "\\n" : "\\t");
    } else if (form == Form::kJson ? character == 0x7F || Shapeless(character) : Shapeless(character)) {
      AppendCodePoint(&out, character);
    } else if (form != Form::kJson && (character < 0x20 || character == 0x7F)) {
      out.append(Format("\\x%02x", character));
    } else {
      out.append(text.substr(0, bytes));
    }
    text.remove_prefix(bytes);
  }
  return out;
}

}  // namespace

std::string Printable(std::string_view text) {
  return Escape(text, Form::kLine);
}

std::string PrintableLines(std::string_view text) {
  return Escape(text, Form::kLines);
}

std::string PrintableJson(std::string_view document) {
  return Escape(document, Form::kJson);
}

}  // namespace headscope::analysis
