// SPDX-License-Identifier: Apache-2.0
// Files that say what heads attend to, made by other programs and so untrusted: a FlexAttention block mask or an index
// as JSON, and DuoAttention's numbers per head. docs/methods.md and docs/bench.md have the formats.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "data/index_file.h"

namespace headscope::data {

// Key blocks that blocks of query rows keep.
struct BlockMaskFile {
  int32_t block_q = 128, block_k = 128;  // tokens
  int32_t num_heads = 1;
  int32_t num_rows = 0;        // blocks of query rows
  std::vector<int64_t> begin;  // [num_heads * num_rows + 1], CSR
  std::vector<int32_t> blocks;
};

// An index of a trace as JSON (`format` "headscope-index", `version` 2), which has the names of ReadIndexFile's; else a
// JSON object with FlexAttention's names: BLOCK_SIZE (a number, or [query, key]), kv_num_blocks [1, heads, rows] and
// kv_indices [1, heads, rows, at least as many], and, of blocks that need no mask, full_kv_num_blocks and
// full_kv_indices, which may be absent or null. Both kinds are kept. At most kMostTextBytes (untrusted_text.h). Lists
// have one length and every query head its layer; what an index's numbers say is the caller's to validate. Throws
// BadInputError naming file, field and remedy.
std::variant<IndexFile, BlockMaskFile> ReadMaskJson(const std::string& path);

// One line per layer, one number per KV head, separated by tabs or spaces.
struct HeadNumbers {
  int32_t num_layers = 0, num_heads = 0;
  std::vector<double> values;  // [num_layers, num_heads]
};
// Throws BadInputError naming file, line and remedy.
HeadNumbers ReadHeadNumbers(const std::string& path);

// What DuoAttention's own patterns have in a config.json beside these numbers: tokens that a streaming head keeps.
struct StreamingSizes {
  int32_t sink = 0, recent = 0;  // 1 to 2^20 each
};
// Of the config.json in the folder of the file with the numbers; none where there is no such file, or one without
// sink_size and recent_size, such as a model's. Throws BadInputError naming file, field and remedy.
std::optional<StreamingSizes> ReadStreamingSizes(const std::string& numbers_path);

}  // namespace headscope::data
