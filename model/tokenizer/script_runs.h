// SPDX-License-Identifier: Apache-2.0
// Cuts text where its script changes.
//
// Source: the pre-tokenizer UnicodeScripts of the tokenizers library. Han, Hiragana and Katakana are one script, with
// the long vowel mark; a space, and what Unicode has no script for, belongs to the run before it, and at the front of a
// text to none: there it is left out. Bytes that are not UTF-8 count as signs of all scripts, as punctuation does.
#pragma once

#include <functional>
#include <string_view>

namespace headscope::model {

// The runs in order, as views into `text`. Thread-safe; time in proportion to the text.
void ForEachScriptRun(std::string_view text, const std::function<void(std::string_view run)>& visit);

}  // namespace headscope::model
