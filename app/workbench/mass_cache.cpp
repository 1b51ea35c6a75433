#include "mass_cache.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>

namespace headscope::app {
namespace {

// How soon a request that only waits notices that it is stale, and gives its worker back.
constexpr std::chrono::milliseconds kLookAtFlag(5);

template <typename Value>
bool IsReady(const std::shared_future<Value>& value) {
  return value.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

}  // namespace

MassCache::MassPtr MassCache::Get(const analysis::HeadTensorsPtr& head, const std::atomic<bool>& cancelled) {
  std::optional<std::promise<Computed>> promise;
  Entry entry;
  {
    const std::lock_guard lock(mutex_);
    if (cancelled) return nullptr;  // a stale request must not end the pass of the head on show
    std::erase_if(entries_, [&](const Entry& other) {
      const bool unfinished = other.head != head && !IsReady(other.computed);
      if (unfinished) *other.stop = true;
      return unfinished;
    });
    const auto known =
        std::find_if(entries_.begin(), entries_.end(), [&](const Entry& other) { return other.head == head; });
    if (known != entries_.end()) {
      entries_.splice(entries_.begin(), entries_, known);
    } else {
      promise.emplace();
      entries_.push_front({head, promise->get_future().share(), std::make_shared<std::atomic<bool>>(false)});
      if (entries_.size() > kCapacity) entries_.pop_back();
    }
    entry = entries_.front();
  }
  if (promise) return Compute(entry, &*promise);
  while (entry.computed.wait_for(kLookAtFlag) != std::future_status::ready) {
    if (cancelled) return nullptr;
  }
  const Computed& computed = entry.computed.get();
  if (!computed.error.empty()) throw std::runtime_error(computed.error);
  return computed.value;
}

MassCache::MassPtr MassCache::Compute(const Entry& entry, std::promise<Computed>* promise) {
  return MakeForAll(
      promise,
      "the masses of head " + std::to_string(entry.head->id.layer) + ":" + std::to_string(entry.head->id.head) +
          " could not be computed for an unknown reason; try again",
      [&] { return MassPtr(analysis::HeadMass::Compute(entry.head, 0, entry.stop.get())); },
      [&] {
        const std::lock_guard lock(mutex_);
        std::erase_if(entries_, [&](const Entry& other) { return other.stop == entry.stop; });
      });
}

void MassCache::Clear() {
  const std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_) *entry.stop = true;
  entries_.clear();
}

}  // namespace headscope::app
