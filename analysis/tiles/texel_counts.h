// SPDX-License-Identifier: Apache-2.0
// Pairs of one row of a tile's texels, counted by column.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "analysis/types/tile.h"

namespace headscope::analysis {

using TexelCounts = std::array<int64_t, kTileSize>;

// Adds the columns [begin, end) that lie in the tile; `first` is the tile's first column, 2^level wide each texel.
inline void AddColumns(int64_t begin, int64_t end, int64_t first, int32_t level, TexelCounts* counts) {
  end = std::min(end, first + (int64_t{kTileSize} << level));
  for (int64_t column = std::max(begin, first); column < end;) {
    const int64_t texel = (column - first) >> level;
    const int64_t texel_end = std::min(end, first + ((texel + 1) << level));
    (*counts)[static_cast<size_t>(texel)] += texel_end - column;
    column = texel_end;
  }
}

// Calls to(texel, from, until) for each texel between these edges that [begin, end) touches, with its columns of those.
template <typename To>
void ForTexels(const std::vector<int64_t>& edges, int64_t begin, int64_t end, const To& to) {
  begin = std::max(begin, edges.front());
  end = std::min(end, edges.back());
  if (begin >= end) return;
  auto texel = static_cast<size_t>(std::upper_bound(edges.begin(), edges.end(), begin) - edges.begin()) - 1;
  for (; texel + 1 < edges.size() && edges[texel] < end; ++texel) {
    const int64_t from = std::max(begin, edges[texel]), until = std::min(end, edges[texel + 1]);
    if (from < until) to(texel, from, until);
  }
}

}  // namespace headscope::analysis
