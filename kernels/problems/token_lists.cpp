// SPDX-License-Identifier: Apache-2.0
#include "kernels/token_lists.h"

#include <algorithm>
#include <numeric>

#include "problems/counter_random.h"

namespace headscope::kernels {

std::vector<int32_t> MakeTokenLists(const TokenListShape& shape) {
  const auto length = static_cast<size_t>(shape.length);
  std::vector<int32_t> lists(static_cast<size_t>(shape.num_queries) * length, -1);
  std::vector<uint8_t> listed(static_cast<size_t>(shape.first_position) + static_cast<size_t>(shape.num_queries), 0);
  std::vector<int32_t> list;
  uint64_t drawn = 0;
  const auto below = [&](int32_t range) {
    return static_cast<int32_t>(problems::RandomBelow(shape.seed, drawn++, static_cast<uint32_t>(range)));
  };
  for (int32_t t = 0; t < shape.num_queries; ++t) {
    const int32_t newest = shape.first_position + t;
    int32_t* const out = lists.data() + static_cast<size_t>(t) * length;
    if (newest < shape.length) {
      std::iota(out, out + newest + 1, 0);
      continue;
    }
    const auto draw = [&](int32_t* place) {
      do *place = below(newest);
      while (listed[static_cast<size_t>(*place)] != 0);
      listed[static_cast<size_t>(*place)] = 1;
    };
    if (list.empty()) {
      list.assign(length, 0);
      for (size_t i = 1; i < length; ++i) draw(&list[i]);
    } else {
      constexpr int32_t kFine = 1 << 20;
      for (size_t i = 1; i < length; ++i) {
        if (below(kFine) < shape.shared * kFine) continue;
        listed[static_cast<size_t>(list[i])] = 0;
        draw(&list[i]);
      }
      listed[static_cast<size_t>(list[0])] = 0;
    }
    // The query's own token, first.
    list[0] = newest;
    listed[static_cast<size_t>(newest)] = 1;
    std::copy(list.begin(), list.end(), out);
  }
  return lists;
}

}  // namespace headscope::kernels
