// SPDX-License-Identifier: Apache-2.0
// The scripts of characters, as the tokenizers library tells them apart: those of Unicode 9, with Han, Hiragana and
// Katakana as one. A host's Unicode is newer, and has moved characters from one script to another.
#pragma once

#include <cstdint>
#include <span>

namespace headscope::model {

struct ScriptRange {
  uint32_t first;
  uint32_t last;
  int script;
};

inline constexpr int kCommonScript = 0;  // punctuation and digits, which the first range begins with

// Rising. What is in no range is of any script.
std::span<const ScriptRange> ScriptRanges();

}  // namespace headscope::model
