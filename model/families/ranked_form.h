// SPDX-License-Identifier: Apache-2.0
// What a family's own program adds to a file that lists tokens by rank (tokenizer/ranked_tokens.h): how a text is cut
// into words, which names stand behind the tokens and which of them go before a prompt.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/text_stages.h"

namespace headscope::model {

struct RankedForm {
  PublishedSplit split = PublishedSplit::kLlama3;
  bool composed = false;  // the text's normal form C is looked at, and names are looked for in it
  // Where the folder gives none. Null: no names. after_llama_3: Llama 3.1 and later, some of whose names differ.
  std::vector<std::string> (*names)(bool after_llama_3) = nullptr;
  std::array<std::string_view, 2> before = {};  // names that go before a prompt
  bool in_slices = false;                       // long texts are taken apart before (text_slices.h)
  // This many ids behind the tokens have names, <|reserved_token_ID|> where the folder gives none.
  int32_t reserved = 0;
};

// front + "7|>", front + "8|>" .. at the end of `names`.
inline void AddNumberedNames(std::string_view front, int first, int end, std::vector<std::string>* names) {
  for (int number = first; number < end; ++number)
    names->push_back(std::string(front).append(std::to_string(number)).append("|>"));
}

}  // namespace headscope::model
