#include "head_cache.h"

#include <optional>
#include <string>

namespace headscope::app {
namespace {

int64_t BytesOf(const analysis::HeadTensors& head) {
  const size_t values = head.q.size() + head.k.size() + head.v.size() + head.lse.size() + head.row_positions.size();
  return static_cast<int64_t>(values * sizeof(float));
}

}  // namespace

HeadCache::HeadCache(const data::TraceReader& trace, int64_t capacity_bytes)
    : trace_(trace), capacity_bytes_(capacity_bytes) {}

analysis::HeadTensorsPtr HeadCache::Get(analysis::HeadId id) {
  std::optional<std::promise<Reading>> promise;
  std::shared_future<Reading> reading;
  {
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_[id];
    if (!entry.reading.valid()) {
      promise.emplace();
      entry.reading = promise->get_future().share();
    }
    entry.last_used = ++clock_;
    reading = entry.reading;
  }
  if (promise) return Read(id, &*promise);
  if (!reading.get().error.empty()) throw data::TraceError(reading.get().error);
  return reading.get().value;
}

analysis::HeadTensorsPtr HeadCache::Read(analysis::HeadId id, std::promise<Reading>* promise) {
  const analysis::HeadTensorsPtr head = MakeForAll(
      promise,
      trace_.path() + ": head " + std::to_string(id.layer) + ":" + std::to_string(id.head) +
          " could not be read for an unknown reason; try again",
      [&] { return analysis::LoadHead(trace_, id, analysis::HeadPlace::kGpuWhereExact); },
      [&] {
        const std::lock_guard lock(mutex_);
        entries_.erase(id);
      });
  const std::lock_guard lock(mutex_);
  entries_[id].bytes = BytesOf(*head);
  EvictBeyondCapacity();
  return head;
}

analysis::HeadTensorsPtr HeadCache::TryGet(analysis::HeadId id) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(id);
  if (entry == entries_.end() || entry->second.bytes == 0) return nullptr;
  entry->second.last_used = ++clock_;
  return entry->second.reading.get().value;
}

analysis::HeadTensorsPtr HeadCache::GetUncached(analysis::HeadId id, analysis::HeadPlace place) {
  if (analysis::HeadTensorsPtr head = TryGet(id)) return head;
  return analysis::LoadHead(trace_, id, place);
}

void HeadCache::EvictBeyondCapacity() {
  for (;;) {
    int64_t total = 0;
    auto oldest = entries_.end();
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      total += entry->second.bytes;
      const bool can_leave = entry->second.bytes > 0 && entry->second.last_used != clock_;
      if (can_leave && (oldest == entries_.end() || entry->second.last_used < oldest->second.last_used)) oldest = entry;
    }
    if (total <= capacity_bytes_ || oldest == entries_.end()) return;
    entries_.erase(oldest);
  }
}

}  // namespace headscope::app
