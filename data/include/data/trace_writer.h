// SPDX-License-Identifier: Apache-2.0
// Writes a trace while the model runs: HDF5 "latest" format with SWMR, so that every flushed token is readable after a
// kill.
//
// Use: create, AppendTokens + Append for each forward pass, Flush at least once a second, Finish. The file grows under
// its final name with complete = 0 (a killed capture leaves a valid, shorter trace); Finish sets complete = 1. Memory
// use does not depend on the trace's size. A writer is for one thread at a time; several writers may be used at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "data/trace_schema.h"

namespace headscope::data {

// One layer's slice of one forward pass: tokens [first_token, first_token + num_tokens) of K and V, and those query
// rows among them that are recorded. Data is in the layout's encoding, contiguous, and only read during the call.
struct LayerBlock {
  int32_t layer_slot = 0;  // index into TraceLayout::layers
  int64_t first_token = 0;
  int64_t num_tokens = 0;
  int64_t first_row = 0;  // index of the first recorded query row (rows already recorded for this layer)
  int64_t num_rows = 0;
  // The layer's part of every tensor that the file stores (TraceTensor gives shapes and types); others are not read: v
  // where it is k, k and v of a layer that reads another's.
  const void* q = nullptr;     // [qo_heads, num_rows, head_dim]
  const void* k = nullptr;     // [kv_heads, num_tokens, head_dim]
  const void* v = nullptr;     // [kv_heads, num_tokens, v_head_dim]
  const float* lse = nullptr;  // [qo_heads, num_rows], natural log; a sink's logit is among its terms
  std::array<const void*, kNumTraceTensors> others = {};  // those that traces need not have

  const void* Values(TraceTensor tensor) const {
    return tensor == TraceTensor::kQ     ? q
           : tensor == TraceTensor::kK   ? k
           : tensor == TraceTensor::kV   ? v
           : tensor == TraceTensor::kLse ? static_cast<const void*>(lse)
                                         : others[static_cast<size_t>(tensor)];
  }
  void Set(TraceTensor tensor, const void* values) {
    if (tensor == TraceTensor::kQ) q = values;
    if (tensor == TraceTensor::kK) k = values;
    if (tensor == TraceTensor::kV) v = values;
    if (tensor == TraceTensor::kLse) lse = static_cast<const float*>(values);
    others[static_cast<size_t>(tensor)] = values;
  }
};

enum class TraceStorage : uint8_t {
  kPlain,
  // What grows with layers and heads is shuffled and deflated: smaller files, which take longer to read. Tokens and
  // rows must come as many as the layout and expected_rows say, and the file is readable when it is finished, not
  // before.
  kCompressed,
};

// Memory for open chunks, the last ones of all heads: enough for 42 layers of 32 query and 8 KV heads. Where it is not,
// HDF5 writes begun chunks again and again, more slowly and in no more memory.
constexpr size_t kOpenChunkBytes = size_t{512} << 20;
// What a writer with so much memory for them holds of such a trace's open chunks when every head has one;
// `expected_rows` as it takes them.
int64_t BytesOfOpenChunks(const TraceLayout& layout, int64_t expected_rows, size_t open_chunk_bytes = kOpenChunkBytes);

class SpaceNeeded;

class TraceWriter {
 public:
  // `expected_rows`: query rows that will be recorded, as far as known (0: as many as tokens). It only sizes chunks, so
  // that a trace of few rows leaves none of them nearly empty. `space`: what is written beside it, which outlives the
  // writer; null: nothing. Throws FailedError when the file exists (and !overwrite), the folder cannot be written or
  // the layout is inconsistent.
  TraceWriter(const std::string& path, const TraceLayout& layout, bool overwrite, int64_t expected_rows = 0,
              TraceStorage storage = TraceStorage::kPlain, size_t open_chunk_bytes = kOpenChunkBytes,
              SpaceNeeded* space = nullptr);
  ~TraceWriter();  // as if killed: what was flushed stays readable
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  void AppendTokens(std::span<const TokenRecord> tokens);
  // Token positions of the query rows that the next blocks record, the same for all layers; called once per forward
  // pass, before its blocks.
  void AppendRowPositions(std::span<const int32_t> positions);
  // Throws FailedError when the disk is (nearly) full: what was flushed before stays intact and readable.
  void Append(const LayerBlock& block);
  // Makes everything appended so far durable against a kill of the process, and counts it in the attribute
  // tokens_flushed.
  void Flush();
  // Of a layout with answer_tokens: the score of the answer, which is there now. It is written with the next Flush.
  // Throws FailedError for other layouts.
  void SetAnswerScore(float score);
  // Flush, complete = 1, close.
  void Finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headscope::data
