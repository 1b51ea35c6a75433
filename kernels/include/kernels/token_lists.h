// SPDX-License-Identifier: Apache-2.0
// Lists of chosen tokens to time attention by, as indexers draw them: each query's for all its heads, and neighbouring
// queries with most of theirs in common.
#pragma once

#include <cstdint>
#include <vector>

namespace headscope::kernels {

struct TokenListShape {
  int32_t num_queries = 0;
  int32_t first_position = 0;  // of the first query: query t sees tokens 0 to first_position + t
  int32_t length = 0;          // of a list
  double shared = 0.9;         // share of its tokens that a query has from the one before, on average
  uint64_t seed = 1;
};

// [num_queries, length]: a query that sees no more than `length` tokens has all of them in order and -1 behind; another
// has its own token and others that are drawn with equal chances, none twice, in no order. The same on every machine.
std::vector<int32_t> MakeTokenLists(const TokenListShape& shape);

}  // namespace headscope::kernels
