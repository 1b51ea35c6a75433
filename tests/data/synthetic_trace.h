// SPDX-License-Identifier: Apache-2.0
// Traces whose every value is a pure function of its place, so that whoever reads one (this program after a crash, or
// the Python oracle in tests/oracle/trace_values.py) knows what must be there without having seen it written.
#pragma once

#include <cstdint>
#include <string>

#include "data/trace_reader.h"
#include "data/trace_schema.h"
#include "data/trace_writer.h"

namespace headscope::data::testing {

enum class Tensor : uint32_t { kQ = 1, kK = 2, kV = 3, kLse = 4 };  // and of the others, TraceTensor + 1

// A 64-bit mix of a value's place: tensor, model layer, model head, token position, dimension.
uint64_t PlaceHash(Tensor tensor, int64_t layer, int64_t head, int64_t position, int64_t dim);
// The stored bits of a q, k or v value: a normal number of either sign around one.
uint32_t ValueBits(ElementType encoding, uint64_t hash);
float LseValue(int64_t layer, int64_t head, int64_t position);
TokenRecord TokenAt(int64_t position, int64_t num_prompt);

// 3 layers of 5, query heads 1, 2, 3, 5 of 8 over 4 KV heads, head_dim 16 unless changed afterwards.
TraceLayout SmallLayout(ElementType encoding, int64_t max_tokens);

// Gives every layer heads of that size.
void SetHeadDim(TraceLayout* layout, int32_t head_dim);
// Layers 1 to 4 of 6, whose heads, sizes, masks, sinks, links and optional tensors all differ; layer 0 is linear, 5 has
// no tokens to mix. Tokens have roles and three positions.
TraceLayout DifferingLayout(ElementType encoding, int64_t max_tokens);

// Whether a query row is recorded at `position`.
bool Recorded(const TraceLayout& layout, int64_t position);

// One of a few ways to write: encodings, lengths of passes, how often is flushed, who keeps open chunks.
// tests/oracle/trace_values.py need not know them.
struct StressVariant {
  TraceLayout layout;
  int64_t pass = 1;         // tokens per forward pass
  int64_t flush_every = 1;  // passes per flush
  int64_t num_prompt = 64;
  size_t open_chunk_bytes = kOpenChunkBytes;
};
// Memory for fewer open chunks than SmallLayout's heads have: HDF5's cache then keeps them in place of the writer.
constexpr size_t kFewOpenChunks = size_t{2} << 20;
StressVariant Variant(int number);

// Appends tokens [begin, end) as one forward pass.
void AppendPass(TraceWriter& writer, const TraceLayout& layout, int64_t begin, int64_t end, int64_t num_prompt);

// Writes `num_tokens` tokens in passes of `pass` and finishes the trace.
void WriteTrace(const std::string& path, const TraceLayout& layout, int64_t num_tokens, int64_t pass,
                int64_t expected_rows = 0, TraceStorage storage = TraceStorage::kPlain,
                size_t open_chunk_bytes = kOpenChunkBytes);

// The bytes of a trace of 8 tokens with one head of 4 numbers: little data, so that most changes hit what HDF5 parses.
std::string TinyTrace(TraceStorage storage = TraceStorage::kPlain);
// The bytes of a DifferingLayout trace of 8 tokens.
std::string TinyDifferingTrace();

// Empty when every readable value of `reader` is what it must be; else the first difference.
std::string FirstDifference(const TraceReader& reader, int64_t num_prompt);

// A fresh folder for one test, removed at the end.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::string File(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace headscope::data::testing
