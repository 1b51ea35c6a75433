// SPDX-License-Identifier: Apache-2.0
// Trace formats 2 and 3 as constants: names, limits and chunk sizes that writer and reader share. docs/trace_format.md
// explains them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/errors.h"
#include "data/trace_schema.h"

namespace headscope::data {

inline constexpr char kFormatName[] = "headscope-trace";
inline constexpr int32_t kFormatVersion = 2;
// Still read: docs/trace_format.md, "Format 1".
inline constexpr int32_t kFirstFormatVersion = 1;
// Of a trace that has a bidirectional layer: docs/trace_format.md, "Format 3".
inline constexpr int32_t kBidirectionalVersion = 3;

// The version that a trace of this layout has.
int32_t VersionOf(const TraceLayout& layout);

// Limits of what a trace may say of itself; far beyond any known model, small enough that products of two fit 32 bits.
inline constexpr int32_t kMaxLayers = 4096;
inline constexpr int32_t kMaxHeads = 4096;
inline constexpr int64_t kMaxAllHeads = int64_t{1} << 20;  // query and KV heads, all layers together
inline constexpr int32_t kMaxHeadDim = 4096;
inline constexpr int32_t kMaxSelectedIds = 65536;
inline constexpr int32_t kMaxHiddenSize = 65536;
inline constexpr int32_t kMaxPositionAxes = 3;
inline constexpr int64_t kMaxTokens = INT32_MAX;
// A set's name: what 128 random bits take as hexadecimal digits.
inline constexpr size_t kSetDigits = 32;
inline constexpr int64_t kMaxConfigBytes = int64_t{16} << 20;
// A value of one text attribute takes at most this many bytes: an object header of HDF5 holds 64 KiB in all.
inline constexpr size_t kMaxAttributeText = 16384;

// A chunk holds consecutive tokens (or rows) of one head of one layer: large enough to stream at the disk's rate, small
// enough that one head, one window and one decode step are all cheap to read.
inline constexpr int64_t kChunkBytes = 256 * 1024;

// Tokens or rows per chunk when `num_items` items of `item_bytes` bytes are expected: as few chunks of at most
// kChunkBytes as hold them, all of one length. The last chunk then lacks less than one item per chunk, whatever the
// number of tokens; round lengths would leave up to half of it empty.
int64_t ChunkItems(int64_t item_bytes, int64_t num_items);

// What is inconsistent in `layout`: the field, its value and what is allowed, for the caller to add the file and the
// remedy. Nothing when all of it agrees.
std::optional<Fault> LayoutFault(const TraceLayout& layout);

// Before a trace is written to `path`. Throws FailedError.
void RequireLayout(const TraceLayout& layout, const std::string& path);

// The same as LayoutFault of a file's place among those of its trace.
std::optional<Fault> PlaceFault(const TraceFilePlace& place);

// A value outside of low to high.
std::optional<Fault> OutsideFault(const std::string& field, int64_t value, int64_t low, int64_t high);

// Numbers of layers or heads, which must be at least one, rising and below `limit`.
std::optional<Fault> NumbersFault(const std::string& field, const std::vector<int32_t>& numbers, int32_t limit);

// How many keys the log-sum-exp of the row at `token` counts, in the recorded layer `layer_slot`: all that the model
// saw there (LayerFacts::FirstSeen), a sink not among them; in a bidirectional layer max_tokens, which are all there
// are. In a trace cut from a longer one those before its first token are among them.
int64_t LseKeys(const TraceLayout& layout, size_t layer_slot, int64_t token);

const char* EncodingName(ElementType encoding);  // "float32", "bfloat16", "float16"

}  // namespace headscope::data
