// SPDX-License-Identifier: Apache-2.0
// Index patterns for the CUDA tests and benchmarks: legal SparseIndexes of every shape that the executors must take,
// also ones that the selectors would not make.
#pragma once

#include <cstdint>
#include <random>

#include "kernels/sparse_index.h"

namespace headscope::kernels::testing {

enum class Pattern {
  kDense,       // everything that the rule keeps
  kRandom,      // unaligned runs of any length, single columns between them
  kShortRuns,   // runs of 1 to 100 keys, full and partial
  kColumns,     // single columns alone
  kAllColumns,  // all that causality leaves, every key that all rows keep as a single column
  kHalves,      // runs that belong to one half of a tile's rows
  kHoles,       // short runs of either half or both next to each other, and keys between them that no list names
  kOneKey,      // one column per list, or one run of length 1
  kOverhang,    // partial runs over all keys, of either half or both, whatever their rows keep of them
  kSomeEmpty,   // every other list keeps nothing
  kEmpty,       // nothing at all
};
inline const char* NameOf(Pattern pattern) {
  constexpr const char* kNames[] = {"dense", "random",  "short_runs", "columns",    "all_columns", "halves",
                                    "holes", "one_key", "overhang",   "some_empty", "empty"};
  return kNames[static_cast<int>(pattern)];
}

struct ListShape {
  int32_t batch = 1;
  int32_t num_qo_heads = 1;
  int32_t seq_q = 0;
  int32_t seq_k = 0;
  int32_t first_position = 0;
  int32_t tile_rows = 128;
  ElementRule rule;
};

// Random, but legal: Validate() accepts it.
SparseIndex MakeLists(const ListShape& shape, Pattern pattern, uint32_t seed);

}  // namespace headscope::kernels::testing
