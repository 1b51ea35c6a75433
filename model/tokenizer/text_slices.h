// SPDX-License-Identifier: Apache-2.0
// How the programs of Llama 3 and Kimi K2 take a long text apart before they look at it: at every 400,000th character,
// and within these parts where more than 25,000 characters without white space, or of white space alone, follow each
// other. Each slice is read by itself, so neither a word nor a name goes on past its end. Sources: llama/tokenizer.py
// of Meta's releases 3 and 3.1 and tokenization_kimi.py of Kimi K2, which were published with the weights.
#pragma once

#include <functional>
#include <string_view>

namespace headscope::model {

// The slices of `text` in order, which together are the text; none where it is empty. White space is what Python's
// str.isspace() says: White_Space and the four separators U+001C to U+001F. A byte that is not UTF-8 counts as a
// character. Takes time in proportion to the text.
void ForEachSlice(std::string_view text, const std::function<void(std::string_view slice)>& visit);

}  // namespace headscope::model
