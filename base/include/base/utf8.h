// SPDX-License-Identifier: Apache-2.0
// Where characters begin in UTF-8, for text that is cut to a length.
#pragma once

namespace headscope {

// Whether a byte goes on with a character that another has begun, as those of the form 10xxxxxx do: what is cut in
// front of one is cut within a character.
constexpr bool IsInsideCharacter(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

}  // namespace headscope
