// SPDX-License-Identifier: Apache-2.0
// Reads traces, also while they are still being written and after their writer was killed. Files are untrusted: their
// metadata is read by a process without rights, then types, ranks, links, filters, extents and places are checked
// before any data is read (BadInputError). One reader may be used from several threads, which read at the same time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/trace_schema.h"

namespace headscope::data {

class TraceReader {
 public:
  // A trace that is spread over several files is opened by any one of them, or by the name that they share
  // (trace_files.h), and read as a whole: the least of its files' counts is what it holds. BadInputError where a file
  // is missing or of another trace.
  explicit TraceReader(const std::string& path);
  ~TraceReader();
  TraceReader(const TraceReader&) = delete;
  TraceReader& operator=(const TraceReader&) = delete;

  const std::string& path() const;                // of several files the first one, whichever was named
  const std::vector<std::string>& files() const;  // all of them, in the order of their numbers
  const TraceLayout& layout() const;
  bool complete() const;
  int64_t num_tokens() const;  // readable tokens: tokens_flushed of a trace that is not complete
  int64_t num_rows() const;    // recorded query rows among them
  const std::vector<TokenRecord>& tokens() const;
  const std::vector<int32_t>& row_positions() const;  // token position of every recorded query row, strictly increasing

  // Facts of a recorded layer.
  const LayerFacts& layer(int32_t layer_slot) const;

  // Layer slots are indices into layout().layers, head slots into that layer's qo_heads / kv_heads. Rows or tokens
  // [begin, end). Raw values in the file's encoding; out: [end - begin, head_dim], of v [end - begin, v_head_dim]. Keys
  // and values of a layer that shares them are found where they are stored. Throws std::out_of_range for a range
  // outside the trace.
  void ReadQ(int32_t layer_slot, int32_t head_slot, int64_t begin, int64_t end, void* out) const;
  void ReadK(int32_t layer_slot, int32_t kv_slot, int64_t begin, int64_t end, void* out) const;
  void ReadV(int32_t layer_slot, int32_t kv_slot, int64_t begin, int64_t end, void* out) const;
  void ReadLse(int32_t layer_slot, int32_t head_slot, int64_t begin, int64_t end, float* out) const;

  // Any tensor, also those that traces need not have (Has); shapes and types as TraceTensor says. `head_slot` counts
  // the tensor's own heads: sets of a selection, index heads.
  bool Has(int32_t layer_slot, TraceTensor tensor) const;
  void Read(TraceTensor tensor, int32_t layer_slot, int32_t head_slot, int64_t begin, int64_t end, void* out) const;

  // Slot of a model layer, of a head in a recorded layer, or -1.
  int32_t LayerSlot(int32_t layer) const;
  int32_t QoHeadSlot(int32_t layer_slot, int32_t head) const;
  int32_t KvHeadSlot(int32_t layer_slot, int32_t kv_head) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Decodes `count` values of `encoding` to fp32 (bf16 by shifting; far faster than HDF5's own conversion).
void DecodeToFloat(const void* in, ElementType encoding, int64_t count, float* out);

}  // namespace headscope::data
