// SPDX-License-Identifier: Apache-2.0
#include "kernels/packed_index.h"

#include <algorithm>
#include <string>
#include <utility>

namespace headscope::kernels {
namespace {

Status CheckSequence(const SparseIndexView& first, const SparseIndexView& sequence, size_t number) {
  const auto refuse = [&](const char* field, int64_t value, const std::string& allowed) {
    return Status{StatusCode::kInvalidArgument, "sequence " + std::to_string(number) + ": " + field + " is " +
                                                    std::to_string(value) + ": " + allowed + "."};
  };
  const auto as_first = [](int64_t value) { return "sequence 0 has " + std::to_string(value); };
  if (sequence.batch != 1) return refuse("batch", sequence.batch, "must be 1");
  if (sequence.num_qo_heads != first.num_qo_heads) {
    return refuse("num_qo_heads", sequence.num_qo_heads, as_first(first.num_qo_heads));
  }
  if (sequence.tile_rows != first.tile_rows) return refuse("tile_rows", sequence.tile_rows, as_first(first.tile_rows));
  if (sequence.rule != first.rule) {
    return refuse("rule.kind", static_cast<int64_t>(sequence.rule.kind), "must be sequence 0's, with its numbers");
  }
  if (sequence.first_position + sequence.seq_q != sequence.seq_k) {
    return refuse("first_position", sequence.first_position, "the last row must stand at the last key");
  }
  return {};
}

}  // namespace

Status PackIndices(std::span<const SparseIndexView> sequences, SparseIndex* packed) {
  if (sequences.empty()) return {StatusCode::kInvalidArgument, "there is no sequence to pack."};
  const SparseIndexView& first = sequences.front();
  SparseIndex made;
  made.batch = static_cast<int32_t>(sequences.size());
  made.num_qo_heads = first.num_qo_heads;
  made.tile_rows = first.tile_rows;
  made.rule = first.rule;
  for (size_t s = 0; s < sequences.size(); ++s) {
    if (Status status = CheckSequence(first, sequences[s], s); !status.ok()) return status;
    made.seq_q = std::max(made.seq_q, sequences[s].seq_q);
    made.seq_k = std::max(made.seq_k, sequences[s].seq_k);
  }
  const int32_t num_tiles = made.View().NumRowTiles();
  for (const SparseIndexView& sequence : sequences) {
    for (int32_t head = 0; head < sequence.num_qo_heads; ++head) {
      for (int32_t tile = 0; tile < num_tiles; ++tile) {
        made.run_begin.push_back(static_cast<int64_t>(made.runs.size()));
        made.column_begin.push_back(static_cast<int64_t>(made.columns.size()));
        const bool present = tile < sequence.NumRowTiles();
        const auto list = static_cast<size_t>(present ? sequence.ListId(0, head, tile) : 0);
        made.run_count.push_back(present ? sequence.run_count[list] : 0);
        made.column_count.push_back(present ? sequence.column_count[list] : 0);
        if (!present) continue;
        const KeyRun* const runs = sequence.runs + sequence.run_begin[list];
        made.runs.insert(made.runs.end(), runs, runs + sequence.run_count[list]);
        const int32_t* const columns = sequence.columns + sequence.column_begin[list];
        made.columns.insert(made.columns.end(), columns, columns + sequence.column_count[list]);
      }
    }
  }
  *packed = std::move(made);
  return {};
}

}  // namespace headscope::kernels
