// SPDX-License-Identifier: Apache-2.0
// How vocabularies over characters write their tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace headscope::model {

inline constexpr std::string_view kSpaceMark = "\u2581";  // what stands for a space

// No vocabulary over words needs a longer one, and looking for words takes time in proportion to it.
inline constexpr size_t kLongestWord = 512;  // bytes

// <0x41> and its like; -1 for any other text.
int ByteOfName(std::string_view name);

// The bytes that a token stands for.
std::string BytesOfCharacters(std::string_view text);

// Ids may have holes, but a number far beyond the tokens that there are is a mistake.
int64_t MostId(size_t tokens);

}  // namespace headscope::model
