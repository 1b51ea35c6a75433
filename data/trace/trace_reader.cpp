// SPDX-License-Identifier: Apache-2.0
#include "data/trace_reader.h"

#include <algorithm>
#include <cstring>

#include "trace/trace_set.h"
#include "trace/trace_tensors.h"

namespace headscope::data {
namespace {

// Position of `value` in sorted `numbers`, or -1.
int32_t SlotOf(const std::vector<int32_t>& numbers, int32_t value) {
  const auto found = std::lower_bound(numbers.begin(), numbers.end(), value);
  return found != numbers.end() && *found == value ? static_cast<int32_t>(found - numbers.begin()) : -1;
}

// Values that are the first components of wider keys.
void ReadFirstComponents(const StoredTrace& trace, int32_t layer_slot, int32_t head_slot, int64_t begin, int64_t end,
                         const LayerFacts& facts, int64_t component_bytes, void* out) {
  constexpr int64_t kPiece = 1024;
  const auto wide = static_cast<size_t>(facts.head_dim * component_bytes);
  const auto narrow = static_cast<size_t>(facts.v_head_dim * component_bytes);
  std::vector<char> keys(static_cast<size_t>(std::clamp<int64_t>(end - begin, 0, kPiece)) * wide);
  auto* to = static_cast<char*>(out);
  for (int64_t at = begin; at < end; at += kPiece) {
    const int64_t next = std::min(end, at + kPiece);
    trace.Read(TraceTensor::kK, layer_slot, head_slot, at, next, keys.data());
    for (size_t i = 0; i < static_cast<size_t>(next - at); ++i, to += narrow) {
      std::memcpy(to, keys.data() + i * wide, narrow);
    }
  }
}

}  // namespace

struct TraceReader::Impl {
  TraceSet trace;
};

TraceReader::TraceReader(const std::string& path) : impl_(new Impl{TraceSet(path)}) {}

TraceReader::~TraceReader() = default;

const std::string& TraceReader::path() const {
  return impl_->trace.paths().front();
}
const std::vector<std::string>& TraceReader::files() const {
  return impl_->trace.paths();
}
const TraceLayout& TraceReader::layout() const {
  return impl_->trace.layout();
}
bool TraceReader::complete() const {
  return impl_->trace.complete();
}
int64_t TraceReader::num_tokens() const {
  return impl_->trace.num_tokens();
}
int64_t TraceReader::num_rows() const {
  return impl_->trace.num_rows();
}
const std::vector<TokenRecord>& TraceReader::tokens() const {
  return impl_->trace.tokens();
}
const std::vector<int32_t>& TraceReader::row_positions() const {
  return impl_->trace.row_positions();
}

const LayerFacts& TraceReader::layer(int32_t layer_slot) const {
  return layout().facts.at(static_cast<size_t>(layer_slot));
}

bool TraceReader::Has(int32_t layer_slot, TraceTensor tensor) const {
  const TraceSet::Place place = impl_->trace.PlaceOf(layer_slot);
  if (tensor == TraceTensor::kK || tensor == TraceTensor::kV) return true;
  return Stores(place.file->layout(), static_cast<size_t>(place.slot), tensor);
}

void TraceReader::Read(TraceTensor tensor, int32_t layer_slot, int32_t head_slot, int64_t begin, int64_t end,
                       void* out) const {
  const auto& [file, slot] = impl_->trace.PlaceOf(layer_slot);
  // A file may have more than the others of its trace.
  if (const int64_t readable = SpecOf(tensor).of_rows ? num_rows() : num_tokens(); end > readable) {
    throw std::out_of_range(file->path() + ": " + SpecOf(tensor).name + ": range " + std::to_string(begin) + ":" +
                            std::to_string(end) + " of " + std::to_string(readable));
  }
  const bool shared = tensor == TraceTensor::kK || tensor == TraceTensor::kV;
  if (!shared) return file->Read(tensor, slot, head_slot, begin, end, out);
  const LayerFacts& facts = layer(layer_slot);
  const auto source = static_cast<int32_t>(KeySource(file->layout(), static_cast<size_t>(slot)));
  if (tensor == TraceTensor::kK || !facts.v_is_k) return file->Read(tensor, source, head_slot, begin, end, out);
  if (facts.v_head_dim == facts.head_dim) return file->Read(TraceTensor::kK, source, head_slot, begin, end, out);
  ReadFirstComponents(*file, source, head_slot, begin, end, facts, SizeOf(layout().encoding), out);
}

void TraceReader::ReadQ(int32_t layer_slot, int32_t head_slot, int64_t begin, int64_t end, void* out) const {
  Read(TraceTensor::kQ, layer_slot, head_slot, begin, end, out);
}

void TraceReader::ReadK(int32_t layer_slot, int32_t kv_slot, int64_t begin, int64_t end, void* out) const {
  Read(TraceTensor::kK, layer_slot, kv_slot, begin, end, out);
}

void TraceReader::ReadV(int32_t layer_slot, int32_t kv_slot, int64_t begin, int64_t end, void* out) const {
  Read(TraceTensor::kV, layer_slot, kv_slot, begin, end, out);
}

void TraceReader::ReadLse(int32_t layer_slot, int32_t head_slot, int64_t begin, int64_t end, float* out) const {
  Read(TraceTensor::kLse, layer_slot, head_slot, begin, end, out);
}

int32_t TraceReader::LayerSlot(int32_t layer) const {
  return SlotOf(layout().layers, layer);
}
int32_t TraceReader::QoHeadSlot(int32_t layer_slot, int32_t head) const {
  return SlotOf(layer(layer_slot).qo_heads, head);
}
int32_t TraceReader::KvHeadSlot(int32_t layer_slot, int32_t kv_head) const {
  return SlotOf(layer(layer_slot).kv_heads, kv_head);
}

}  // namespace headscope::data
