// SPDX-License-Identifier: Apache-2.0
// The objects of a trace that is being written: every group, dataset and attribute of format 2, created before
// streaming starts. From then on only extents, data and the values of four attributes change (docs/trace_format.md,
// "Crashes").
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "data/trace_schema.h"
#include "trace/growing_dataset.h"
#include "trace/hdf5_handle.h"

namespace headscope::data {

// The datasets of layers of one shape (PartsOf): /attention itself, then /attention/part_1 and so on.
struct FilePart {
  std::vector<int32_t> slots;  // of the recorded layers in it
  std::array<GrowingDataset, kNumTraceTensors> tensors;
  std::array<bool, kNumTraceTensors> stored = {};
  GrowingDataset lse_keys;
};

// How the chunks are made.
struct ChunkPlan {
  int64_t expected_rows = 0;  // query rows that they are made for
  bool compressed = false;    // those of heads; such a file is no stream, and nobody may read it before it is closed
  size_t open_bytes = 0;      // of open chunks that are kept in memory, about
};

// Vectors that grow by one with a token, all heads of all layers: what shares the memory for open chunks.
int64_t OpenVectors(const TraceLayout& layout);

struct TraceFile {
  FileHandle file;
  AttributeHandle complete, tokens_flushed, rows_flushed;
  // Where the layout announces an answer. HDF5 1.10 writes no attribute of a group that is not open.
  GroupHandle tokens;
  AttributeHandle answer_score;
  GrowingDataset ids, phase, step, text, text_offsets;  // of /tokens
  GrowingDataset role, positions;                       // where the layout has them
  bool has_role = false, has_positions = false;
  GrowingDataset q_rows;  // of /attention
  std::vector<FilePart> parts;

  // Makes a new, empty file. Throws FailedError when there is one already (and not `overwrite`) or the folder cannot be
  // written.
  void Create(const std::string& path, bool overwrite);
  // Creates everything in it and, unless it is compressed, starts to stream. Throws FailedError.
  void CreateObjects(const TraceLayout& layout, const ChunkPlan& chunks);

  // Bytes that the datasets take on disk when they hold so much, every started chunk counted whole.
  int64_t StoredBytes(int64_t num_tokens, int64_t num_rows, int64_t text_bytes) const;
  // Gives all identifiers up without closing them: after a failed write HDF5's caches are unfit for anything, closing
  // included.
  void Abandon();

 private:
  void CreateTokens(const TraceLayout& layout);
  void CreateAttention(const TraceLayout& layout, const ChunkPlan& chunks);
  void CreatePart(hid_t group, const TraceLayout& layout, const ChunkPlan& chunks, FilePart* part);
  // Calls use(dataset, kind) for every dataset that grows.
  enum class Growth { kTokens, kRows, kText, kOffsets };
  template <typename Self, typename Use>
  static void ForEach(Self& self, Use use);
};

}  // namespace headscope::data
