// SPDX-License-Identifier: Apache-2.0
// Lists of numbers as they are typed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace headscope {

// "0-9" or "0-3,7", of sorted numbers.
inline std::string NumberListText(const std::vector<int32_t>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t j = i;
    while (j + 1 < numbers.size() && numbers[j + 1] == numbers[j] + 1) ++j;
    text.append(text.empty() ? "" : ",").append(std::to_string(numbers[i]));
    if (j > i) text.append("-").append(std::to_string(numbers[j]));
    i = j + 1;
  }
  return text;
}

}  // namespace headscope
