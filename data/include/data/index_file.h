// SPDX-License-Identifier: Apache-2.0
// A sparse index as an HDF5 file, so that other programs can be timed on the very sets that headscope was timed on.
// docs/bench.md is the reference of the format (index formats 1 and 2).
//
// Layout: root attributes `format` = "headscope-index", `version`, the shape, the element rule, and the recipe of
// Q, K and V; datasets run_begin, run_count, column_begin, column_count (one entry per list), runs [n, 2] (start;
// length | flags << 28) and columns. Version 2, an index of a trace, has `heads` [num_qo_heads, 2] (layer, query head)
// as well. The numbers mean what kernels/sparse_index.h says; this room only stores them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/element_type.h"

namespace headscope::data {

struct IndexFile {
  std::string method;                         // as typed: "blocks-90", "vertical-slash:n_vertical=1000"
  std::string recipe;                         // of Q, K and V: "headscope-seeded-1"
  ElementType dtype = ElementType::kFloat32;  // in which Q, K and V were used
  int64_t seed = 0;                           // of the recipe and of the index; the same bits as the unsigned seed
  int32_t batch = 1;
  int32_t num_qo_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t seq_q = 0;
  int32_t seq_k = 0;
  int32_t first_position = 0;
  int32_t tile_rows = 0;
  int32_t mask_kind = 0;  // 0 none, 1 causal, 2 causal window
  int32_t window = 0;     // tokens
  int32_t num_sinks = 0;  // tokens
  std::vector<int64_t> run_begin;
  std::vector<int32_t> run_count;
  std::vector<int64_t> column_begin;
  std::vector<int32_t> column_count;
  std::vector<int32_t> runs;  // pairs
  std::vector<int32_t> columns;
  // Of a trace: pairs, whose the lists are, by the layer's number and the head's in it. Empty: one layer's, in order.
  std::vector<int32_t> heads;
};

// Creates `path`, which must not exist. Throws FailedError when the file cannot be written; one that could not be
// written whole is removed.
void WriteIndexFile(const std::string& path, const IndexFile& index);

// Reads a file that anybody may have made: types, links, filters and extents are checked before data is read, lists
// must have one length. What the numbers say is the caller's to validate. Throws BadInputError naming file and field.
IndexFile ReadIndexFile(const std::string& path);

}  // namespace headscope::data
