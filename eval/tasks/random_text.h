// SPDX-License-Identifier: Apache-2.0
// Random names and numbers that facts are made of.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"

namespace headscope::eval {

std::string Digits(Random* random, size_t count);
std::string Capitals(Random* random, size_t count);
std::string Word(Random* random, size_t syllables);  // of a consonant and a vowel each

// Draws until the drawn text is new.
template <typename Draw>
std::string Fresh(std::set<std::string>* used, const Draw& draw) {
  std::string drawn = draw();
  while (!used->insert(drawn).second) drawn = draw();
  return drawn;
}

// `count` different numbers below `bound`, or all of them where it is more, in random order.
std::vector<size_t> Choose(Random* random, size_t bound, size_t count);

}  // namespace headscope::eval
