#include "data/trace_reader.h"

#include <algorithm>

#include "trace/stored_trace.h"

namespace headscope::data {
namespace {

// Position of `value` in sorted `numbers`, or -1.
int32_t SlotOf(const std::vector<int32_t>& numbers, int32_t value) {
  const auto found = std::lower_bound(numbers.begin(), numbers.end(), value);
  return found != numbers.end() && *found == value ? static_cast<int32_t>(found - numbers.begin()) : -1;
}

}  // namespace

struct TraceReader::Impl {
  StoredTrace trace;
};

TraceReader::TraceReader(const std::string& path) : impl_(new Impl{StoredTrace(path)}) {}

TraceReader::~TraceReader() = default;

const std::string& TraceReader::path() const {
  return impl_->trace.path();
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

void TraceReader::ReadQ(int32_t layer_slot, int32_t head_slot, int64_t begin, int64_t end, void* out) const {
  const StoredTrace& trace = impl_->trace;
  trace.Read(trace.q(), layer_slot, head_slot, begin, end, trace.num_rows(), out);
}

void TraceReader::ReadK(int32_t layer_slot, int32_t kv_slot, int64_t begin, int64_t end, void* out) const {
  const StoredTrace& trace = impl_->trace;
  trace.Read(trace.k(), layer_slot, kv_slot, begin, end, trace.num_tokens(), out);
}

void TraceReader::ReadV(int32_t layer_slot, int32_t kv_slot, int64_t begin, int64_t end, void* out) const {
  const StoredTrace& trace = impl_->trace;
  trace.Read(trace.v(), layer_slot, kv_slot, begin, end, trace.num_tokens(), out);
}

void TraceReader::ReadLse(int32_t layer_slot, int32_t head_slot, int64_t begin, int64_t end, float* out) const {
  const StoredTrace& trace = impl_->trace;
  trace.Read(trace.lse(), layer_slot, head_slot, begin, end, trace.num_rows(), out);
}

int32_t TraceReader::LayerSlot(int32_t layer) const {
  return SlotOf(layout().layers, layer);
}
int32_t TraceReader::QoHeadSlot(int32_t head) const {
  return SlotOf(layout().qo_heads, head);
}
int32_t TraceReader::KvHeadSlot(int32_t kv_head) const {
  return SlotOf(layout().kv_heads, kv_head);
}

}  // namespace headscope::data
