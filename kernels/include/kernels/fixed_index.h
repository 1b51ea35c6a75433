// SPDX-License-Identifier: Apache-2.0
// Index sets that depend on a seed and a shape alone: what executors are timed on, here and elsewhere, so that a figure
// speaks of the executor and not of a selector's taste.
//
// Names and what they keep of a causal prompt (rows in tiles of 128):
//   dense                      everything
//   blocks-P                   128 x 128 blocks: the diagonal, and (100 - P) % of those left of it, by chance per head
//   vertical-slash-CxB         C columns by chance per head, and a band of B keys up to the tile's diagonal block
//   a-shape-N+W                the first N keys and the newest W
//   s2-lLvV                    blocks of 64: the newest L of a row block, and every V-th, shifted by one from head to
//                              head (S2-Attention's pattern, its closed form)
// Runs that a kernel can use whole start and end at multiples of 64; the lists of a head share its columns.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/sparse_index.h"
#include "kernels/status.h"

namespace headscope::kernels {

struct FixedSet {
  enum class Pattern : uint8_t { kDense, kBlocks, kVerticalSlash, kAShape, kS2 };
  Pattern pattern = Pattern::kDense;
  int32_t first = 0;   // P, C, N or L
  int32_t second = 0;  // B, W or V
};

// Errors: kInvalidArgument with the known forms, or the number that is out of range.
Status ParseFixedSet(std::string_view name, FixedSet* set);
std::string NameOf(const FixedSet& set);

// A valid index of `batch` prompts of seq_len tokens. Cost: linear in what it holds, one thread.
SparseIndex MakeFixedIndex(const FixedSet& set, int32_t batch, int32_t num_qo_heads, int32_t seq_len, uint64_t seed);

}  // namespace headscope::kernels
