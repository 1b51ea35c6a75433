// SPDX-License-Identifier: Apache-2.0
// The order in which a round runs its entries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace headscope::analysis {

// Each entry comes first, and each comes behind each other, in turn: the order of round `round` is that of the round
// before, moved on by one, and every other round runs backwards. The first of several works on processors that have
// just been woken, and finds in their caches what the last one left there.
inline std::vector<size_t> RoundOrder(int32_t round, size_t num_entries) {
  std::vector<size_t> order(num_entries);
  for (size_t i = 0; i < num_entries; ++i) {
    const size_t place = round % 2 == 0 ? i : num_entries - 1 - i;
    order[place] = (i + static_cast<size_t>(round / 2)) % num_entries;
  }
  return order;
}

}  // namespace headscope::analysis
