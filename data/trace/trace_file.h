// The objects of a trace that is being written: every group, dataset and attribute of format 1, created before
// streaming starts. From then on only extents, data and the values of three attributes change (docs/trace_format.md,
// "Crashes").
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "data/trace_schema.h"
#include "trace/growing_dataset.h"
#include "trace/hdf5_handle.h"

namespace headscope::data {

struct TraceFile {
  FileHandle file;
  AttributeHandle complete, tokens_flushed, rows_flushed;
  GrowingDataset ids, phase, step, text, text_offsets;  // of /tokens
  GrowingDataset q_rows, q, k, v, lse, lse_keys;        // of /attention

  // Makes a new, empty file. Throws TraceError when there is one already (and not `overwrite`) or the folder cannot be
  // written.
  void Create(const std::string& path, bool overwrite);
  // Creates everything in it and starts to stream; chunks are made for that many query rows. Throws TraceError.
  void CreateObjects(const TraceLayout& layout, int64_t expected_rows);

  // Bytes that the datasets take on disk when they hold so much, every started chunk counted whole.
  int64_t StoredBytes(int64_t num_tokens, int64_t num_rows, int64_t text_bytes) const;
  // Gives all identifiers up without closing them: after a failed write HDF5's caches are unfit for anything, closing
  // included.
  void Abandon();

 private:
  void CreateTokens(const TraceLayout& layout);
  void CreateAttention(const TraceLayout& layout, int64_t expected_rows);
  std::array<GrowingDataset*, 11> Datasets();
};

}  // namespace headscope::data
