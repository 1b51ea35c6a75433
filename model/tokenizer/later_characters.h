// SPDX-License-Identifier: Apache-2.0
// The characters that came after Unicode 14, which is as new as the PCRE2 of a host may be old, and that the tokenizers
// library knows.
#pragma once

#include <cstdint>
#include <span>

namespace headscope::model {

struct LaterCharacters {
  uint32_t first;
  uint32_t last;
  uint32_t older;  // a character of Unicode 14 that is in the same classes, of as many bytes in UTF-8
};

// Rising.
std::span<const LaterCharacters> AllLaterCharacters();

}  // namespace headscope::model
