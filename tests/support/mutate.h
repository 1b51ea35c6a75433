// SPDX-License-Identifier: Apache-2.0
// Damage to a text, as a fuzzer would do it, and the same in every run.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>

#include "base/random.h"

namespace headscope {

// One to four edits: a byte, a piece that is taken out, doubled or put in, or the end cut off.
inline std::string Mutate(std::string text, Random* random) {
  const std::string_view splices[] = {"\"",    "{",
                                      "}",     "[",
                                      "]",     ",",
                                      ":",     "-1",
                                      "1e999", "18446744073709551615",
                                      "null",  "\\u0000",
                                      "\xff",  "9223372036854775807"};
  const size_t edits = 1 + random->Below(4);
  for (size_t i = 0; i < edits && !text.empty(); ++i) {
    const size_t at = random->Below(text.size());
    const size_t length = std::min(text.size() - at, 1 + random->Below(24));
    switch (random->Below(5)) {
      case 0:
        text[at] = static_cast<char>(random->Next());
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, splices[random->Below(std::size(splices))]);
        break;
      case 3:
        text.insert(random->Below(text.size()), text.substr(at, length));
        break;
      default:
        text.resize(at);
    }
  }
  return text;
}

}  // namespace headscope
