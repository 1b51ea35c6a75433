// SPDX-License-Identifier: Apache-2.0
#include "tasks/random_text.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

namespace headscope::eval {

std::string Digits(Random* random, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += static_cast<char>('0' + random->Below(10));
  return text;
}

std::string Capitals(Random* random, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += static_cast<char>('A' + random->Below(26));
  return text;
}

std::string Word(Random* random, size_t syllables) {
  constexpr std::string_view kConsonants = "bdfgklmnprstvz", kVowels = "aeiou";
  std::string text;
  for (size_t i = 0; i < syllables; ++i) {
    text += kConsonants[random->Below(kConsonants.size())];
    text += kVowels[random->Below(kVowels.size())];
  }
  return text;
}

std::vector<size_t> Choose(Random* random, size_t bound, size_t count) {
  count = std::min(count, bound);
  std::vector<size_t> numbers(bound);
  std::iota(numbers.begin(), numbers.end(), size_t{0});
  for (size_t i = 0; i < count; ++i) std::swap(numbers[i], numbers[i + random->Below(bound - i)]);
  numbers.resize(count);
  return numbers;
}

}  // namespace headscope::eval
