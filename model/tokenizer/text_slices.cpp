// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/text_slices.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tokenizer/unicode_text.h"

namespace headscope::model {

void ForEachSlice(std::string_view text, const std::function<void(std::string_view slice)>& visit) {
  constexpr int64_t kLongestPart = 400'000, kLongestRun = 25'000;  // characters
  size_t begin = 0;
  int64_t of_part = 0, of_run = 0;
  bool run_is_space = false;
  for (size_t at = 0; at < text.size();) {
    const Character character = FrontCharacter(text.substr(at));
    const bool is_space =
        character.length > 0 && (IsWhiteSpace(character.code) || (character.code >= 0x1C && character.code <= 0x1F));
    const bool part_ends = of_part == kLongestPart;
    const bool run_goes_on = of_run > 0 && !part_ends && is_space == run_is_space;
    if (part_ends || (run_goes_on && of_run == kLongestRun)) {
      visit(text.substr(begin, at - begin));
      begin = at;
      of_run = 0;
    } else if (!run_goes_on) {
      of_run = 0;
    }
    if (part_ends) of_part = 0;
    run_is_space = is_space;
    ++of_run;
    ++of_part;
    at += std::max<size_t>(1, character.length);
  }
  if (begin < text.size()) visit(text.substr(begin));
}

}  // namespace headscope::model
