// SPDX-License-Identifier: Apache-2.0
// How messages quote what somebody gave or a file holds: the one way, so that no sentence can be misread. A text that
// is not understood is quoted; what is known for what it is, such as a path, a number or a registered name, is not.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace headscope {

// In double quotes. Quotes, backslashes and control characters in it are escaped (\", \\, \n, \x1b); of a longer text
// the first `most_bytes`, or a few fewer where a character would be cut, and dots behind the quotes.
std::string Quoted(std::string_view text, size_t most_bytes = 100);

}  // namespace headscope
