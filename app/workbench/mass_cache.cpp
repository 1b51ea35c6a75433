#include "mass_cache.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>

namespace headscope::app {
namespace {

// How soon a request that only waits notices that it is stale, and gives its worker back.
constexpr std::chrono::milliseconds kLookAtFlag(5);

bool IsReady(const std::shared_future<MassCache::MassPtr>& mass) {
  return mass.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

}  // namespace

MassCache::MassPtr MassCache::Get(const analysis::HeadTensorsPtr& head, const std::atomic<bool>& cancelled) {
  std::optional<std::promise<MassPtr>> promise;
  Entry entry;
  {
    const std::lock_guard lock(mutex_);
    if (cancelled) return nullptr;  // a stale request must not end the pass of the head on show
    std::erase_if(entries_, [&](const Entry& other) {
      const bool unfinished = other.head != head && !IsReady(other.mass);
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
  if (promise) {
    try {
      promise->set_value(analysis::HeadMass::Compute(head, 0, entry.stop.get()));
    } catch (...) {
      // The next one to ask tries again; those who wait now get the reason.
      {
        const std::lock_guard lock(mutex_);
        std::erase_if(entries_, [&](const Entry& other) { return other.stop == entry.stop; });
      }
      promise->set_exception(std::current_exception());
    }
  }
  while (entry.mass.wait_for(kLookAtFlag) != std::future_status::ready) {
    if (cancelled) return nullptr;
  }
  return entry.mass.get();
}

void MassCache::Clear() {
  const std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_) *entry.stop = true;
  entries_.clear();
}

}  // namespace headscope::app
