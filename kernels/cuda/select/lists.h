// SPDX-License-Identifier: Apache-2.0
// From picks to the lists of a SparseIndex, in one launch: a warp per list walks two bitmaps, what the upper and what
// the lower half of the tile's rows keep, and writes a run wherever their state changes; for vertical-slash, only at
// the tile's rows, and left of them it takes the head's picks in order, with two warps a list where lists are few
// (vertical_slash_lists.cu). The kept set is the one that SparseIndexBuilder makes of the same ranges and columns.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/sparse_index.h"
#include "select/probe.h"

namespace headscope::kernels::selection {

constexpr int32_t kTileRows = 128;
constexpr int32_t kHalfRows = kTileRows / 2;

// Where lists are written. List L's slots begin at L * run_capacity and L * column_capacity.
struct ListArrays {
  int64_t* run_begin = nullptr;
  int32_t* run_count = nullptr;
  int64_t* column_begin = nullptr;
  int32_t* column_count = nullptr;
  KeyRun* runs = nullptr;
  int32_t* columns = nullptr;
  int32_t run_capacity = 0;
  int32_t column_capacity = 0;
};

struct ListShape {
  int32_t batch = 1;
  int32_t num_qo_heads = 0;
  int32_t seq_q = 0;
  int32_t seq_k = 0;
  int32_t first_position = 0;
  int32_t num_tiles = 0;

  constexpr int64_t NumLists() const { return int64_t{batch} * num_qo_heads * num_tiles; }
};

// Vertical-slash: bitmaps and what is made of them, as in TopLinesParams (top_lines.h), per head of the batch.
struct LineLists {
  const uint64_t* bitmaps = nullptr;  // [head, 2, words]
  int32_t words = 0;
  const uint64_t* windows = nullptr;  // [head, WindowWords(top_position)]
  int32_t top_position = 0;
  // Kept columns in order, and how many of them lie in front of each word of 64.
  const int32_t* columns = nullptr;         // [head, column_capacity]
  const int32_t* columns_before = nullptr;  // [head, column_words + 1]
  int32_t column_capacity = 0;
  int32_t column_words = 0;
  // Changes of what both halves' windows say, and how many lie in front of each word.
  const uint32_t* changes = nullptr;        // [head, change_capacity]
  const int32_t* changes_before = nullptr;  // [head, change_words + 1]
  int32_t change_capacity = 0;
  int32_t change_words = 0;
};
cudaError_t LaunchLineLists(const LineLists& lists, const ListShape& shape, const ListArrays& arrays,
                            cudaStream_t stream);

// Block-sparse: one bit per key block of 64, per query block of 64 rows.
struct BlockLists {
  const uint64_t* bitmaps = nullptr;  // [batch * head, query block, words]
  int32_t num_query_blocks = 0;
  int32_t words = 0;
};
cudaError_t LaunchBlockLists(const BlockLists& lists, const ListShape& shape, const ListArrays& arrays,
                             cudaStream_t stream);

// One bit per key block of 2^key_block_log2 tokens (6 or 7), the same for all rows of a tile.
struct TileBlockLists {
  const uint64_t* bitmaps = nullptr;  // [batch * head, tile, words]
  int32_t key_block_log2 = 7;
  int32_t words = 0;
};
cudaError_t LaunchTileBlockLists(const TileBlockLists& lists, const ListShape& shape, const ListArrays& arrays,
                                 cudaStream_t stream);

// SampleAttention: one bit per column stripe and per diagonal stripe of 128, per chunk. Line bitmaps with pads as in
// top_lines.h.
struct StripeLists {
  const uint64_t* bitmaps = nullptr;  // [batch * head, chunk, 2, words]
  int32_t words = 0;
  int32_t num_chunks = 1;
  bool own_rows_only = false;
  bool keep_diagonal = false;
};
cudaError_t LaunchStripeLists(const StripeLists& lists, const ListShape& shape, const ListArrays& arrays,
                              cudaStream_t stream);

// S2-Attention: no picks at all. Heads whose offsets agree modulo the stride, and all sequences, share their entries.
struct ShardLists {
  int32_t local_blocks = 0;
  int32_t stride = 0;
  int32_t head_step = 0;
  int32_t offset = 0;
  int32_t heads_per_number = 1;  // the group size when KV heads are numbered
  bool subtract_offset = false;
  int32_t max_distance = 0;
};
cudaError_t LaunchShardLists(const ShardLists& lists, const ListShape& shape, const ListArrays& arrays,
                             cudaStream_t stream);

// Everything that the rule keeps; all heads share the entries.
cudaError_t LaunchRuleLists(const ElementRule& rule, const ListShape& shape, const ListArrays& arrays,
                            cudaStream_t stream);
constexpr int32_t kMostRuleRuns = 6;

}  // namespace headscope::kernels::selection
