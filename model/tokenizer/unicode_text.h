// SPDX-License-Identifier: Apache-2.0
// UTF-8 as tokenizers look at it, over text that may hold any bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace headscope::model {

// The character at the front of `text`, and its bytes; length 0 where `text` is empty or does not begin with UTF-8.
struct Character {
  uint32_t code = 0;
  size_t length = 0;
};
Character FrontCharacter(std::string_view text);
Character BackCharacter(std::string_view text);

void AppendCharacter(uint32_t code, std::string* text);

// The property White_Space.
bool IsWhiteSpace(uint32_t code);

// Bytes of white space at the front, and at the back, of `text`.
size_t WhiteSpaceAtFront(std::string_view text);
size_t WhiteSpaceAtBack(std::string_view text);

// Length of what is not valid UTF-8 at the front of `text`; Utf8Length (model/tokenizer.h) is that of what is.
size_t InvalidAtFront(std::string_view text);

}  // namespace headscope::model
