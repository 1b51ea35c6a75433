// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/unicode_text.h"

#if !__has_include(<utf8proc.h>)
#error "utf8proc is missing: scripts/install-deps installs it (libutf8proc-dev)"
#endif
#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "model/tokenizer.h"

namespace headscope::model {
namespace {

constexpr size_t kLongestCharacter = 4;

const utf8proc_uint8_t* Bytes(std::string_view text) {
  return reinterpret_cast<const utf8proc_uint8_t*>(text.data());
}

}  // namespace

Character FrontCharacter(std::string_view text) {
  if (text.empty()) return {};
  if (static_cast<unsigned char>(text.front()) < 0x80) return {static_cast<unsigned char>(text.front()), 1};
  utf8proc_int32_t code = 0;
  const auto seen = static_cast<utf8proc_ssize_t>(std::min(text.size(), kLongestCharacter));
  const utf8proc_ssize_t length = utf8proc_iterate(Bytes(text), seen, &code);
  if (length <= 0) return {};
  return {static_cast<uint32_t>(code), static_cast<size_t>(length)};
}

Character BackCharacter(std::string_view text) {
  for (size_t length = 1; length <= std::min(text.size(), kLongestCharacter); ++length) {
    const Character found = FrontCharacter(text.substr(text.size() - length));
    if (found.length == length) return found;
  }
  return {};
}

void AppendCharacter(uint32_t code, std::string* text) {
  std::array<utf8proc_uint8_t, kLongestCharacter> bytes{};
  const utf8proc_ssize_t length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes.data());
  text->append(reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(length));
}

bool IsWhiteSpace(uint32_t code) {
  return (code >= 0x09 && code <= 0x0D) || code == 0x20 || code == 0x85 || code == 0xA0 || code == 0x1680 ||
         (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F ||
         code == 0x3000;
}

size_t WhiteSpaceAtFront(std::string_view text) {
  size_t at = 0;
  for (Character c = FrontCharacter(text); c.length > 0 && IsWhiteSpace(c.code); c = FrontCharacter(text.substr(at)))
    at += c.length;
  return at;
}

size_t WhiteSpaceAtBack(std::string_view text) {
  std::string_view left = text;
  for (Character c = BackCharacter(left); c.length > 0 && IsWhiteSpace(c.code); c = BackCharacter(left))
    left.remove_suffix(c.length);
  return text.size() - left.size();
}

size_t Utf8Length(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t length = FrontCharacter(text.substr(at)).length;
    if (length == 0) break;
    at += length;
  }
  return at;
}

size_t InvalidAtFront(std::string_view text) {
  size_t at = 0;
  while (at < text.size() && FrontCharacter(text.substr(at)).length == 0) ++at;
  return at;
}

}  // namespace headscope::model
