// SPDX-License-Identifier: Apache-2.0
#include "head_cache.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/errors.h"

namespace headscope::app {
namespace {

int64_t BytesOf(const analysis::HeadTensors& head) {
  const size_t values = head.q.size() + head.k.size() + head.v.size() + head.lse.size() + head.row_positions.size() +
                        head.q_pre_rope.size() + (head.previous_same ? head.previous_same->size() : 0);
  return static_cast<int64_t>(values * sizeof(float));
}

}  // namespace

HeadCache::HeadCache(const data::TraceReader& trace, std::shared_ptr<ui::MemoryBudget> memory)
    : trace_(trace), memory_(std::move(memory)) {}

HeadCache::~HeadCache() {
  for (const auto& [id, entry] : entries_) memory_->Release(entry.head.lock().get());
}

analysis::HeadTensorsPtr HeadCache::Find(const Entry& entry) const {
  const analysis::HeadTensorsPtr head = entry.head.lock();
  if (head) memory_->Keep(head, BytesOf(*head));
  return head;
}

void HeadCache::Pin(ui::MapView view, const analysis::HeadTensorsPtr& head) {
  std::weak_ptr<const analysis::HeadTensors>& shown = shown_[static_cast<size_t>(view)];
  const analysis::HeadTensorsPtr before = shown.lock();
  if (before == head) return;
  shown = head;
  const auto is_shown = [&](const auto& other) { return other.lock() == before; };
  if (before && std::none_of(shown_.begin(), shown_.end(), is_shown)) memory_->Pin(before.get(), false);
  if (head) memory_->Pin(head.get(), true);
}

analysis::HeadTensorsPtr HeadCache::Show(ui::MapView view, analysis::HeadId id) {
  analysis::HeadTensorsPtr head = Get(id);
  const std::lock_guard lock(mutex_);
  memory_->Keep(head, BytesOf(*head));  // it may have left since
  Pin(view, head);
  return head;
}

void HeadCache::Leave(ui::MapView view) {
  const std::lock_guard lock(mutex_);
  Pin(view, nullptr);
}

analysis::HeadTensorsPtr HeadCache::Get(analysis::HeadId id) {
  std::optional<std::promise<Reading>> promise;
  std::shared_future<Reading> reading;
  {
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_[id];
    if (analysis::HeadTensorsPtr head = Find(entry)) return head;
    if (!entry.reading.valid()) {
      promise.emplace();
      entry.reading = promise->get_future().share();
    }
    reading = entry.reading;
  }
  if (promise) return Read(id, &*promise);
  return reading.get().Get();
}

analysis::HeadTensorsPtr HeadCache::Read(analysis::HeadId id, std::promise<Reading>* promise) {
  const analysis::HeadTensorsPtr head = MakeForAll(
      promise,
      trace_.path() + ": head " + std::to_string(id.layer) + ":" + std::to_string(id.head) +
          " could not be read for an unknown reason; try again",
      [&] { return analysis::LoadHead(trace_, id, kWindowsGpu); },
      [&] {
        const std::lock_guard lock(mutex_);
        entries_.erase(id);
      });
  const std::lock_guard lock(mutex_);
  entries_[id] = {{}, head};
  memory_->Keep(head, BytesOf(*head));
  return head;
}

analysis::HeadTensorsPtr HeadCache::TryGet(analysis::HeadId id) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(id);
  return entry == entries_.end() ? nullptr : Find(entry->second);
}

analysis::HeadTensorsPtr HeadCache::GetUncached(analysis::HeadId id, const Device& device) {
  if (analysis::HeadTensorsPtr head = TryGet(id)) return head;
  return analysis::LoadHead(trace_, id, device);
}

}  // namespace headscope::app
